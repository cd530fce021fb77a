"""The tree and its history: git, what changed, paths and what a list of them watches."""

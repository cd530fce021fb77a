"""The selected steps on this machine: which it can run, in which order, with which devices, and what came of it."""

"""Which devices this process has, and which one a run gets."""

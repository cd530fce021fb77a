"""Attention kernels: which exist, which one a role gets and why, and how diffusers is made to use it."""

"""Cards: what a worker sees, who holds which, and what a child gets."""

"""Which steps run, and why."""

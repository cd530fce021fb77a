"""Coverage per model and mode."""

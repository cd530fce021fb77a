"""One file a kernel."""

"""The shared language of plugin, orchestrator and runtime: platforms, SKUs, levels, processes, errors. Torch-free."""

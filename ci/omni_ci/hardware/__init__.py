"""Machines of steps: presets, pods, plugins, and the hardware that commands ask for."""

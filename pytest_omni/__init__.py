"""A pytest plugin for projects that test on more than one kind of accelerator."""

"""What `omni-ci lint` looks for: one file a rule, found by its name, `ci<three digits>_<noun>.py`."""

"""What a user configures, parsed into frozen values. Torch-free; only `from_environment` functions see the environment."""

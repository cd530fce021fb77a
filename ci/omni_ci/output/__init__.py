"""Validated pipelines on their way to Buildkite."""

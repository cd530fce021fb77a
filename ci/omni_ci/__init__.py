"""From one YAML dialect and a diff to a validated Buildkite pipeline, with a reason for every step."""

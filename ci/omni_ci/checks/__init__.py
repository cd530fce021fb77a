"""What Buildkite or Kubernetes would refuse, found before an upload."""

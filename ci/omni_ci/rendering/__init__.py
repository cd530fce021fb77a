"""Steps as Buildkite reads them."""

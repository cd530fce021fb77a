"""Whether a build starts anything: skips, gates and the bootstrap."""

"""How many jobs Buildkite makes of one step."""

from __future__ import annotations

from math import prod
from typing import Any


def job_count(parallelism: Any, matrix: Any) -> int:
    """Return the number of jobs: the shards, or the combinations of the matrix; 1 where neither can be counted."""
    setup = matrix.get("setup") if isinstance(matrix, dict) else matrix
    sides = setup.values() if isinstance(setup, dict) else [setup]
    combinations = prod(len(side) for side in sides if isinstance(side, list) and side)
    return combinations * (parallelism if isinstance(parallelism, int) and parallelism > 0 else 1)

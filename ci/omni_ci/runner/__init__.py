"""Runs a job's commands where it was sent: one bash, a status for each command, nothing left behind.

The standard library, psutil and `omni_hardware` are all it imports: a pod's image need not hold the `ci` extra.
"""

from omni_ci.runner.outcome import ItemResult, Outcome
from omni_ci.runner.running import run_items

__all__ = ["ItemResult", "Outcome", "run_items"]

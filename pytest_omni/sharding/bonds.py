"""Which shared fixtures keep their tests in one shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_omni.sharding.affinity import OURS, Instance

# Every further shard starts a pytest, which takes about as long: a cheaper fixture may as well be built again.
CHEAP_S = 1.0
_WIDE = frozenset({"package", "session"})


def bonds(shared: Sequence[Sequence[Instance]], measured: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Return for each test the keys of the fixtures that it should share with others in one shard.

    Our servers and engines always count. Another fixture counts if its set-up was measured to take a second or
    more, or if nobody measured it and tests choose it by a parameter, as one does with what is expensive. What
    most of the selection uses and nobody chooses, such as a session-wide autouse fixture, never counts: every shard
    builds it in any case, and it would glue the whole suite together.
    """
    users = Counter(instance for instances in shared for instance in instances)
    counting = {
        instance: instance.key
        for instance, serves in users.items()
        if _counts(instance, measured.get(instance.key), most=2 * serves > len(shared))
    }
    return [
        tuple(counting[instance] for instance in instances if instance in counting) for instances in shared
    ]


def _counts(instance: Instance, seconds: float | None, *, most: bool) -> bool:
    if instance.fixture in OURS:
        return True
    costly = instance.parametrized if seconds is None else seconds >= CHEAP_S
    return costly and not (most and instance.scope in _WIDE and not instance.parametrized)

"""What a test and a shared fixture will cost, where nobody measured them: a median of their neighbours.

Never a mean over everything: one slow model would make every new unit test look slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_omni.sharding.durations import Durations
from pytest_omni.sharding.suite import Case

# With nothing measured, tests are equal, and starting a server costs as much as this many of them: e2e suites of
# several inference projects start one in about 240 s and then ask for about 20 s a test.
UNKNOWN_TEST_S = 1.0
UNKNOWN_SETUP_TESTS = 12


def seconds_of(ids: Sequence[str], needs: Sequence[tuple[str, ...]], durations: Durations) -> list[float]:
    """Return the seconds of each test: measured, else the median of its group, its file, the nearest folder, all."""
    known = durations.tests
    missing = [at for at, nodeid in enumerate(ids) if nodeid not in known]
    found = [known.get(nodeid, 0.0) for nodeid in ids]
    if missing:
        medians = _medians(_places(ids, needs, known))
        for at in missing:
            places = (*needs[at], *_folders(ids[at]))
            found[at] = next((medians[place] for place in places if place in medians), UNKNOWN_TEST_S)
    return found


def setups_of(cases: Iterable[Case], durations: Durations) -> dict[str, float]:
    """Return the seconds of building each fixture: measured, else the median of its kin, else some tests' worth."""
    users: dict[str, list[float]] = {}
    for case in cases:
        for need in case.needs:
            users.setdefault(need, []).append(case.seconds)
    kin = _medians((place, seconds) for key, seconds in durations.fixtures.items() for place in _kinship(key))
    return {
        need: durations.fixtures[need]
        if need in durations.fixtures
        else next(
            (kin[place] for place in _kinship(need) if place in kin), UNKNOWN_SETUP_TESTS * median(seconds)
        )
        for need, seconds in users.items()
    }


def _places(
    ids: Sequence[str], needs: Sequence[tuple[str, ...]], known: Mapping[str, float]
) -> Iterator[tuple[str, float]]:
    for nodeid, groups in zip(ids, needs, strict=True):
        if nodeid in known:
            yield from ((group, known[nodeid]) for group in groups)
    for nodeid, seconds in known.items():
        yield from ((folder, seconds) for folder in _folders(nodeid))


def _folders(nodeid: str) -> Iterator[str]:
    """Yield the file of *nodeid*, then its folders, outwards."""
    place = nodeid.partition("::")[0]
    yield place
    while "/" in place:
        place = place.rpartition("/")[0]
        yield f"{place}/"
    yield "/"


def _kinship(key: str) -> tuple[str, str]:
    """Return the fixture in its file, and the fixture anywhere."""
    name, _, where = key.partition("@")
    return f"{name}@{where.partition('[')[0]}", name


def median(values: Iterable[float]) -> float:
    """Return the middle of *values*, at least one; `statistics` takes 8 ms to import."""
    found = sorted(values)
    half = len(found) // 2
    return found[half] if len(found) % 2 else (found[half - 1] + found[half]) / 2


def _medians(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for place, seconds in pairs:
        found.setdefault(place, []).append(seconds)
    return {place: median(values) for place, values in found.items()}

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
    if not known:
        return [UNKNOWN_TEST_S] * len(ids)
    found = [known.get(nodeid, -1.0) for nodeid in ids]
    missing = [at for at, seconds in enumerate(found) if seconds < 0]
    if missing:
        groups = _medians(
            (group, found[at]) for at, own in enumerate(needs) if found[at] >= 0 for group in own
        )
        places = _medians_of_places(known)
        by_file: dict[str, float] = {}
        for at in missing:
            file = ids[at].partition("::")[0]
            if file not in by_file:
                by_file[file] = next(places[place] for place in _folders(file) if place in places)
            found[at] = next((groups[group] for group in needs[at] if group in groups), by_file[file])
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


def _medians_of_places(known: Mapping[str, float]) -> dict[str, float]:
    files: dict[str, list[float]] = {}
    for nodeid, seconds in known.items():
        files.setdefault(nodeid.partition("::")[0], []).append(seconds)
    places: dict[str, list[float]] = {}
    for file, seconds_here in files.items():
        for place in _folders(file):
            places.setdefault(place, []).extend(seconds_here)
    return {place: median(values) for place, values in places.items()}


def _folders(file: str) -> Iterator[str]:
    """Yield *file*, then its folders, outwards; "/" is above all."""
    yield file
    while "/" in file:
        file = file.rpartition("/")[0]
        yield f"{file}/"
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

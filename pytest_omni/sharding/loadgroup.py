"""One built fixture stays in one worker under ``--dist loadgroup``, without a change to any node id.

pytest-xdist tells its scheduler the group of a test by a suffix on the node id, which pytest 9.2 does not take any
more (pytest-xdist#1386: the groups are silently ignored). Here the workers leave a list of groups beside their
temporary folders, and the scheduler reads it. Private parts of pytest and pytest-xdist that are used, all here:
`config._tmp_path_factory` and the scheduler's `_split_scope`; without them pytest-xdist schedules by itself.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_omni.sharding.dividing import read
from pytest_omni.sharding.packing import marked
from pytest_omni.sharding.suite import components

_FILE = "omni-groups.json"


def write_groups(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Leave the groups of *items* where the controller looks for them; each worker writes the same."""
    own = config.getoption("basetemp", None)  # .../pytest-N/popen-gw0
    groups = groups_of_items(config, items)
    if own is None or not groups:
        return
    folder = Path(own).parent
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, prefix=_FILE, delete=False) as file:
        json.dump(groups, file)
    Path(file.name).replace(folder / _FILE)


def groups_of_items(config: pytest.Config, items: Sequence[pytest.Item]) -> dict[str, str]:
    """Return the group by node id, for tests that share something expensive or carry an xdist_group mark.

    The user's own group gives the name where there is one.
    """
    reading = read(config, items)
    keys = [(*needs, *marked(groups)) for needs, groups in zip(reading.needs, reading.groups, strict=True)]
    found: dict[str, str] = {}
    for cases in components((at for at, key in enumerate(keys) if key), lambda at: keys[at]):
        given = sorted({name for at in cases for name in reading.groups[at]})
        needs = sorted({need for at in cases for need in reading.needs[at]})
        found.update(dict.fromkeys((reading.ids[at] for at in cases), (given or needs)[0]))
    return found


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler that knows the groups, or None to leave it to pytest-xdist."""
    from xdist.scheduler import LoadGroupScheduling

    factory = getattr(config, "_tmp_path_factory", None)
    if factory is None or not hasattr(LoadGroupScheduling, "_split_scope"):
        return None
    file = Path(factory.getbasetemp()) / _FILE

    class GroupScheduling(LoadGroupScheduling):  # type: ignore[misc]
        groups: Mapping[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.groups is None:  # by the first question every worker has written
                self.groups = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
            return self.groups.get(nodeid) or str(super()._split_scope(nodeid))

    return GroupScheduling(config, log)

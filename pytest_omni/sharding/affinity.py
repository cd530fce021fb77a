"""Which built fixtures a test shares with others: (fixture, node of its scope, parameters).

The only file that reads private parts of pytest: an item's `_fixtureinfo` and `callspec._idlist`. Where a pytest
does not have them, our own fixtures are still told apart by public means, and `Affinities.degraded` says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

OURS: Final = frozenset({"omni_server", "omni_runner"})
SESSION: Final = "session"
_GROUP: Final = "xdist_group"
_ID = pytest.StashKey[str]()


@dataclass(frozen=True, slots=True)
class Instance:
    """One fixture, built once; *key* is its name in durations.json, such as ``omni_server@tests/a.py[z_image]``.

    scope: class, module, package or session. parametrized: whether the test chooses which one it gets.
    """

    key: str
    fixture: str
    scope: str
    parametrized: bool


@dataclass(frozen=True, slots=True)
class _Shared:
    """A fixture definition that outlives one test, and the fixtures that it is built on. definition: its id()."""

    definition: int
    name: str
    scope: str
    baseid: str
    built_on: tuple[str, ...]


class Affinities:
    """Answers for the items of one session.

    Variants of a function and tests of a parent come one after the other, so what was found for the last one mostly
    serves the next. Nothing is kept for each function: in a suite of 20,000 a table of them costs more than a look.
    """

    def __init__(self) -> None:
        self.degraded = False
        self._function: object = self
        self._shared: tuple[_Shared, ...] = ()
        self._variants: dict[tuple[str, tuple[int, ...]], Instance | None] = {}
        self._parent: object = self
        self._here: dict[int, Instance | None] = {}
        self._groups: tuple[str, ...] = ()
        self._groups_of: dict[int, tuple[object, tuple[str, ...]]] = {}
        self._keys: dict[Hashable, Instance] = {}
        self._taken: dict[str, int] = {}

    def of(self, item: pytest.Item) -> tuple[Instance, ...]:
        """Return what *item* shares by name; what it asks for while it runs cannot be known."""
        info = getattr(item, "_fixtureinfo", None)
        if info is not self._function:
            self._function, self._shared, self._variants = info, tuple(_shared(info)), {}
        if self._shared:
            if item.parent is not self._parent:
                self._enter(item.parent)
            look = self._variant if hasattr(item, "callspec") else self._plain
            return tuple([found for shared in self._shared if (found := look(item, shared))])
        if not hasattr(info, "name2fixturedefs") and isinstance(item, pytest.Function):
            return tuple(self._by_name(item))
        return ()

    def built(self, item: pytest.Item, definition: Any) -> Instance | None:
        """Return what *definition*, a FixtureDef, builds for *item*; None for what only *item* has."""
        for instance in self.of(item):
            if instance.fixture == definition.argname:
                return instance
        if _is_pytests_own(definition):
            return None
        return self._instance(item, _shared_by(definition, ()))

    def groups(self, item: pytest.Item) -> tuple[str, ...]:
        """Return the names of *item*'s xdist_group marks; those of its parents are read once a parent."""
        if item.parent is not self._parent:
            self._enter(item.parent)
        if item.own_markers and (
            own := [_group_name(mark) for mark in item.own_markers if mark.name == _GROUP]
        ):
            return (*own, *self._groups)
        return self._groups

    def _enter(self, parent: pytest.Item | pytest.Collector | None) -> None:
        known = self._groups_of.get(id(parent))
        if known is None:
            inherited = parent.iter_markers(_GROUP) if parent else ()
            # the parent is kept, so its id stays its own
            known = self._groups_of[id(parent)] = (parent, tuple(map(_group_name, inherited)))
        self._parent, self._here, self._groups = parent, {}, known[1]

    def _plain(self, item: pytest.Item, shared: _Shared) -> Instance | None:
        if shared.definition not in self._here:
            self._here[shared.definition] = self._instance(item, shared)
        return self._here[shared.definition]

    def _variant(self, item: pytest.Item, shared: _Shared) -> Instance | None:
        indices: Mapping[str, int] = item.callspec.indices  # type: ignore[attr-defined]
        at = (shared.name, tuple([indices.get(name, -1) for name in (shared.name, *shared.built_on)]))
        if at not in self._variants:
            self._variants[at] = self._instance(item, shared)
        return self._variants[at]

    def _instance(self, item: pytest.Item, shared: _Shared) -> Instance | None:
        where = _where(item, shared)
        if where is None:
            return None
        params = getattr(getattr(item, "callspec", None), "params", {})
        chosen = [name for name in (shared.name, *shared.built_on) if name in params]
        identity = (shared.name, where, tuple((name, _frozen(params[name])) for name in chosen))
        if identity not in self._keys:
            label = ",".join(_label(item, name) for name in chosen)
            key = f"{shared.name}@{where}" + (f"[{label}]" if chosen else "")
            self._keys[identity] = Instance(
                self._unique(key), shared.name, shared.scope, shared.name in params
            )
        return self._keys[identity]

    def _unique(self, key: str) -> str:
        # two parameters may carry one id; they are two servers all the same
        count = self._taken[key] = self._taken.get(key, 0) + 1
        return key if count == 1 else f"{key}#{count}"

    def _by_name(self, item: pytest.Function) -> Iterator[Instance]:
        self.degraded = True
        for name in item.fixturenames:
            if name in OURS and (found := self._instance(item, _Shared(0, name, "module", "", ()))):
                yield found


def _group_name(mark: pytest.Mark) -> str:
    return str(mark.args[0] if mark.args else mark.kwargs.get("name", "default"))


def remember_nodeid(item: pytest.Item) -> None:
    """Keep *item*'s node id: under ``--dist loadgroup`` pytest-xdist appends the group to it."""
    item.stash[_ID] = item.nodeid


def nodeid_of(item: pytest.Item) -> str:
    """Return *item*'s node id as pytest itself gave it."""
    return item.stash.get(_ID, item.nodeid)


def _shared(info: Any) -> Iterator[_Shared]:
    definitions: Mapping[str, Sequence[Any]] = getattr(info, "name2fixturedefs", {})
    for known in definitions.values():
        if known and known[-1].scope != "function" and not _is_pytests_own(known[-1]):
            yield _shared_by(known[-1], tuple(_built_on(info, known[-1])))


def _shared_by(definition: Any, built_on: tuple[str, ...]) -> _Shared:
    return _Shared(id(definition), definition.argname, definition.scope, _baseid(definition), built_on)


def _built_on(info: Any, definition: Any) -> list[str]:
    found: list[str] = []
    waiting = list(definition.argnames)
    while waiting:
        name = waiting.pop(0)
        if name not in found and name != definition.argname:
            found.append(name)
            definitions = info.name2fixturedefs.get(name)
            waiting += definitions[-1].argnames if definitions else ()
    return found


def _is_pytests_own(definition: Any) -> bool:
    # they are cheap; among them is the stand-in for a parameter that no fixture takes
    return (getattr(definition.func, "__module__", None) or "").startswith("_pytest.")


def _baseid(definition: Any) -> str:
    return getattr(definition, "baseid", None) or ""


def _where(item: pytest.Item, shared: _Shared) -> str | None:
    if shared.scope == "module":
        module = item.getparent(pytest.Module)
        return module.nodeid if module else nodeid_of(item).partition("::")[0]
    if shared.scope == "class":  # outside a class pytest builds it for each test
        owner = item.getparent(pytest.Class)
        return owner.nodeid if owner else None
    if shared.scope == "package":
        packages = (node.nodeid for node in item.listchain() if isinstance(node, pytest.Package))
        return next((nodeid for nodeid in packages if nodeid == shared.baseid), SESSION)
    return SESSION if shared.scope == SESSION else None


def _frozen(value: object) -> Hashable:
    # pytest compares parameters with ==, which is what equal hashes and equal reprs stand for here
    try:
        hash(value)
    except TypeError:
        return type(value).__qualname__, repr(value)
    return value


def _label(item: pytest.Item, name: str) -> str:
    """Return the id of *name*'s parameter in ``test[a-b]``, else its number in the list."""
    spec = item.callspec  # type: ignore[attr-defined]
    calls = _calls(item, list(spec.params))
    ids = list(getattr(spec, "_idlist", ()))
    if len(calls) == len(ids):  # else one of them is hidden
        return next(str(found) for call, found in zip(calls, ids, strict=True) if name in call)
    return str(spec.indices[name])


def _calls(item: pytest.Item, names: list[str]) -> list[tuple[str, ...]]:
    """Return *names* as they were given to parametrize(), call by call: several names of one call have one id."""
    together = {}
    for mark in item.iter_markers("parametrize"):
        given = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        group = tuple(word.strip() for word in given.split(",")) if isinstance(given, str) else tuple(given)
        together.update(dict.fromkeys(group, group))
    return list(dict.fromkeys(together.get(name, (name,)) for name in names))

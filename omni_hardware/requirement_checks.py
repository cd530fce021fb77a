"""What can be wrong with the arguments of ``hardware_test``: every problem at once, each with what to write instead.

A value that only run time knows is OPEN: what stands around it is judged all the same. The static check uses that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, StrEnum
from typing import Any

from omni_hardware.errors import InputError, did_you_mean, nearest
from omni_hardware.memory import parse_memory
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, GPU_MARK, Platform, Vocabulary

ARGUMENTS = ("res", "num_cards", "min_memory", "expand")
EXPANSIONS = ("platform",)


class Unknown(Enum):
    """The type of OPEN."""

    OPEN = "known at run time only"


OPEN = Unknown.OPEN


class Misuse(StrEnum):
    """What makes a declaration wrong whatever its arguments are."""

    BARE = "needs arguments: @hardware_test(res={'cuda': 'H100'})"
    POSITIONAL = "takes named arguments only, as res={'cuda': 'H100'}"
    AS_DECORATOR = (
        "is a list, for pytestmark and pytest.param(marks=...); above a test or class write @hardware_test"
    )
    BY_HAND = "is written by hardware_test and hardware_marks; use one of them"
    TWICE = "stands here twice; one declaration names all platforms"
    TWO_PARAMETERS = "two parameters of one test both say what it needs; let one of them"
    MIXED = (
        "a parameter says what it needs, and expand='platform' does so for each variant; keep one of the two"
    )
    NOT_EXPANDED = (
        "expand: a test function or class has variants, a single parameter or a unittest method has not"
    )


def problems(
    res: object,
    *,
    num_cards: object = 1,
    min_memory: object = None,
    expand: object = None,
    vocabulary: Vocabulary = DEFAULT,
) -> list[str]:
    """Return one line a problem, each beginning with the argument's name; [] when all is well."""
    counted = _Argument("num_cards", "cards", lambda value: _count_problem(value, vocabulary), vocabulary)
    sized = _Argument("min_memory", "memory of its own", _memory_problem, vocabulary)
    return [
        *_res_problems(res, vocabulary),
        *counted.problems(num_cards, res, default=1),
        *sized.problems(min_memory, res, default=None),
        *_expand_problems(expand),
    ]


def call_problems(arguments: Mapping[str, object], vocabulary: Vocabulary = DEFAULT) -> list[str]:
    """Return the problems of a whole call ``hardware_test(**arguments)``: names and values."""
    known: dict[str, Any] = {name: value for name, value in arguments.items() if name in ARGUMENTS}
    unknown = [name for name in arguments if name not in ARGUMENTS]
    found = [f"{name}: unknown argument{did_you_mean(name, ARGUMENTS)}" for name in unknown]
    if "res" not in known:
        found.append("res: missing; name a platform and a SKU, as res={'cuda': 'H100'}")
    return [*found, *problems(known.pop("res", OPEN), vocabulary=vocabulary, **known)]


def _res_problems(res: object, vocabulary: Vocabulary) -> Iterator[str]:
    if res is OPEN:
        return
    if not isinstance(res, Mapping):
        yield f"res: must map platforms to SKUs{_as_mapping(res, vocabulary)}, not {_kind(res)}"
        return
    if not res:
        yield f"res: names no platform (known: {', '.join(_names(vocabulary))})"
    for key, value in res.items():
        row = vocabulary.platform(key) if isinstance(key, str) else None
        if row is not None:
            yield from (f"res[{key!r}]: {problem}" for problem in _sku_problems(value, row, vocabulary))
        elif key is not OPEN:
            yield f"res: {_platform_problem(key, vocabulary)}"


def _platform_problem(key: object, vocabulary: Vocabulary) -> str:
    if not isinstance(key, str):
        return f"{key!r} is {_kind(key)}, not the name of a platform"
    if key == GPU_MARK:
        gpus = ", ".join(row.name for row in vocabulary.platforms if row.gpu)
        return f"{key!r} is no platform; name each that the test runs on: {gpus}"
    if owner := vocabulary.platform_of(key):
        return f"{key!r} is a SKU; write {{{owner.name!r}: {key!r}}}"
    return f"unknown platform {key!r}{did_you_mean(key, _names(vocabulary))}"


def _sku_problems(value: object, row: Platform, vocabulary: Vocabulary) -> Iterator[str]:
    if value is OPEN:
        return
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        yield f"must be a SKU or a list of SKUs, not {_kind(value)}"
        return
    if not listed:
        yield f"an empty list; name a SKU, or {ANY_SKU!r} for any device"
    known = tuple(dict.fromkeys((*row.skus, ANY_SKU)))
    for sku in dict.fromkeys(item for item in listed if isinstance(item, str)):
        if sku not in known:
            yield _sku_problem(sku, row, known, vocabulary)
        elif listed.count(sku) > 1:
            yield f"{sku!r} is listed twice"
    if ANY_SKU in listed and len(listed) > 1:
        yield f"{ANY_SKU!r} is every SKU; leave the others out"
    yield from (
        f"{item!r} is {_kind(item)}, not the name of a SKU"
        for item in listed
        if not isinstance(item, str) and item is not OPEN
    )


def _sku_problem(sku: str, row: Platform, known: tuple[str, ...], vocabulary: Vocabulary) -> str:
    if owner := vocabulary.platform_of(sku):
        return f"{sku!r} is a SKU of {owner.name}"
    if row.skus == (ANY_SKU,):
        return f"{row.name} has no SKUs to tell apart; write {ANY_SKU!r}, not {sku!r}"
    return f"unknown SKU {sku!r}{_hint(sku, row, known, vocabulary)}"


def _hint(sku: str, row: Platform, known: tuple[str, ...], vocabulary: Vocabulary) -> str:
    elsewhere = [name for other in vocabulary.platforms for name in other.skus if name != ANY_SKU]
    if not nearest(sku, known) and (found := nearest(sku, elsewhere)):
        owner = vocabulary.platform_of(found)
        return f" for {row.name} (did you mean {found!r} of {owner.name if owner else '?'}?)"
    return did_you_mean(sku, known)


class _Argument:
    """An argument that is one value, or a mapping of platforms to values."""

    def __init__(
        self, name: str, what: str, problem_of: Callable[[object], str | None], vocabulary: Vocabulary
    ) -> None:
        self._name, self._what, self._problem_of, self._vocabulary = name, what, problem_of, vocabulary

    def problems(self, value: object, res: object, *, default: object) -> Iterator[str]:
        """Yield what is wrong with *value* beside *res*; *default* says nothing and is never wrong."""
        if isinstance(value, Mapping):
            for key, one in value.items():
                where = self._name if key is OPEN else f"{self._name}[{key!r}]"
                if problem := self._key_problem(key, res) or self._value_problem(one):
                    yield f"{where}: {problem}"
            return
        says_nothing = value is OPEN or (type(value) is type(default) and value == default)
        if not says_nothing and (problem := self._value_problem(value) or self._nobody_problem(res)):
            yield f"{self._name}: {problem}"

    def _value_problem(self, value: object) -> str | None:
        return None if value is OPEN else self._problem_of(value)

    def _key_problem(self, key: object, res: object) -> str | None:
        if key is OPEN:
            return None
        row = self._vocabulary.platform(key) if isinstance(key, str) else None
        if row is None:
            return _platform_problem(key, self._vocabulary)
        if isinstance(res, Mapping) and key not in res and OPEN not in res:
            return f"{key!r} is not in res{did_you_mean(row.name, _platforms_in(res))}"
        return None if row.visibility else f"{key} has no {self._what}; leave it out"

    def _nobody_problem(self, res: object) -> str | None:
        rows = [self._vocabulary.platform(name) for name in _platforms_in(res)]
        if not rows or any(row is None or row.visibility for row in rows):
            return None
        return f"{' and '.join(_platforms_in(res))} has no {self._what}; leave it out"


def _count_problem(value: object, vocabulary: Vocabulary) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be a whole number, not {_kind(value)} ({value!r})"
    if value < 1:
        return f"{value} cards; a test that needs no card names cpu"
    if value not in vocabulary.cards:
        first, last = vocabulary.cards[0], vocabulary.cards[-1]
        return f"{value} has no mark cards_{value} (known: cards_{first} to cards_{last})"
    return None


def _memory_problem(value: object) -> str | None:
    try:
        parse_memory(value)
    except InputError as error:
        return str(error)
    return None


def _expand_problems(expand: object) -> Iterator[str]:
    if expand is None or expand is OPEN or expand in EXPANSIONS:
        return
    hint = did_you_mean(expand, EXPANSIONS) if isinstance(expand, str) else ""
    yield f'expand: must be "platform" or None, not {expand!r}{hint}'


def _platforms_in(res: object) -> list[str]:
    return [key for key in res if isinstance(key, str)] if isinstance(res, Mapping) else []


def _names(vocabulary: Vocabulary) -> list[str]:
    return [row.name for row in vocabulary.platforms]


def _as_mapping(res: object, vocabulary: Vocabulary) -> str:
    owner = vocabulary.platform_of(res) if isinstance(res, str) else None
    platform, sku = (owner.name, res) if owner else ("cuda", "H100")
    return f", as {{{platform!r}: {sku!r}}}"


def _kind(value: object) -> str:
    kinds: dict[type, str] = {
        type(None): "None",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        tuple: "a tuple",
        set: "a set",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")

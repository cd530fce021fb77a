"""The shapes of what passes through to Buildkite as written: a wrong one is named at its line, not by the server.

Only shapes that Buildkite's own schema has; what the schema leaves open (a plugin's configuration) is open here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from omni_ci.yaml.document import LocatedDict, LocatedList, Problem, Where
from omni_hardware.errors import did_you_mean

# Why Buildkite says a job ended, besides its status.
SignalReason = Literal[
    "*",
    "none",
    "agent_incompatible",
    "agent_refused",
    "agent_stop",
    "cancel",
    "process_run_error",
    "signature_rejected",
    "stack_error",
]


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of one of *kinds*; *words* are the only ones allowed, where there are any."""

    said: str
    kinds: tuple[type, ...]
    words: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A list whose items have one shape."""

    item: Shape
    said: str = "a list"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping of the writer's own names."""

    item: Shape
    said: str = "a mapping"


@dataclass(frozen=True, slots=True)
class Keyed:
    """A mapping of these keys and no other."""

    keys: Mapping[str, Shape]
    needs: tuple[str, ...] = ()
    said: str = "a mapping"


@dataclass(frozen=True, slots=True)
class Either:
    """One of several shapes; the first that could be meant says what is wrong."""

    shapes: tuple[Shape, ...]

    @property
    def said(self) -> str:
        return " or ".join(dict.fromkeys(shape.said for shape in self.shapes if shape is not NOTHING))


Shape = Scalar | Listed | Mapped | Keyed | Either

TEXT = Scalar("text", (str,))
FLAG = Scalar("true or false", (bool,))
WHOLE = Scalar("a whole number", (int,))
NOTHING = Scalar("nothing", (type(None),))
VALUE = Scalar("text, a number or true or false", (str, int, float, bool))
ANYTHING = Scalar("anything", (object,))
_TEXTS = Either((TEXT, Listed(TEXT)))
_FLAG_OR_TEXT = Either((FLAG, Scalar('"true" or "false"', (str,), words=("true", "false"))))
_STATUS = Either((WHOLE, Scalar("*", (str,), words=("*",)), Listed(WHOLE, "a list of whole numbers")))
_RULE = Keyed(
    {
        "exit_status": _STATUS,
        "limit": Scalar("a whole number", (int,), least=0, most=10),
        "signal": TEXT,
        "signal_reason": Scalar("text", (str,), words=get_args(SignalReason)),
    }
)
_SOFT_FAIL = Listed(Keyed({"exit_status": _STATUS}), "a list of exit codes")
_ELEMENTS = Listed(Scalar("text, a whole number or true or false", (str, int, bool)))

# Buildkite's attributes that a step, a group or a file hands on, in the shapes the server takes.
SHAPES: Mapping[str, Shape] = {
    "depends_on": Either(
        (
            NOTHING,
            TEXT,
            Listed(
                Either((TEXT, Keyed({"step": TEXT, "allow_failure": _FLAG_OR_TEXT}, needs=("step",)))),
                "a list of keys",
            ),
        )
    ),
    "agents": Either((Mapped(VALUE, "a mapping of tags"), Listed(TEXT, "a list of tag=value"))),
    "if_changed": Either((TEXT, Listed(TEXT), Keyed({"include": _TEXTS, "exclude": _TEXTS}, ("include",)))),
    "branches": _TEXTS,
    "plugins": Either(
        (
            Listed(Either((TEXT, Mapped(ANYTHING, "a mapping of one plugin"))), "a list of plugins"),
            Mapped(ANYTHING, "a mapping of plugins"),
        )
    ),
    "matrix": Either(
        (
            _ELEMENTS,
            Keyed(
                {
                    "setup": Either((_ELEMENTS, Mapped(_ELEMENTS))),
                    "adjustments": Listed(
                        Keyed(
                            {
                                "with": Either((_ELEMENTS, Mapped(VALUE))),
                                "skip": Either((FLAG, TEXT)),
                                "soft_fail": Either((FLAG, _SOFT_FAIL)),
                            },
                            needs=("with",),
                        )
                    ),
                },
                needs=("setup",),
            ),
        )
    ),
    "retry": Keyed(
        {
            "automatic": Either((FLAG, _RULE, Listed(_RULE, "a list of rules"))),
            "manual": Either((FLAG, Keyed({"allowed": FLAG, "permit_on_passed": FLAG, "reason": TEXT}))),
        }
    ),
    "notify": Listed(Either((TEXT, Mapped(ANYTHING)))),
    "secrets": Either((Listed(TEXT, "a list of names"), Mapped(TEXT, "a mapping of names"))),
    "cache": Either(
        (TEXT, Listed(TEXT), Keyed({"paths": Listed(TEXT), "size": TEXT, "name": TEXT}, needs=("paths",)))
    ),
    "checkout": Mapped(ANYTHING),
    "soft_fail": Either((FLAG, _SOFT_FAIL)),
}
# What only wait, block, input and trigger steps have, and what of theirs no model reads.
PLAIN_SHAPES: Mapping[str, Shape] = {
    **SHAPES,
    "if": TEXT,
    "prompt": TEXT,
    "fields": Listed(Mapped(ANYTHING), "a list of fields"),
    "blocked_state": Scalar("text", (str,), words=("passed", "failed", "running")),
    "allowed_teams": _TEXTS,
    "continue_on_failure": _FLAG_OR_TEXT,
    "allow_dependency_failure": _FLAG_OR_TEXT,
    "async": _FLAG_OR_TEXT,
    "build": Mapped(ANYTHING),
    "skip": Either((FLAG, TEXT)),
}


def misshapen(holder: LocatedDict, path: str, shapes: Mapping[str, Shape] = SHAPES) -> Iterator[Problem]:
    """Yield what is wrong with the attributes of *holder* that Buildkite gets as they are written."""
    for name, shape in shapes.items():
        if holder.get(name) is not None:  # one without a value is told of as such
            dotted = f"{path}.{name}" if path else name
            yield from _judged(holder[name], shape, dotted, holder.keys_at[name])


def _judged(value: Any, shape: Shape, path: str, where: Where) -> Iterator[Problem]:
    if not _takes(shape, value):
        yield Problem(where, f"{path} must be {shape.said}, not {_called(value)}")
        return
    match shape:
        case Either(shapes):
            yield from _judged(value, next(one for one in shapes if _takes(one, value)), path, where)
        case Scalar():
            yield from _scalar(value, shape, path, where)
        case Listed(item):
            for index, one in enumerate(value):
                at = value.items_at[index] if isinstance(value, LocatedList) else where
                yield from _judged(one, item, f"{path}[{index}]", at)
        case Mapped(item):
            for key, one in value.items():
                yield from _judged(one, item, f"{path}.{key}", _key_place(value, key, where))
        case Keyed():
            yield from _keyed(value, shape, path, where)


def _keyed(value: Mapping[str, Any], shape: Keyed, path: str, where: Where) -> Iterator[Problem]:
    for key, one in value.items():
        at = _key_place(value, key, where)
        if key not in shape.keys:
            yield Problem(at, f"{path}.{key}: unknown key{did_you_mean(key, shape.keys)}")
        else:
            yield from _judged(one, shape.keys[key], f"{path}.{key}", at)
    for key in shape.needs:
        if value.keys() <= shape.keys.keys() and key not in value:  # else it is likely there, misspelt
            yield Problem(where, f"{path}.{key} is missing")


def _scalar(value: Any, shape: Scalar, path: str, where: Where) -> Iterator[Problem]:
    if shape.words and value not in shape.words:
        yield Problem(where, f"{path} is {value!r}{did_you_mean(value, shape.words)}")
    if shape.least is not None and value < shape.least:
        yield Problem(where, f"{path} is {value}; it must be at least {shape.least}")
    if shape.most is not None and value > shape.most:
        yield Problem(where, f"{path} is {value}; it must be at most {shape.most}")


def _takes(shape: Shape, value: Any) -> bool:
    match shape:
        case Either(shapes):
            return any(_takes(one, value) for one in shapes)
        case Scalar():
            # true is an int to Python and none to Buildkite
            is_bool = isinstance(value, bool)
            return isinstance(value, shape.kinds) and (
                not is_bool or bool in shape.kinds or object in shape.kinds
            )
        case Listed():
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _key_place(value: Mapping[str, Any], key: str, where: Where) -> Where:
    return value.keys_at.get(key, where) if isinstance(value, LocatedDict) else where


def _called(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"text ({shown})" if isinstance(value, str) else shown

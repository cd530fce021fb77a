"""A pipeline document through buildkite-sdk's typed classes, and back, with proof that nothing was lost.

The classes drop a key they do not know without a word, so what comes back is compared with what went in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omni_hardware.errors import InputError, OmniError

if TYPE_CHECKING:
    from pydantic import ValidationError

Path = tuple[str | int, ...]
Origins = Mapping[tuple[int, ...], str]

_CLASSES = {
    "group": "GroupStep",
    "wait": "WaitStep",
    "waiter": "WaitStep",
    "block": "BlockStep",
    "manual": "BlockStep",
    "input": "InputStep",
    "trigger": "TriggerStep",
}
# The classes' own names where a Python keyword is in the way.
_FIELDS = {"if": "step_if", "async": "step_async"}
_MISSING = object()


class DroppedKeyError(OmniError):
    """buildkite-sdk did not give back what went in; uploading the rest would change what a step does."""


def through_sdk(meant: Mapping[str, Any], origins: Origins) -> dict[str, Any]:
    """Return *meant* once the typed classes have written the same; otherwise an error.

    origins: "file:line" by step indices. Raises InputError for a value the classes refuse, DroppedKeyError for
    a key or value they lose; both name file, line, step and key.
    """
    # 1,000 models, 210 ms: imported where a pipeline is rendered, never to plan one
    from buildkite_sdk import Pipeline
    from pydantic import ValidationError

    steps = [_typed(step, (index,), origins) for index, step in enumerate(meant["steps"])]
    try:
        pipeline = Pipeline(**{**meant, "steps": steps})
    except ValidationError as error:
        raise InputError(f"{_file_of(origins)}: {_refused(error)}") from None
    given: dict[str, Any] = pipeline.model_dump(by_alias=True, exclude_unset=True, mode="json")
    lost = next(_differences(meant, given, ()), None)
    if lost is not None:
        raise DroppedKeyError(_lost(lost, meant, given, origins))
    # equal, but for the order of keys: the author's reads better than the classes' alphabetical one
    return dict(meant)


def _typed(step: Any, path: tuple[int, ...], origins: Origins) -> Any:
    import buildkite_sdk
    from pydantic import ValidationError

    if isinstance(step, str):
        return step
    name = next((_CLASSES[key] for key in _CLASSES if key in step), "CommandStep")
    fields = {_FIELDS.get(key, key): value for key, value in step.items()}
    if name == "GroupStep":
        fields["steps"] = [
            _typed(child, (*path, index), origins) for index, child in enumerate(step["steps"])
        ]
    try:
        return getattr(buildkite_sdk, name)(**fields)
    except ValidationError as error:
        raise InputError(f"{origins.get(path, 'pipeline')}: step {_title(step)}: {_refused(error)}") from None


def _refused(error: ValidationError) -> str:
    """Return what the classes refuse, one line a key: each alternative of a union reports for itself."""
    keys: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        spelled = {field: key for key, field in _FIELDS.items()}
        key = str(problem["loc"][0]) if problem["loc"] else "?"
        keys.setdefault(spelled.get(key, key), problem["msg"])
    return "; ".join(f"`{key}`: {message}" for key, message in keys.items())


def _differences(meant: Any, given: Any, path: Path) -> Iterator[Path]:
    if isinstance(meant, Mapping) and isinstance(given, Mapping):
        for key in (*meant, *(key for key in given if key not in meant)):
            yield from _differences(meant.get(key, _MISSING), given.get(key, _MISSING), (*path, key))
    elif isinstance(meant, list) and isinstance(given, list) and len(meant) == len(given):
        for index, (one, other) in enumerate(zip(meant, given, strict=True)):
            yield from _differences(one, other, (*path, index))
    elif type(meant) is not type(given) or meant != given:
        yield path


def _lost(path: Path, meant: Any, given: Any, origins: Origins) -> str:
    indices, step = _step_at(path, meant)
    where = origins.get(indices, "pipeline")
    spelled = ".".join(str(part) for part in path[2 * len(indices) :])
    wanted, got = _value_at(path, meant), _value_at(path, given)
    what = "is dropped" if got is _MISSING else f"becomes {got!r}" if wanted is not _MISSING else "appears"
    owner = f"step {_title(step)}: " if step is not None else ""
    return (
        f"{where}: {owner}`{spelled}` {what} by buildkite-sdk, which does not know it as written; "
        "take the key out, or correct its name or type"
    )


def _step_at(path: Path, meant: Any) -> tuple[tuple[int, ...], Any]:
    indices: list[int] = []
    step = None
    for name, index in zip(path[::2], path[1::2], strict=False):
        if name != "steps" or not isinstance(index, int):
            break
        indices.append(index)
        step = (meant if step is None else step)["steps"][index]
    return tuple(indices), step


def _value_at(path: Path, value: Any) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return value


def _file_of(origins: Origins) -> str:
    return next(iter(origins.values()), "pipeline").partition(":")[0]


def _title(step: Any) -> str:
    if not isinstance(step, Mapping):
        return repr(step)
    names = ("label", "group", "key", "block", "wait", "input", "trigger")
    return repr(str(next((step[name] for name in names if step.get(name)), "unnamed")))

"""Documents loaded into models, with every problem at once: file, line, column, what, and the nearest name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from omni_ci.yaml import dialect, older_amd
from omni_ci.yaml.document import LocatedDict, LocatedList, Problem, Where, idle_removals, locate, merged
from omni_ci.yaml.model import Group, PipelineFile, PlainStep, Step
from omni_ci.yaml.reading import read
from omni_hardware.errors import InputError, did_you_mean

Model = TypeVar("Model", bound=BaseModel)
Check = Callable[[LocatedDict], Iterable[Problem]]
# Turns a document of another shape into ours; its problems are all there is to say about the document.
Translate = Callable[[LocatedDict], tuple[LocatedDict, list[Problem]]]

_SHOWN = 50
_TAGGED: dict[str, type[BaseModel]] = {"<step>": Step, "<plain>": PlainStep, "<group>": Group}
_KINDS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "union_tag_not_found": "is not a step: a step is a mapping, or the word wait",
}
_NAMES = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


class LoadError(InputError):
    """A document that cannot be used, with every problem it has."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.where))
        lines = [str(problem) for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            lines.append(f"… and {len(self.problems) - _SHOWN} more")
        super().__init__("\n".join(lines))


def load_pipeline(text: str | bytes, *, name: str) -> PipelineFile:
    """Return the pipeline in *text*; *name* is its path from the repository's root.

    A file of the older AMD shape is read as ours, its `notices` say what became what, and each step knows its
    `mirrors`. Raises LoadError with all problems: unknown, doubled and empty keys, wrong types, clashing settings.
    """
    read: list[older_amd.Translation] = []

    def translate(document: LocatedDict) -> tuple[LocatedDict, list[Problem]]:
        if not older_amd.is_older(document):
            return document, []
        read.append(older_amd.translated(document))
        return read[-1].document, read[-1].problems

    loaded = load_document(text, name, PipelineFile, check=dialect.problems, translate=translate)
    for made in read:
        loaded.note(made.notices, made.mirrors)
    return loaded


def load_document(
    text: str | bytes,
    name: str,
    model: type[Model],
    *,
    check: Check | None = None,
    defaults: tuple[str, str] | None = None,
    translate: Translate | None = None,
) -> Model:
    """Return *text* as *model*, over *defaults* (name, text) where given; top-level `x-…` keys are the writer's own.

    Mappings merge with the defaults by name, `null` removes a default that is there, everything else replaces.
    *check* sees the values with their places and yields problems of its own; *translate* has them before. Raises LoadError.
    """
    document, problems = _mapping(text, name)
    if defaults is not None and isinstance(document, LocatedDict):
        below, broken = _mapping(defaults[1], defaults[0])
        problems += [*broken, *idle_removals(below, document)]
        document = merged(below, document)
    loaded: Model | None = None
    if translate is not None and isinstance(document, LocatedDict):
        document, untranslated = translate(document)
        if untranslated:
            raise LoadError([*problems, *untranslated])
    if isinstance(document, LocatedDict):
        found = list(check(document)) if check else []
        problems += found
        try:
            loaded = model.model_validate(document)
        except ValidationError as error:
            problems += _without_echoes(found, _problems(error.errors(), document, model))
    if problems or loaded is None:
        raise LoadError(problems)
    return loaded


def _mapping(text: str | bytes, name: str) -> tuple[Any, list[Problem]]:
    document, problems = read(text, name)
    if isinstance(document, LocatedDict):
        for key in [key for key in document if key.startswith("x-")]:
            del document[key]
    elif not problems:
        is_a = _NAMES.get(next((kind for kind in _NAMES if isinstance(document, kind)), str))
        advice = "; put its items under `steps:`" if isinstance(document, list) else ""
        problems.append(Problem(Where(name), f"the file must be a mapping of keys, this is {is_a}{advice}"))
    return document, problems


def _without_echoes(found: Sequence[Problem], more: Iterable[Problem]) -> Iterator[Problem]:
    """Drop what the types say about a place where a check has already said it better."""
    said = {problem.where for problem in found}
    return (problem for problem in more if problem.where not in said)


def _problems(
    errors: Iterable[ErrorDetails], document: LocatedDict, model: type[BaseModel]
) -> Iterator[Problem]:
    told: set[str] = set()
    for error in errors:
        if error["type"] == "too_short" and error["input"]:
            continue  # its items are wrong, each named by its own error
        if "source_file_dependencies" in error["loc"] and isinstance(error["loc"][-1], int):
            continue  # flattened, so that the index leads elsewhere; the check names the entry's own place
        path = list(_written_path(error, document))
        if (dotted := _dotted(path)) in told:
            continue  # the other members of a union say no as well
        told.add(dotted)
        where = locate(document, path) or document.where
        yield Problem(where, _said(error, dotted, partial(_valid_names, model, error["loc"])))


def _written_path(error: ErrorDetails, document: LocatedDict) -> Iterator[str | int]:
    """Yield the parts of an error's path that stand in the document, not the names of models and unions."""
    value: Any = document
    for part in error["loc"]:
        match value, part:
            case LocatedDict(), str() if part in value:
                value = value[part]
            case LocatedList(), int() if part < len(value):
                value = value[part]
            case _:
                continue
        yield part
    if error["type"] == "missing":
        yield error["loc"][-1]


def _said(error: ErrorDetails, path: str, valid: Callable[[], Iterable[str]]) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            what = f": unknown key{dialect.advice(str(error['loc'][-1]), tuple(valid()))}"
        case "missing":
            what = " is missing"
        case "too_short":
            what = " is empty"
        case "literal_error":
            words = [word.strip("' ") for word in str(context["expected"]).replace(" or ", ",").split(",")]
            wanted = words[0] if len(words) == 1 else f"one of {', '.join(words)}"
            what = f" is {given!r}; it must be {wanted}{_near(str(given), words)}"
        case _ if given is None:
            what = " has no value; give one or remove the key"
        case "less_than_equal":
            what = f" is {given}; it must be at most {context['le']}"
        case "greater_than_equal":
            what = f" is {given}; it must be at least {context['ge']}"
        case "string_type" if path.endswith("if"):
            what = " must be a condition in quotes, such as 'build.branch == \"main\"'"
        case "value_error":
            what = f": {context.get('error', error['msg'])}"
        case _:
            what = f" {_KINDS.get(kind, error['msg'])}{_instead_of(given) if kind in _KINDS else ''}"
    return path + what


def _instead_of(given: Any) -> str:
    name = next((name for kind, name in _NAMES.items() if isinstance(given, kind)), None)
    shown = f" ({given!r})" if isinstance(given, bool | int | float | str) and given != "" else ""
    return f", not {name}{shown}" if name else ""


def _near(name: str, words: Sequence[str]) -> str:
    hint = did_you_mean(name, words)
    return hint if "did you mean" in hint else ""


def _dotted(path: Sequence[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _valid_names(model: type[BaseModel], loc: Sequence[str | int]) -> Iterator[str]:
    """Yield the keys the model at *loc* takes."""
    models: list[type[BaseModel]] = [model]
    for part in loc[:-1]:
        if part in _TAGGED:
            models = [_TAGGED[str(part)]]
        elif inner := [m for one in models for m in _models_under(one, part)]:
            models = inner
    for one in models:
        for name, field in one.model_fields.items():
            yield field.alias or name


def _models_under(model: type[BaseModel], part: str | int) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if part in (name, field.alias):
            yield from _models_in(field.annotation)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)

"""A step's `tests:`: what pytest shall run, said in fields, and the one shell command they generate.

The words are quoted for the shell, and their dollars doubled for Buildkite's interpolation: nobody has to know
either to select `test_x.py::test[a$b]`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from omni_ci.yaml.document import LocatedDict, Problem
from omni_ci.yaml.fields import Located, Texts
from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.expression import parse, unknown_names
from omni_hardware.project import own_words
from omni_hardware.vocabulary import Vocabulary

# Options that a field of the block stands for; `args` would say them a second time.
OWN_FIELD = {
    "-m": "marks",
    "-k": "keyword",
    "--run-level": "run_level",
    "--omni-strict": "strict",
    "--shard": "shards",
    "--num-shards": "shards",
    "--shard-id": "shards",
    "--cov": "cov",
}
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_MODEL_ID = re.compile(r"[a-z0-9_]+")


def _checked(check: Callable[[str], str | None]) -> AfterValidator:
    def judged(value: str) -> str:
        if problem := check(value):
            raise ValueError(problem)
        return value

    return AfterValidator(judged)


def path_problem(path: str) -> str | None:
    """Return why pytest could not collect *path* from the repository's root, or None."""
    file = path.partition("::")[0]
    if _CONTROLS.search(path) or path != path.strip():
        return f"{path!r} has blanks or control characters around or in it"
    if not file.strip("/"):
        return f"{path!r} names no file or folder"
    if file.startswith("-"):
        return f"{path!r} would be read as an option; put options into `args`"
    if file.startswith(("/", "./")) or ".." in file.split("/") or "//" in file:
        return f"{path!r} must be a path from the repository's root, such as 'tests/test_engine.py'"
    if any(character in file for character in "*?[{$"):
        return f"{path!r} is a pattern or a variable, which is quoted and never opened; name files or folders"
    return None


def _expression_problem(text: str) -> str | None:
    try:
        empty = parse(text).root is None
    except InputError as error:
        return str(error)
    return "is empty, which selects nothing; leave it out to select everything" if empty else None


def _argument_problem(argument: str) -> str | None:
    if _CONTROLS.search(argument) or not argument:
        return f"{argument!r} is empty or has control characters in it"
    option = argument.split("=", maxsplit=1)[0]
    short = option[:2] if option[:1] == "-" != option[1:2] else option
    if name := OWN_FIELD.get(short):
        return f"{argument!r} is what `{name}:` says; write it there"
    if option.startswith("-") and " " in option.strip():
        return f"{argument!r} is several words, and goes as one; write {argument.split()}"
    return None


def _model_id_problem(name: str) -> str | None:
    return None if _MODEL_ID.fullmatch(name) else f"{name!r} names report files: only a-z, 0-9 and _"


Path = Annotated[StrictStr, _checked(path_problem)]
Paths = Annotated[tuple[Path, ...], *Texts.__metadata__]
MarkExpression = Annotated[StrictStr, _checked(_expression_problem)]
Arguments = Annotated[tuple[Annotated[StrictStr, _checked(_argument_problem)], ...], *Texts.__metadata__]


class Coverage(Located):
    """Both halves of a model's coverage: `cov split` runs each by itself, with a report of its own."""

    model_id: Annotated[StrictStr, _checked(_model_id_problem)]
    offline: Paths = ()
    online: Paths = ()

    @model_validator(mode="after")
    def _has_a_half(self) -> Coverage:
        if not (self.offline or self.online):
            raise ValueError("names neither `offline` nor `online` paths; it needs one of them")
        return self


class Suite(Located):
    """One pytest run, or one coverage split of two."""

    paths: Paths = ()
    marks: MarkExpression | None = None
    keyword: MarkExpression | None = None
    run_level: Annotated[StrictStr, Field(min_length=1)] | None = None
    shards: Annotated[StrictInt, Field(ge=2)] | None = None
    strict: StrictBool = False
    cov: Coverage | None = None
    args: Arguments = ()

    @model_validator(mode="after")
    def _runs_something(self) -> Suite:
        if not self.paths and self.cov is None:
            raise ValueError("names no tests; give it `paths:`, or `cov:` with its own")
        if self.paths and self.cov is not None:
            raise ValueError("has `paths` and `cov`, which names its own under offline and online; keep one")
        if self.shards and self.cov is not None:
            raise ValueError("has `shards` and `cov`: each shard would write the same report; keep one")
        return self


def command_of(suite: Suite) -> str:
    """Return the command *suite* stands for, as a step's `commands` hold it.

    >>> command_of(Suite(paths=["tests/a.py::t[$x]"], marks="core_model and L4", strict=True))
    "pytest 'tests/a.py::t[$$x]' -m 'core_model and L4' --omni-strict"
    """
    options: list[str] = []
    for option, value in (("-m", suite.marks), ("-k", suite.keyword), ("--run-level", suite.run_level)):
        options += [option, value] if value is not None else []
    options += ["--omni-strict"] if suite.strict else []
    options += ["--shard", "auto"] if suite.shards else []
    options += suite.args
    if suite.cov is None:
        return _joined(["pytest", *suite.paths, *options])
    halves = {"--offline": suite.cov.offline, "--online": suite.cov.online}
    named = [word for option, paths in halves.items() for path in paths for word in (option, path)]
    rest = ["--", *options] if options else []
    return _joined(["omni-ci", "cov", "split", "--model-id", suite.cov.model_id, *named, *rest])


def _joined(words: list[str]) -> str:
    # `\$` is the upload's other way to write a dollar, so that a backslash and a dollar must not meet
    return shlex.join(words).replace("\\$", "\\''$").replace("$", "$$")


def problems(step: LocatedDict, path: str) -> Iterator[Problem]:
    """Yield what a step's `tests:` says that the rest of the step contradicts."""
    written = step["tests"]
    suites = [
        one for one in (written if isinstance(written, list) else [written]) if isinstance(one, LocatedDict)
    ]
    if written in ([], {}):
        yield Problem(step.keys_at["tests"], f"{path}.tests is empty; name `paths:` or remove it")
    sharded = [suite for suite in suites if suite.get("shards") is not None]
    counts = {str(suite["shards"]): suite for suite in sharded}
    jobs = step.get("parallelism")
    if jobs is not None and str(jobs) not in counts:
        counts[str(jobs)] = step
    if len(counts) > 1:
        where = step.keys_at["parallelism"] if jobs is not None else sharded[-1].keys_at["shards"]
        said = " and ".join(counts)
        yield Problem(where, f"{path}: shards of {said} in one step, which has one number of jobs; write one")
    for suite in suites if counts else ():
        if suite.get("shards") is None:
            yield Problem(
                suite.where,
                f"{path}.tests: each of the step's {next(iter(counts))} jobs would run all of these; give them `shards:` too",
            )


def word_problems(
    suites: tuple[Suite, ...], vocabulary: Vocabulary, more_marks: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield the words of *suites* that neither *vocabulary* nor *more_marks* knows."""
    known: Mapping[str, Any] = vocabulary.words()
    for suite in suites:
        if suite.marks is not None:
            for problem in unknown_names(parse(suite.marks), [*known, *more_marks]):
                yield Problem(suite.place("marks"), f"tests.marks: {problem}; {own_words('marks')}")
        level = suite.run_level
        if level is not None and level not in vocabulary.levels:
            hint = f"{did_you_mean(level, vocabulary.levels)}; {own_words('levels')}"
            yield Problem(suite.place("run_level"), f"tests.run_level: no level is called {level!r}{hint}")

"""All rules over a repository's pipelines: loaded once, asked in the order of their codes, answers sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omni_ci.configuration import ConfigKind, Configuration, Configurations
from omni_ci.repository.changes import tree_files, tree_links
from omni_ci.repository.places import FOLDER, Tree
from omni_ci.repository.roots import named_from_root, pipeline_names, repository_root
from omni_ci.rules.context import Context
from omni_ci.rules.discovery import rules
from omni_ci.rules.lint_findings import LintFinding
from omni_ci.rules.rule import Rule
from omni_ci.selection.mirrors import Mirrors
from omni_ci.selection.pipelines import each, read_pipeline, required_names
from omni_ci.yaml.document import Problem
from omni_ci.yaml.loading import LoadError
from omni_ci.yaml.model import Group, Leaf, PipelineFile
from omni_hardware.errors import InputError, OmniError, did_you_mean


@dataclass(frozen=True, slots=True)
class LintedRepository:
    """A repository ready to be asked about, and what a reader should know of it."""

    context: Context
    notices: tuple[str, ...]


def chosen(select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules that *select* names (empty: all) without those that *ignore* names. Raises InputError."""
    known = rules()
    for code in (*select, *ignore):
        if code.upper() not in known:
            raise InputError(f"no rule {code!r}{did_you_mean(code, known)}; `omni-ci lint --list` shows them")
    wanted = {code.upper() for code in select} or known.keys()
    unwanted = {code.upper() for code in ignore}
    return tuple(rule for code, rule in known.items() if code in wanted and code not in unwanted)


def findings(context: Context, asked: Iterable[Rule]) -> tuple[LintFinding, ...]:
    """Return what the rules *asked* find, by place; the same thing said twice is said once."""
    found = {
        LintFinding(
            file=one.file, line=one.line, code=rule.code, message=one.message, subject=one.subject, key=one.key
        )
        for rule in asked
        for one in rule.check(context)
    }  # fmt: skip
    return tuple(sorted(found))


def load_repository(
    here: Path,
    files: Sequence[str] = (),
    *,
    given: Mapping[ConfigKind, str] | None = None,
    known_keys: Iterable[str] = (),
) -> LintedRepository:
    """Return the repository around *here*, ready to be asked about *files* (without any: all its pipelines).

    Raises LoadError with the problems of every pipeline asked about, InputError for a file that does not exist.
    """
    root = repository_root(here)
    loading = _Loading(
        tree=(tree := Tree(root)),
        configurations=Configurations(
            tree,
            given={kind: named_from_root(path, root=root, here=here) for kind, path in (given or {}).items()},
        ),
    )
    names = [named_from_root(file, root=root, here=here) for file in files] or required_names(tree)
    each(loading.load, dict.fromkeys(names))
    others = (name for name in pipeline_names(root) if name not in names)
    notices = [said for name in others for said in loading.attempt(name)]
    return LintedRepository(
        _context(loading, frozenset(names), frozenset(known_keys)),
        tuple(dict.fromkeys((*notices, *loading.notices(names)))),
    )


def _context(loading: _Loading, names: frozenset[str], elsewhere: frozenset[str]) -> Context:
    root = loading.tree.root
    listed = tree_files(root)
    configurations = {name: loading.configurations.of(name) for name in loading.pipelines}
    return Context(
        files=loading.tree,
        names=listed if listed is not None else frozenset(_walked(root)),
        pipelines=tuple(loading.pipelines.values()),
        configurations=configurations,
        judged=names,
        # one tree has one language
        vocabulary=next(iter(configurations.values())).vocabulary,
        links=tree_links(root),
        refused=loading.refused,
        elsewhere=elsewhere,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loading:
    """The pipelines loaded so far, and by name why steps of one have no hardware."""

    tree: Tree
    configurations: Configurations
    mirrors: Mirrors = field(default_factory=Mirrors)
    pipelines: dict[str, PipelineFile] = field(default_factory=dict)
    refused: dict[str, tuple[Problem, ...]] = field(default_factory=dict)

    def attempt(self, name: str) -> Sequence[str]:
        """Load *name*, and return what went wrong: nobody asked about it."""
        try:
            self.load(name)
        except OmniError as error:
            return (f"{name} is not looked at: {str(error).splitlines()[0]}",)
        return ()

    def load(self, name: str) -> None:
        """Load *name*. Raises InputError and LoadError."""
        pipeline = read_pipeline(self.tree, name)
        configuration = self.configurations.of(name)
        try:
            pipeline = self.mirrors.fit(pipeline, configuration).pipeline
        except InputError:
            pipeline = self._fitted_apart(pipeline, configuration)
        self.pipelines[name] = pipeline

    def notices(self, names: Iterable[str]) -> Iterator[str]:
        """Yield what a reader of *names* should know."""
        for name in names:
            yield from self.pipelines[name].notices
            yield from self.configurations.of(name).notices

    def _fitted_apart(self, pipeline: PipelineFile, configuration: Configuration) -> PipelineFile:
        """Return *pipeline* with the hardware of each step that has some; why another has none is kept for the rules."""
        problems: list[Problem] = []

        def fit(leaf: Leaf) -> Leaf:
            alone = pipeline.model_copy(update={"steps": (leaf,)})
            try:
                return next(one for _, one in self.mirrors.fit(alone, configuration).pipeline.leaves())
            except LoadError as error:
                problems.extend(error.problems)
            except InputError:
                pass  # an unknown preset, which rendering the step says too
            return leaf

        steps = tuple(
            item.model_copy(update={"steps": tuple(map(fit, item.steps))})
            if isinstance(item, Group)
            else fit(item)
            for item in pipeline.steps
        )
        self.refused[pipeline.name] = tuple(problems)
        return pipeline.model_copy(update={"steps": steps})


def _walked(root: Path) -> Iterable[str]:
    """Yield the files of a folder that is no repository, hidden folders but for .buildkite left out."""
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(part.startswith(".") and part != FOLDER for part in parts[:-1]):
            yield "/".join(parts)

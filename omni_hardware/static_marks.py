"""The mark rules without running a test: ``python -m omni_hardware.static_marks PATH...``.

Same rules, same words as at collection: arguments of hardware_test and hardware_marks, contradictory marks. What is
written inside functions, and what only run time knows, is left to the run.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_hardware.errors import CheckError, InputError, OmniError, strip_controls
from omni_hardware.mark_rules import conflicts, hardware_words
from omni_hardware.project import load_project
from omni_hardware.requirement_checks import Misuse, call_problems
from omni_hardware.static_source import Call, Marks, Word
from omni_hardware.static_tests import Declarations, Function, Variant, variants
from omni_hardware.vocabulary import DEFAULT, Vocabulary

_HARDWARE = "hardware"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something that collection would refuse; line and column count from 1."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        """Return "path:line:column: message"."""
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


def check_source(text: str, path: str, vocabulary: Vocabulary = DEFAULT) -> list[Finding]:
    """Return what is wrong with the hardware marks of one module, in the order of its lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in somebody's string is not ours to tell
            tree = ast.parse(text)
        problems = list(_Checker(tree, vocabulary).problems())
    except SyntaxError as error:
        return [Finding(path, error.lineno or 1, error.offset or 1, f"not Python: {error.msg}")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [Finding(path, 1, 1, f"not Python: {error}")]
    lines = text.splitlines() or [""]
    return sorted({Finding(path, node.lineno, _column(lines, node), message) for node, message in problems})


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings in the files and folders named; return 0 without any, 3 with some, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m omni_hardware.static_marks", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="test files, or folders of them")
    paths: list[Path] = parser.parse_args(arguments).paths
    try:
        vocabulary = load_project(_project_of(Path.cwd()))
        files = sorted({file for path in paths for file in _files(path)})
        findings = [finding for file in files for finding in _check_file(file, vocabulary)]
    except OmniError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for finding in findings:
        print(strip_controls(str(finding)))
    print(f"{len(files)} files read, {len(findings)} findings", file=sys.stderr)
    return CheckError.exit_code if findings else 0


class _Checker:
    """One module's problems, each with the node it is told at."""

    def __init__(self, tree: ast.Module, vocabulary: Vocabulary) -> None:
        self._tree = tree
        self._vocabulary = vocabulary
        self._declared = Declarations(tree, vocabulary)
        self._source = self._declared.source

    def problems(self) -> Iterator[tuple[ast.expr, str]]:
        for node in _outside_functions(self._tree):
            if isinstance(node, ast.Call) and (by := self._source.declaring(node.func)):
                yield from self._call_problems(node, by)
        for one in self._declared.walk():
            yield from self._decorators(one.node)
            own = one.levels[-1]
            if isinstance(one.node, Function) and (
                one.node.name.startswith("test") or own.words or own.calls
            ):
                yield from self._test(one.levels)

    def _decorators(self, node: ast.ClassDef | Function) -> Iterator[tuple[ast.expr, str]]:
        for decorator in node.decorator_list:
            called = isinstance(decorator, ast.Call)
            by = self._source.declaring(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if by == "hardware_marks":
                yield decorator, f"{by}: {Misuse.AS_DECORATOR}"
            elif by and not called:
                yield decorator, f"{by}: {Misuse.BARE}"

    def _test(self, levels: tuple[Marks, ...]) -> Iterator[tuple[ast.expr, str]]:
        """Yield what contradicts itself on one test, with each combination of its parameters."""
        for marks in (levels[0], levels[-1]):
            yield from ((call.node, f"{call.by}: {Misuse.TWICE}") for call in marks.calls[1:])
        for variant in variants(levels):
            yield from self._variant(variant)

    def _variant(self, variant: Variant) -> Iterator[tuple[ast.expr, str]]:
        words, calls = variant.marks.words, variant.calls
        yield from ((w.node, f"pytest.mark.{w.name}: {Misuse.BY_HAND}") for w in words if w.name == _HARDWARE)
        own = calls[: len(calls) - len(variant.of_parameters)]
        expanded = [call for call in own[-1:] if self._expands(call)]
        yield from self._parameter_problems(variant.of_parameters, expanded)
        for requirement in self._declared.requirements(calls):
            complete = variant.marks.complete
            for problem in conflicts(variant.names, requirement, self._vocabulary, complete=complete):
                yield self._told_at(words), problem

    def _parameter_problems(
        self, calls: tuple[Call, ...], expanded: list[Call]
    ) -> Iterator[tuple[ast.expr, str]]:
        yield from ((call.node, f"{call.by}: {Misuse.TWO_PARAMETERS}") for call in calls[1:])
        for call in calls:
            if expanded:
                yield call.node, f"{call.by}: {Misuse.MIXED}"
            elif self._expands(call):
                yield call.node, f"{call.by}: {Misuse.NOT_EXPANDED}"

    def _call_problems(self, node: ast.Call, by: str) -> Iterator[tuple[ast.expr, str]]:
        if node.args:
            yield node, f"{by}: {Misuse.POSITIONAL}"
            return
        places = {keyword.arg: keyword.value for keyword in node.keywords}
        for problem in call_problems(self._declared.arguments(Call(by, node)), self._vocabulary):
            name = re.match(r"\w+", problem)
            yield places.get(name[0], node) if name else node, f"{by}: {problem}"
        for keyword in node.keywords:
            yield from _double_keys(keyword, by)

    def _expands(self, call: Call) -> bool:
        return self._declared.arguments(call).get("expand") == "platform"

    def _told_at(self, words: tuple[Word, ...]) -> ast.expr:
        """Return the innermost hardware mark."""
        known = hardware_words(self._vocabulary)
        return next(word.node for word in reversed(words) if word.name in known)


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a module, without the bodies of its functions; their decorators and defaults count."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Function):
            waiting += node.decorator_list
        if isinstance(node, Function | ast.Lambda):
            waiting += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        else:
            waiting += ast.iter_child_nodes(node)


def _double_keys(keyword: ast.keyword, by: str) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(keyword.value, ast.Dict):
        seen: set[object] = set()
        for key in keyword.value.keys:
            if isinstance(key, ast.Constant):
                if key.value in seen:
                    yield key, f"{by}: {keyword.arg}: {key.value!r} stands twice; the first is lost"
                seen.add(key.value)


def _column(lines: list[str], node: ast.expr) -> int:
    # ast counts bytes of UTF-8
    before = lines[node.lineno - 1].encode()[: node.col_offset] if node.lineno <= len(lines) else b""
    return len(before.decode(errors="replace")) + 1


def _project_of(folder: Path) -> Path:
    return next(
        (place for place in (folder, *folder.parents) if (place / "pyproject.toml").is_file()), folder
    )


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in path.rglob("*.py") if not _hidden(file.relative_to(path)))
    elif path.exists():
        yield path
    else:
        raise InputError(f"{path}: no such file or folder")


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def _check_file(file: Path, vocabulary: Vocabulary) -> list[Finding]:
    try:
        with tokenize.open(file) as source:
            text = source.read()
    except (SyntaxError, UnicodeDecodeError) as error:
        return [Finding(str(file), 1, 1, f"not readable as Python: {error}")]
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    return check_source(text, str(file), vocabulary)


if __name__ == "__main__":
    sys.exit(main())

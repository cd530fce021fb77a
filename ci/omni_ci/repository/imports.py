"""Which files of a repository a module leads to, read from the syntax trees: nothing is imported, nothing is run.

What only run time knows (a name put together from variables, a plugin's entry point, a subprocess) is not seen, so a
closure may lack files; it never holds one that no statement names.
"""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

Read = Callable[[str], str | None]

_BY_NAME = re.compile(r"""\b(?:import_module|importorskip|__import__)\(\s*["']([\w.]+)["']""")
_BODIES = ("body", "orelse", "finalbody")
# Where a pyproject.toml says that packages lie, and what to make of each value.
_SAID_ROOTS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("tool.hatch.build.targets.wheel.packages", posixpath.dirname),
    ("tool.pytest.ini_options.pythonpath", str),
    ("tool.setuptools.packages.find.where", str),
    ("tool.setuptools.package-dir.", str),
)


def source_roots(pyproject: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the folders that top-level modules are looked for in: the root, src, and what *pyproject* names."""
    said = [
        make(posixpath.normpath(value)) for path, make in _SAID_ROOTS for value in _texts(pyproject, path)
    ]
    return tuple(dict.fromkeys(("" if root == "." else root) for root in ("", "src", *said)))


class ImportGraph:
    """The import statements of a tree, each file read and parsed once, when it is asked about."""

    def __init__(self, files: Container[str], read: Read, roots: Iterable[str] = ("", "src")) -> None:
        self._files = files
        self._roots = tuple(roots)
        self._names = cache(lambda path: _module(read(path)))
        self._imports = cache(self._imported)

    def imports(self, path: str, *, lazy: bool = True) -> tuple[str, ...]:
        """Return the files that *path* imports, packages on the way included, in the order of its statements.

        lazy: those of statements inside functions too, which run when the function does.
        """
        return self._imports(path, lazy)

    def closure(
        self,
        starts: Iterable[str],
        *,
        through: Callable[[str], bool] = lambda _: True,
        lazy: Callable[[str], bool] = lambda _: True,
    ) -> dict[str, str | None]:
        """Return every file that *starts* lead to, mapped to the file that names it (None: a start), nearest first.

        A file that *through* refuses is part of the answer, and what it imports is not; *lazy* says whose functions
        count.
        """
        reached: dict[str, str | None] = dict.fromkeys(starts)
        waiting = deque(reached)
        while waiting:
            importer = waiting.popleft()
            if reached[importer] is not None and not through(importer):
                continue
            for path in self.imports(importer, lazy=lazy(importer)):
                if path not in reached:
                    reached[path] = importer
                    waiting.append(path)
        return reached

    def _imported(self, path: str, lazy: bool) -> tuple[str, ...]:
        names = (one for one in self._names(path)[0] if lazy or not one.is_lazy)
        found = (file for one in names for file in self._resolved(one.name, one.level, path))
        return tuple(dict.fromkeys(file for file in found if file != path))

    def _resolved(self, name: str, level: int, importer: str) -> Iterator[str]:
        parts = name.split(".") if name else []
        if level:
            base = posixpath.dirname(importer)
            for _ in range(level - 1):
                base = posixpath.dirname(base)
            package = f"{base}/__init__.py"
            yield from list(self._under(base, parts)) or ([package] if package in self._files else [])
            return
        for root in (*self._roots, self._own_root(importer)):
            if found := list(self._under(root, parts)):
                yield from found
                return

    def _own_root(self, path: str) -> str:
        """Return the folder that pytest and `python FILE` put on sys.path: the first one above that is no package."""
        folder = posixpath.dirname(path)
        while folder and f"{folder}/__init__.py" in self._files:
            folder = posixpath.dirname(folder)
        return folder

    def _under(self, folder: str, parts: list[str]) -> Iterator[str]:
        """Yield the packages on the way and the module itself; nothing where the module is not there."""
        found: list[str] = []
        path = folder
        for depth, part in enumerate(parts, 1):
            path = f"{path}/{part}" if path else part
            if depth == len(parts) and f"{path}.py" in self._files:
                yield from (*found, f"{path}.py")
                return
            package = f"{path}/__init__.py"
            if package in self._files and self._names(package)[1]:
                found.append(package)
        # `from package import name`: the name is no module, so the package itself is meant
        if len(parts) > 1 and f"{path}/__init__.py" not in self._files:
            yield from self._under(folder, parts[:-1])
            return
        yield from found


def chain(closure: Mapping[str, str | None], path: str) -> str:
    """Return how *path* was reached: "tests/test_a.py → omni/engine.py → omni/errors.py"."""
    way = [path]
    while (importer := closure[way[-1]]) is not None:
        way.append(importer)
    return " → ".join(reversed(way))


class _Named(NamedTuple):
    """A name that a statement imports, with the dots before it."""

    name: str
    level: int
    is_lazy: bool


def _module(text: str | None) -> tuple[tuple[_Named, ...], bool]:
    """Return what a module imports, and whether it does anything at all."""
    if not text:
        return (), False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in somebody's string is not ours to tell
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (), True
    by_name = (_Named(name, 0, is_lazy=True) for name in _BY_NAME.findall(text))
    names = dict.fromkeys((*_statements(tree.body, is_lazy=False), *by_name))
    return tuple(names), any(not isinstance(one, ast.Expr) for one in tree.body)


def _statements(body: Iterable[ast.stmt], *, is_lazy: bool) -> Iterator[_Named]:
    """Yield what is imported, but not what only a type checker reads."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (_Named(alias.name, 0, is_lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            names = (alias.name for alias in node.names)
            yield from (
                _Named(start.rstrip(".") if name == "*" else f"{start}{name}", node.level, is_lazy)
                for name in names
            )
        else:
            yield from _nested(
                node, is_lazy=is_lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            )


def _nested(node: ast.stmt, *, is_lazy: bool) -> Iterator[_Named]:
    fields = ("orelse",) if isinstance(node, ast.If) and _is_for_types(node.test) else _BODIES
    for field in fields:
        inner = getattr(node, field, ())
        yield from _statements(inner if isinstance(inner, list) else (), is_lazy=is_lazy)
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield from _statements(part.body, is_lazy=is_lazy)


def _is_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def _texts(document: Any, path: str) -> Iterator[str]:
    for key in path.split("."):
        document = document.get(key) if isinstance(document, Mapping) else None
    listed = document if isinstance(document, list) else [document]
    yield from (item for item in listed if isinstance(item, str))

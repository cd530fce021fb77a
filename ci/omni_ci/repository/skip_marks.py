"""Whether a change to a test file only adds skip marks, so that no test is there to run for it.

Both versions are parsed, the skip marks are taken out, and what is left must be the same: comments, blank lines and
the shape of parentheses do not count, a changed assertion does. A skip that was taken away or narrowed does not
qualify either: the test it held back is to run now. What cannot be parsed never qualifies.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

# Where a skip stood: its owner (the n-th node that is left), the owner's field, and how much of that stands before it.
Place = tuple[int, str, int]

_ALWAYS = "always"
_MODULE_MARKS: Place = (0, "pytestmark", 0)
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
# Calls that only look at the machine, so that a condition may make them.
_ASKS = frozenset(
    {
        "torch.cuda.is_available",
        "torch.cuda.device_count",
        "torch.xpu.is_available",
        "torch.npu.is_available",
        "current_platform.is_cuda",
        "current_platform.is_rocm",
        "current_platform.is_npu",
        "current_platform.is_xpu",
        "shutil.which",
        "importlib.util.find_spec",
        "sys.platform.startswith",
        "os.environ.get",
        "os.getenv",
        "len",
        "bool",
        "int",
    }
)
_WORDS = frozenset({"reason", "msg"})  # what a skip says, not when it holds


def only_adds_skips(base: str | None, head: str | None, *, may_be_new: bool = True) -> bool:
    """Return whether the text *head* is *base* with skip marks added; None: there is no such file.

    A new file qualifies, where it *may_be_new*, when its module-level `pytestmark` skips every test in it.
    """
    if head is None:
        return False
    try:
        after = _read(head)
        if base is None:
            return may_be_new and _ALWAYS in after.skips.get(_MODULE_MARKS, ()) and _marks_once(head)
        before = _read(base)
    except _UNREADABLE:
        return False
    return before.rest == after.rest and all(
        _is_held(skips, after.skips.get(place, ())) for place, skips in before.skips.items()
    )


@dataclass(slots=True, kw_only=True)
class _Read:
    """A file without its skip marks, and what each of those was."""

    rest: str = ""
    skips: dict[Place, list[str]] = field(default_factory=dict)
    nodes: int = 0

    def strip(self, node: ast.AST) -> None:
        """Take the skips out of *node* and all below it. Raises ValueError for what has two meanings."""
        owner, self.nodes = self.nodes, self.nodes + 1
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, self._kept(value, node, (owner, name)))
        for child in ast.iter_child_nodes(node):
            self.strip(child)

    def _kept(self, items: Sequence[object], node: ast.AST, at: tuple[int, str]) -> list[object]:
        kept: list[object] = []
        for item in items:
            owner, name = at
            if name == "decorator_list" and (skip := _mark(item)):
                self._remember((owner, name, 0), [skip])
            elif isinstance(item, ast.Expr) and (skip := _call(item.value)):
                self._remember((owner, name, len(kept)), [skip])
            elif marks := _marks_of(item, node):
                if any(place[:2] == (owner, marks) for place in self.skips):
                    raise ValueError(f"{marks} is written twice")
                if self._strip_marks(item, (owner, marks, 0)):
                    kept.append(item)
            else:
                kept.append(item)
        return kept

    def _strip_marks(self, item: object, place: Place) -> bool:
        """Take the skips out of the marks that *item* holds; return whether any other mark is left."""
        assert isinstance(item, ast.Assign | ast.keyword)
        elements = item.value.elts if isinstance(item.value, ast.List) else [item.value]
        rest = [one for one in elements if not _mark(one)]
        self._remember(place, [skip for one in elements if (skip := _mark(one))])
        if len(rest) == 1 and _dotted(rest[0]).startswith("pytest.mark."):
            item.value = rest[0]  # one mark means the same in a list and by itself
        elif isinstance(item.value, ast.List):
            item.value.elts = rest
        return bool(rest) or not elements

    def _remember(self, place: Place, skips: list[str]) -> None:
        self.skips.setdefault(place, []).extend(skips)


def _read(text: str) -> _Read:
    """Return *text* without its skips. Raises one of _UNREADABLE."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in a test is not ours to report
        tree = ast.parse(text)
    found = _Read()
    found.strip(tree)
    found.rest = ast.dump(tree)
    return found


def _marks_once(text: str) -> bool:
    """Return whether the module names `pytestmark` a single time, so that nothing takes its skip back."""
    return sum(isinstance(one, ast.Name) and one.id == "pytestmark" for one in ast.walk(ast.parse(text))) == 1


def _is_held(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether all that was skipped *before* is skipped *after* as well."""
    return _ALWAYS in after or not Counter(before) - Counter(after)


def _marks_of(item: object, node: ast.AST) -> str | None:
    """Return what *item*, a part of *node*, is when it holds marks: pytestmark, or the marks of a pytest.param."""
    if isinstance(item, ast.Assign) and isinstance(node, ast.Module | ast.ClassDef):
        return "pytestmark" if [_dotted(target) for target in item.targets] == ["pytestmark"] else None
    if isinstance(item, ast.keyword) and item.arg == "marks" and _dotted(node) == "pytest.param":
        return "marks"
    return None


def _mark(node: object) -> str | None:
    """Return when the mark *node* skips, in words to compare; None for what is no skip mark."""
    name = _dotted(node)
    if name == "pytest.mark.skip":
        return _ALWAYS if not isinstance(node, ast.Call) or _is_plain(node) else None
    if name == "pytest.mark.skipif" and isinstance(node, ast.Call):
        return _when(node) if _is_plain(node) else None
    return None


def _call(node: ast.expr) -> str | None:
    """Return when a `pytest.skip(…)` statement skips, in words to compare; None for any other expression."""
    if isinstance(node, ast.Call) and _dotted(node) == "pytest.skip" and _is_plain(node):
        return ast.dump(ast.Tuple(elts=[one.value for one in node.keywords if one.arg not in _WORDS]))
    return None


def _when(node: ast.Call) -> str:
    conditions = [*node.args, *(one.value for one in node.keywords if one.arg not in _WORDS)]
    return ast.dump(ast.Tuple(elts=conditions))


def _is_plain(node: ast.Call) -> bool:
    """Whether nothing in the call changes names or control flow, so that leaving it out changes nothing else."""
    odd = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    inner = [one for one in ast.walk(node) if one is not node]
    return not any(
        isinstance(one, odd) or (isinstance(one, ast.Call) and _dotted(one) not in _ASKS) for one in inner
    )


def _dotted(node: object) -> str:
    """Return the dotted name of *node*, or of what it calls; "" for anything else."""
    name = node.func if isinstance(node, ast.Call) else node
    parts: list[str] = []
    while isinstance(name, ast.Attribute):
        parts.append(name.attr)
        name = name.value
    return ".".join([name.id, *reversed(parts)]) if isinstance(name, ast.Name) else ""

"""The one place that knows how diffusers calls attention. Written for diffusers 0.39 to 0.42.

A processor hands its `_attention_backend` to diffusers' dispatcher, which looks it up in a registry keyed by members of
a closed enum. Each role of each bound pipeline gets a member of its own, so that two pipelines in a process never meet.
`set_attention_backend` is never called: it also replaces the backend of the whole process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import diffusers
import torch
from diffusers.models import attention_dispatch
from torch import nn

from omni.attention.registry import Kernel, load
from omni.attention.report import Bound, ResolutionReport, Unreachable
from omni.attention.selector import select
from omni.config.attention import AttentionConfig
from omni.errors import AttentionError, InfrastructureError
from omni.models.catalog import CatalogRow

# Names only diffusers knows; a version that renames one fails here, at import, and not in the middle of a run.
_Name: Any = attention_dispatch.AttentionBackendName
_Registry: Any = attention_dispatch._AttentionBackendRegistry  # noqa: SLF001 - the seam itself
_TABLES = (_Registry._backends, _Registry._constraints, _Registry._supported_arg_names)  # noqa: SLF001
_NATIVE: Any = _Name.NATIVE
_SWITCH = "_attention_backend"

_numbers = count(1)


def plan(
    denoisers: Mapping[str, nn.Module], row: CatalogRow, config: AttentionConfig, *, platform: str
) -> ResolutionReport:
    """Return what each attention module of *denoisers* (name -> module, on any device) will run. Changes nothing.

    Raises AttentionError where a wish was stated and a module would not follow it.
    """
    bound: list[Bound] = []
    unreachable: list[Unreachable] = []
    for name, denoiser in denoisers.items():
        for path, module in _attention_modules(denoiser):
            rule = row.role_of(path)
            if not _dispatches(module):
                because = f"{type(getattr(module, 'processor', module)).__name__} does not use diffusers' dispatcher"
                unreachable.append(Unreachable(f"{name}.{path}", because))
            elif rule is None:
                unreachable.append(
                    Unreachable(f"{name}.{path}", f"no role of {row.pipeline} matches this path")
                )
            else:
                selection = select(rule.role, rule.category, config, platform=platform)
                bound.append(Bound(f"{name}.{path}", rule.role, rule.category, selection))
    report = ResolutionReport(tuple(bound), tuple(unreachable))
    if config.is_explicit and (unreachable or not bound):
        raise AttentionError(
            f"the attention configuration cannot reach every module of {row.pipeline}\n{report}"
        )
    return report


class Binding:
    """A pipeline whose attention runs what a report says; *calls* counts attention calls by role."""

    def __init__(
        self, report: ResolutionReport, calls: Counter[str], members: list[Any], touched: list[Any]
    ) -> None:
        self.report = report
        self.calls = calls
        self._members = members
        self._touched = touched

    def release(self) -> None:
        """Give every processor its class's own choice back and forget the members; safe to call twice."""
        for processor in self._touched:
            processor.__dict__.pop(_SWITCH, None)
        for member in self._members:
            for table in _TABLES:
                table.pop(member, None)
        self._touched.clear()
        self._members.clear()


def bind(pipeline: Any, row: CatalogRow, report: ResolutionReport) -> Binding:
    """Make *pipeline* run *report*: every processor of every part is set, none is left to the process's choice."""
    _prove_seam()
    calls: Counter[str] = Counter({item.role: 0 for item in report.bound})
    members = {item.role: _add_member(item.role, _seam(load(item.selection.backend), item.role, calls))
               for item in {item.role: item for item in report.bound}.values()}  # fmt: skip
    roles = {item.path: item.role for item in report.bound}
    touched = []
    for name, part in pipeline.components.items():
        if not isinstance(part, nn.Module):
            continue
        for path, module in _attention_modules(part):
            if _dispatches(module):
                role = roles.pop(f"{name}.{path}", None)
                setattr(module.processor, _SWITCH, _NATIVE if role is None else members[role])
                touched.append(module.processor)
    if roles:
        raise AttentionError(f"{row.pipeline}: planned attention modules are not there: {', '.join(roles)}")
    return Binding(report, calls, list(members.values()), touched)


def _attention_modules(root: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield (path, module) of what computes attention: what has a processor, or is named so and holds none that does."""
    for path, module in root.named_modules():
        inner = [child for child in module.modules() if child is not module]
        if hasattr(module, "processor") or (_is_named_so(module) and not any(map(_computes, inner))):
            yield path, module


def _computes(module: nn.Module) -> bool:
    return hasattr(module, "processor") or _is_named_so(module)


def _is_named_so(module: nn.Module) -> bool:
    return "Attention" in type(module).__name__


def _dispatches(module: Any) -> bool:
    return hasattr(getattr(module, "processor", None), _SWITCH)


def _add_member(role: str, function: Kernel) -> Any:
    """Return a new member of diffusers' enum under which *function* is registered.

    It is an instance that the enum's own tables never list, so the closed enum stays as it is. The dispatcher takes
    it because looking a member up by itself gives that member, and the registry hashes it as text.
    """
    value = f"omni:{next(_numbers)}:{role}"
    member = str.__new__(_Name, value)
    member._name_ = value
    member._value_ = value
    _Registry.register(member)(function)
    return member


def _seam(kernel: Kernel, role: str, calls: Counter[str]) -> Kernel:
    # The dispatcher passes only the arguments named here, and drops others without a word.
    def attend(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        _parallel_config: Any = None,
    ) -> torch.Tensor:
        if dropout_p or _parallel_config is not None:
            raise AttentionError(f"attention role {role}: dropout and context parallelism are not supported")
        if (
            not torch.compiler.is_compiling()
        ):  # a counter in a graph would be a guard, and recompile every call
            calls[role] += 1
        if (
            attn_mask is not None
            and attn_mask.ndim == 2
            and attn_mask.shape == (query.shape[0], key.shape[1])
        ):
            attn_mask = attn_mask[:, None, None, :]  # one row of keys for each batch item
        return kernel(
            query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        )

    return attend


def _prove_seam() -> None:
    """Send one tiny call through the dispatcher: enum and registry differ between versions of Python and diffusers."""
    seen: Counter[str] = Counter()
    member = _add_member("probe", _seam(lambda query, *_, **__: query, "probe", seen))
    tensor = torch.zeros(1, 1, 1, 1)
    try:
        attention_dispatch.dispatch_attention_fn(tensor, tensor, tensor, backend=member)
    except Exception as fault:
        raise _seam_changed() from fault
    finally:
        for table in _TABLES:
            table.pop(member, None)
    if seen["probe"] != 1:
        raise _seam_changed()


def _seam_changed() -> InfrastructureError:
    return InfrastructureError(
        f"diffusers {diffusers.__version__}: its attention dispatcher does not take our backends; install 0.39 to 0.42"
    )

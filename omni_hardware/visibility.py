"""Which devices a process sees, and how a child is given some of them: the five vendors' variables behind one table.

Rules: the caller's list is indexed, never replaced by 0..n-1 (triton#11831); entries stay opaque strings, UUIDs and
MIG names included (vllm#41848); a child loses the variables of other platforms, the parent keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omni_hardware import visibility_rules as rules
from omni_hardware.errors import InputError, strip_controls
from omni_hardware.visibility_rules import HIDDEN, Choice
from omni_hardware.vocabulary import PLATFORMS

if TYPE_CHECKING:
    from omni_hardware.inventory import Device, Inventory, Visible

CUDA_ORDER = "CUDA_DEVICE_ORDER"
PCI_ORDER = "PCI_BUS_ID"  # NVML's order: the numbers then mean what nvidia-smi shows


@dataclass(frozen=True, slots=True)
class Rule:
    """How one platform's variables are read; what is written stands in the vocabulary.

    also: variables that take part beside the list, and are left to the caller. fixed: what a narrowed child gets too.
    """

    choose: Callable[[Sequence[Device], str | None, Mapping[str, str]], Choice]
    also: tuple[str, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()


RULES: dict[str, Rule] = {
    "cuda": Rule(rules.cuda, (CUDA_ORDER,), ((CUDA_ORDER, PCI_ORDER),)),
    "rocm": Rule(rules.rocm, ("GPU_DEVICE_ORDINAL", rules.ROCR)),
    "xpu": Rule(rules.xpu, (rules.HIERARCHY, rules.SELECTOR)),
    "npu": Rule(rules.npu),
    "musa": Rule(rules.musa),
    "cpu": Rule(rules.everything),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """seen: what one process sees. listed: what may be handed out, with *tokens* naming each. because: what limits."""

    seen: tuple[Device, ...]
    listed: tuple[Device, ...]
    tokens: tuple[str, ...]
    because: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Variables that contradict themselves. mended: what to set (None = unset); None where only the caller can say."""

    platform: str
    message: str
    mended: Mapping[str, str | None] | None = None

    @property
    def refused(self) -> bool:
        """Return whether there is no reading of the variables that we could write for the caller."""
        return self.mended is None


def variables(platform: str) -> tuple[str, ...]:
    """Return every variable that takes part in what *platform* sees."""
    row, rule = PLATFORMS.get(platform), RULES.get(platform)
    return (*(row.visibility if row else ()), *(rule.also if rule else ()))


def visible(platform: str, environ: Mapping[str, str]) -> Visible:
    """Return the variables of *environ* that limit *platform*, as an inventory keeps them."""
    from omni_hardware.inventory import Visible

    names = _lists(platform)
    if not names:
        return Visible()
    name = next((name for name in names if name in environ), names[0])
    others = tuple((n, environ[n]) for n in variables(platform) if n != name and n in environ)
    return Visible(name, environ.get(name), others)


def tokens(platform: str, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the caller's list as opaque strings, () for none, None where no variable is set.

    >>> tokens("cuda", {"CUDA_VISIBLE_DEVICES": "GPU-8932f937"})
    ('GPU-8932f937',)
    """
    name = next((name for name in _lists(platform) if name in environ), None)
    if name is None:
        return None
    found = rules.split(environ[name])
    # what ROCR leaves is numbered from 0 by everything that reads a list after it
    return tuple(map(str, range(len(found)))) if name == rules.ROCR else found


def select(inventory: Inventory, environ: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the devices that one process sees under *environ*, in the order in which it numbers them."""
    return selection(inventory, environ).seen


def selection(inventory: Inventory, environ: Mapping[str, str]) -> Selection:
    """Return what *environ* leaves of the inventory's devices, with the sentence that says why not all."""
    platform, devices = inventory.platform, inventory.devices
    limit = visible(platform, environ)
    choice = _rule(platform).choose(devices, limit.value, environ)
    because = _because(limit, choice, len(devices))
    listed = tuple(entry.device for entry in choice.entries)
    return Selection(choice.seen, listed, tuple(entry.token for entry in choice.entries), because)


def narrow(
    platform: str,
    environ: Mapping[str, str],
    positions: Iterable[int],
    *,
    inventory: Inventory | None = None,
) -> dict[str, str]:
    """Return the variables that show a child only these entries of the caller's list.

    positions: into `Selection.listed` with an *inventory*, else into `tokens`; without a list they are numbers of the
    machine. MIG instances need the inventory. Raises InputError for a position that the list does not have.
    """
    known = selection(inventory, environ).tokens if inventory else tokens(platform, environ)
    wanted = list(dict.fromkeys(positions))
    if known is not None and (beyond := [p for p in wanted if not 0 <= p < len(known)]):
        shown = ",".join(known) or "nothing"
        raise InputError(f"{platform}: there is no entry {beyond[0]} in what is visible ({shown})")
    chosen = [str(p) if known is None else known[p] for p in wanted]
    return write(platform, environ, chosen)


def write(platform: str, environ: Mapping[str, str], chosen: Sequence[str]) -> dict[str, str]:
    """Return the variables that name *chosen* (opaque entries) on *platform*; no entries hide every device."""
    row, rule = PLATFORMS[platform], _rule(platform)
    value = ",".join(chosen) or HIDDEN
    if platform == "npu":
        value = rules.ascending(value)
    found = dict.fromkeys(row.visibility, value)
    found |= {name: setting for name, setting in rule.fixed if name not in environ}
    if platform == "rocm" and "GPU_DEVICE_ORDINAL" in environ:
        found["GPU_DEVICE_ORDINAL"] = value  # a third name of the same list
    if platform == "xpu" and rules.SELECTOR in environ:
        found[rules.SELECTOR] = "level_zero:gpu"  # its numbers counted what the old mask left
    return found


def hide(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return what to set (None = remove) so that a child sees no device of any platform."""
    lists = {name: HIDDEN for row in PLATFORMS.values() for name in row.visibility}
    others = {name: None for platform in PLATFORMS for name in variables(platform) if name not in lists}
    return {**{name: None for name in others if name in environ}, **lists}


def child_environment(
    environ: Mapping[str, str], platform: str, chosen: Sequence[str] | None
) -> dict[str, str]:
    """Return a copy of *environ* for a child that uses *platform*: *chosen* entries (None = the caller's), no others'.

    For "cpu" the child sees no device at all.
    """
    if platform == "cpu":
        changes = hide(environ)
    else:
        own = set(variables(platform))
        foreign = {name for other in PLATFORMS for name in variables(other)} - own
        changes = dict.fromkeys(foreign)
        changes |= {} if chosen is None else write(platform, environ, chosen)
    merged = {**environ, **{name: value for name, value in changes.items() if value is not None}}
    return {name: value for name, value in merged.items() if changes.get(name, "") is not None}


def problems(environ: Mapping[str, str], *, inventory: Inventory | None = None) -> list[Problem]:
    """Return every contradiction in the variables of the inventory's platform, or of all without one."""
    from omni_hardware.visibility_problems import CHECKS

    asked = [inventory.platform] if inventory else list(CHECKS)
    return [problem for name in asked for problem in CHECKS.get(name, _none)(environ, inventory)]


def _none(_environ: Mapping[str, str], _inventory: Inventory | None) -> list[Problem]:
    return []


def _rule(platform: str) -> Rule:
    return RULES.get(platform, RULES["cpu"])


def _lists(platform: str) -> tuple[str, ...]:
    """Return the variables that hold a list, the deciding one first."""
    if platform == "rocm":
        return (*PLATFORMS["rocm"].visibility, "GPU_DEVICE_ORDINAL", rules.ROCR)
    return PLATFORMS[platform].visibility if platform in PLATFORMS else ()


def _because(limit: Visible, choice: Choice, count: int) -> str:
    if len(choice.seen) == count and not choice.why:
        return ""
    if limit.value is None:
        return choice.why
    setting = f"{limit.variable}={limit.value or repr('')}"
    if count:
        setting += f" of {count}"
    return strip_controls(f"{setting}: {choice.why}" if choice.why else setting)

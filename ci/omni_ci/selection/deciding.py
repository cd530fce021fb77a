"""What is settled about steps before the rules of a selection are asked: by name, by replay, by hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omni_ci.hardware.inference import Fitted
from omni_ci.repository.places import Tree
from omni_ci.selection.asking import Asked
from omni_ci.selection.beside import other_pipelines
from omni_ci.selection.facts import Decision, Reason, Rule
from omni_ci.selection.only import VARIABLE, NamedSteps, named_steps
from omni_ci.yaml.model import step_id
from omni_hardware.errors import InputError

if TYPE_CHECKING:
    from omni_ci.selection.replaying import Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The decisions by `file#ident`, and what to say about them."""

    by_id: Mapping[str, Decision] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def settle(asked: Asked, fits: tuple[Fitted, ...], *, replay: Replay | None, tree: Tree) -> Settled:
    """Return what is decided already about the steps of *fits*.

    Raises InputError for a key that no step has, for one whose step has no hardware here, and for a stored step that
    is gone.
    """
    decided: dict[str, Decision] = {}
    notices: list[str] = []
    asked_by_name: frozenset[str] = frozenset()
    if replay is not None:
        pipelines = [fit.pipeline for fit in fits]
        decided |= replay.decided(
            step_id(one.name, leaf.ident) for one in pipelines for _, leaf in one.leaves()
        )
    if asked.only:
        named = _named(asked, fits, tree)
        decided |= named.decided
        asked_by_name = named.asked
        notices += named.notices
        if asked.only_by == VARIABLE:
            notices.append(
                f"{VARIABLE} is set, so only its steps and what they wait for run, whatever else is asked"
            )
    unfit = {step_id(fit.pipeline.name, ident): reason for fit in fits for ident, reason in fit.unfit.items()}
    if refused := [one for one in unfit if one in asked_by_name]:
        lines = [f"{one} was asked for with {asked.only_by} and cannot run: {unfit[one]}" for one in refused]
        raise InputError("\n".join(lines))
    if unfit:
        count = f"{len(unfit)} step{'' if len(unfit) == 1 else 's'}"
        notices.append(
            f"{count} cannot run on the hardware asked for, whatever else selects them: rule hardware"
        )
    return Settled(
        by_id={**decided, **{one: (False, Reason(Rule.HARDWARE, why)) for one, why in unfit.items()}},
        notices=tuple(notices),
    )


def _named(asked: Asked, fits: tuple[Fitted, ...], tree: Tree) -> NamedSteps:
    planned = [fit.pipeline for fit in fits]
    names = {one.name for one in planned}
    return named_steps(
        asked.only,
        planned,
        lambda: other_pipelines(tree, without=names),
        by=asked.only_by,
    )

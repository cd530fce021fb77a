from __future__ import annotations

from collections.abc import Iterator

from omni_ci.hardware.chips import chips_of
from omni_ci.hardware.inference import OWN_HARDWARE, Asking, asking
from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule


class MarksLeadToHardware(Rule):
    """The marks that say a step's hardware lead to a preset.

    A step whose `-m` names SKUs of which the presets have none, or a number of cards and no SKU, is left out of every
    build, and the build is green without it. Add the presets, or name another SKU.
    """

    code = "CI306"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if job.step.mirror_hardwares is not None or any(
                getattr(job.step, name) is not None for name in OWN_HARDWARE
            ):
                continue
            wanted = asking(job.step.commands, context.vocabulary)
            if not wanted.problems and (why := _lost(job, wanted, context)):
                yield job.found(why, f"{why}, so that no build runs it")


def _lost(job: Job, wanted: Asking, context: Context) -> str | None:
    """Return why *wanted* leads to no preset, whatever a build asks for; None where it does, or to a CPU job."""
    if not wanted.skus:
        return "-m names a number of cards but no SKU" if wanted.counts else None
    configuration = context.configuration(job)
    platform = configuration.equipment(job.pipeline.name).platform
    chips = chips_of(configuration.presets, context.vocabulary)
    if any(chip.sku in wanted.skus and platform in {None, chip.platform} for chip in chips):
        return None
    whose = f" {platform}" if platform else ""
    return f"-m names {', '.join(sorted(wanted.skus))}, for which {configuration.presets.file} has no{whose} presets"

"""What a preset has its steps wait for, put to them: whoever asks who waits for whom needs to know it."""

from __future__ import annotations

from omni_ci.hardware.presets import Presets, SkuPreset
from omni_ci.yaml.model import Group, Leaf, PipelineFile, Step
from omni_ci.yaml.waits import WaitGraph


def with_preset_waits(pipeline: PipelineFile, presets: Presets) -> PipelineFile:
    """Return *pipeline* with the `preset_waits` of its steps; an unknown preset brings none."""
    waiting = {
        id(leaf): keys for _, leaf in pipeline.leaves() if (keys := _keys(leaf, presets)) != _known(leaf)
    }
    if not waiting:
        return pipeline
    graph = WaitGraph([pipeline])

    def put(part: Group | Leaf) -> Group | Leaf:
        if isinstance(part, Group):
            return part.model_copy(update={"steps": tuple(map(put, part.steps))})
        if id(part) not in waiting or not isinstance(part, Step):
            return part
        preset = presets.get(part.mirror_hardwares or "")
        if preset is not None and preset.is_the_packages and graph.edges(graph.of(part)):
            return part  # a guess at what builds the image; whoever wrote what the step waits for knew
        return part.waiting_for(waiting[id(part)])

    return pipeline.model_copy(update={"steps": tuple(map(put, pipeline.steps))})


def _keys(leaf: Leaf, presets: Presets) -> tuple[str, ...]:
    preset = presets.get(leaf.mirror_hardwares or "") if isinstance(leaf, Step) else None
    if preset is None or not isinstance(preset.row, SkuPreset):
        return ()
    return tuple(key for key in preset.filled(preset.row.depends_on) if key != leaf.key)


def _known(leaf: Leaf) -> tuple[str, ...]:
    return leaf.preset_waits if isinstance(leaf, Step) else ()

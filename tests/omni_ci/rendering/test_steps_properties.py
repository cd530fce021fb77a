"""What holds for every rendered pipeline: the same question has the same bytes for an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import load_presets
from omni_ci.rendering.steps import render
from omni_ci.yaml.emitting import to_yaml
from omni_ci.yaml.loading import load_pipeline

PRESETS = load_presets(
    "schema: 1\n"
    "skus: {l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1, 2], queue: q, resource: nvidia.com/gpu,"
    " job_env: {B: preset, A: preset}}}\n",
    name="presets.yml",
)
TEXT = st.text(alphabet="ab é$\"'\n:#-{", min_size=1, max_size=8).filter(str.strip)
ENV = st.dictionaries(st.sampled_from(["A", "B", "C", "D"]), TEXT, max_size=4)
STEP = st.fixed_dictionaries(
    {"label": TEXT, "commands": st.lists(TEXT, min_size=1, max_size=3)},
    optional={
        "env": ENV,
        "timeout_in_minutes": st.integers(1, 90),
        "mirror_hardwares": st.sampled_from(["l4_1", "l4_2"]),
        "artifact_paths": st.lists(st.sampled_from(["a.xml", "b/*.log"]), min_size=1, max_size=2),
        "depends_on": st.lists(st.sampled_from(["s0", "s1", "elsewhere"]), min_size=1, max_size=3),
        "soft_fail": st.booleans(),
    },
)
STEPS = st.lists(STEP, min_size=1, max_size=4)


def written(steps: list[dict[str, Any]], env: dict[str, str]) -> str:
    keyed = [
        {
            **step,
            "key": f"s{number}",
            "depends_on": [one for one in step.get("depends_on", []) if one != f"s{number}"],
        }
        for number, step in enumerate(steps)
    ]
    return json.dumps(
        {
            "env": env,
            "steps": [keyed[0], "wait", {"group": "g", "steps": keyed[1:] or [{**keyed[0], "key": "x"}]}],
        }
    )


def rendered(text: str, runs: set[int]) -> str:
    pipeline = load_pipeline(text, name="p.yml")
    idents = [leaf.ident for _, leaf in pipeline.leaves()]
    equipment = Equipment(
        presets=PRESETS,
        pods=Pods(package_templates(), PodRules(secrets={}, infra_retry=[{"exit_status": -1, "limit": 1}])),
        platform="cuda",
    )
    kept = frozenset(ident for number, ident in enumerate(idents) if number in runs)
    return to_yaml(render(pipeline, equipment, runs=kept).document)


@settings(max_examples=50)
@given(STEPS, ENV, st.sets(st.integers(0, 6)))
def test_rendering_twice_gives_the_same_bytes(
    steps: list[dict[str, Any]], env: dict[str, str], runs: set[int]
) -> None:
    text = written(steps, env)
    assert rendered(text, runs).encode() == rendered(text, runs).encode()


def test_another_process_gives_the_same_bytes(scratch: Any) -> None:
    """Sets and hashes differ from process to process; what is rendered must not."""
    made = {
        subprocess.run(
            [sys.executable, "-m", "omni_ci", "generate", "--all", ".buildkite/cuda/test-ready.yml"],
            cwd=scratch.root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(made) == 1
    assert b"group: GPU" in made.pop()

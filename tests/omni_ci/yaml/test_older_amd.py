"""The older AMD shape: what its keys become, what is said about it, and which file is of it."""

from __future__ import annotations

import json
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.inference import fitted
from omni_ci.hardware.presets import load_presets
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.model import PipelineFile, Step
from omni_ci.yaml.older_amd import left_out
from omni_hardware.errors import InputError

PRESETS = load_presets(
    "skus: {mi300: {platform: rocm, sku: MI300, template: k8s-patch, cards: [1, 16], queue: q, resource: r}}",
    name="presets.yml",
)
# The shapes of a real file: pools, grades and none, nested lists of mirrors, folded and block commands, shards.
FILE = """\
    env:
      HF_HUB_ETAG_TIMEOUT: 60
    steps:

    - group: ":card_index_dividers: Simple Test"
      steps:
        - label: "Simple · Shard %N/%t"
          agent_pool: mi300_1
          parallelism: 3
          depends_on: amd-build
          mirror_hardwares: [amdproduction, [amdtentative]]
          grade: Blocking
          commands:
            - export VLLM_ROCM_USE_AITER=0
            - "pytest -sv tests/a --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT --shard-id=$$BUILDKITE_PARALLEL_JOB"

        - label: "Quarantined"
          agent_pool: mi300_16
          mirror_hardwares: [amdtentative]
          grade: NonBlocking
          working_dir: /app/my models
          artifact_paths:
            - server.log
          commands:
            - >-
              timeout 20m pytest -s -v
              tests/b.py

    - label: "No grade"
      agent_pool: mi300_1
      mirror_hardwares: [amdproduction]
      command: pytest tests/c.py

    - label: "No pool and no mirrors"
      grade: Blocking
      commands: [a]

    - wait
"""


def load(text: str) -> PipelineFile:
    return load_pipeline(textwrap.dedent(text), name="amd.yml")


def steps(pipeline: PipelineFile) -> list[Step]:
    return [leaf for _, leaf in pipeline.leaves() if isinstance(leaf, Step)]


def problems(text: str) -> list[str]:
    with pytest.raises(LoadError) as caught:
        load(text)
    return str(caught.value).splitlines()


def test_its_keys_become_ours() -> None:
    one, two, three, four = steps(load(FILE))
    assert [step.mirror_hardwares for step in (one, two, three, four)] == [
        "mi300_1",
        "mi300_16",
        "mi300_1",
        "mi300_1",
    ]
    assert [step.soft_fail for step in (one, two, three, four)] == [False, True, True, False]
    assert [step.mirrors for step in (one, two, three, four)] == [
        ("amdproduction", "amdtentative"),
        ("amdtentative",),
        ("amdproduction",),
        (),
    ]
    assert one.written() == {
        "label": "Simple · Shard %N/%t",
        "parallelism": 3,
        "depends_on": "amd-build",
        "soft_fail": False,
        "commands": [
            "export VLLM_ROCM_USE_AITER=0",
            "pytest -sv tests/a --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT --shard-id=$$BUILDKITE_PARALLEL_JOB",
        ],
    }
    assert two.commands == ("cd '/app/my models'", "timeout 20m pytest -s -v tests/b.py")
    assert two.artifact_paths == ("server.log",)
    assert three.commands == ("pytest tests/c.py",)


def test_every_translation_is_said_with_its_place() -> None:
    assert load(FILE).notices == (
        (
            "amd.yml: read as the older AMD shape; what its generator added to every step (a prefix of the label, "
            "`priority: 100`, `depends_on: image-build`, `cd /app/vllm-omni`) is up to the presets"
        ),
        (
            "amd.yml:7: step 'Simple · Shard %N/%t': agent_pool mi300_1 → mirror_hardwares mi300_1; "
            "grade Blocking → soft_fail false; runs on the mirrors: amdproduction, amdtentative"
        ),
        (
            "amd.yml:17: step 'Quarantined': agent_pool mi300_16 → mirror_hardwares mi300_16; "
            "grade NonBlocking → soft_fail true; working_dir → the first command is `cd '/app/my models'`; "
            "runs on the mirrors: amdtentative"
        ),
        (
            "amd.yml:29: step 'No grade': agent_pool mi300_1 → mirror_hardwares mi300_1; "
            "no grade → soft_fail true: its failures do not block, as the older generator had it silently; "
            "runs on the mirrors: amdproduction"
        ),
        (
            "amd.yml:34: step 'No pool and no mirrors': no agent_pool → mirror_hardwares mi300_1, "
            "the older generator's default; grade Blocking → soft_fail false; runs on the mirrors: none"
        ),
    )


def test_the_asked_mirror_leaves_steps_out_with_the_reason() -> None:
    pipeline = load(FILE)
    found = fitted(pipeline, PRESETS, platform="rocm")
    assert found.unfit == {
        "quarantined": "its mirrors are amdtentative, and AMD_MIRROR_HW is amdproduction",
        "no-pool-and-no-mirrors": "it has no `mirror_hardwares:` list, so that no mirror runs it "
        "(AMD_MIRROR_HW=amdproduction)",
    }
    assert found.notices == pipeline.notices
    assert set(fitted(pipeline, PRESETS, platform="rocm", amd_mirror_hw="amdtentative").unfit) == {
        "no-grade",
        "no-pool-and-no-mirrors",
    }


def test_a_mirror_that_nothing_runs_on_is_refused() -> None:
    with pytest.raises(InputError, match=r"AMD_MIRROR_HW='AMDPRODUCTION' .* \(did you mean 'amdproduction'"):
        fitted(load(FILE), PRESETS, platform="rocm", amd_mirror_hw="AMDPRODUCTION")
    ours = load_pipeline("steps: [{label: A, commands: [x]}]", name="a.yml")
    assert fitted(ours, PRESETS, platform="rocm", amd_mirror_hw="AMDPRODUCTION").unfit == {}


def test_a_misspelt_mirror_is_named_in_the_reason() -> None:
    assert left_out(("amdprodution",), "amdproduction") == (
        "its mirrors are amdprodution, and AMD_MIRROR_HW is amdproduction (did you mean 'amdprodution'?)"
    )
    assert left_out(None, "amdproduction") is None


def test_the_number_of_cards_is_the_whole_number() -> None:
    # the older generator took the last character: six cards of a sixteen-card machine
    found = fitted(load(FILE), PRESETS, platform="rocm")
    assert steps(found.pipeline)[1].mirror_hardwares == "mi300_16"
    assert PRESETS.by_name["mi300_16"].cards == 16


def test_a_dollar_in_a_folders_name_is_none_for_the_agent() -> None:
    """Quoted for the shell, and doubled for the agent, which would put a variable there."""
    text = "steps: [{label: a, agent_pool: mi300_1, grade: Blocking, working_dir: /cost/$5 and $HOME, command: ls}]"
    (step,) = load_pipeline(text, name="amd.yml").steps
    assert step.commands == ("cd '/cost/$$5 and $$HOME'", "ls")


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("agent_pool: mi300", "agent_pool 'mi300' must be a pool and its number of cards, such as mi300_1"),
        ("agent_pool: mi300_0", "agent_pool 'mi300_0' must be"),
        ("agent_pool: 3", "agent_pool 3 must be"),
        ("agent_pool: [a_1]", "agent_pool ['a_1'] must be"),
        (
            "grade: blocking",
            "grade 'blocking' is none, and the older generator would have let every failure pass ",
        ),
        ("grade: blocking", "(did you mean 'Blocking'?)"),
        ("grade: true", "grade True is none"),
        ("agent_pool: mi300_1, grade: Blocking, soft_fail: true", "soft_fail contradicts `grade: Blocking`"),
        ("agent_pool: mi300_1, working_dir: ''", "working_dir must name a folder"),
        ("agent_pool: mi300_1, mirror_hardwares: [3]", "lists mirrors such as amdproduction, not 3"),
        (
            "agent_pool: mi300_1, mirror_hardwares: [mi300_2]",
            "'mi300_2' in a list of mirrors is a preset's name; write `mirror_hardwares: mi300_2`, without a list",
        ),
        ("grade: Blocking, agent_pol: mi300_1", "agent_pol: unknown key (did you mean 'agent_pool'?)"),
        ("agent_pool: mi300_1, optional: true", "steps[0].optional: unknown key"),
        ("agent_pool: mi300_1, agents: {queue: q}", "already gives what agents (line 2) would set"),
        ("agent_pool: mi300_1, timeout_in_minutes: 0", "timeout_in_minutes is 0; it must be at least 1"),
    ],
)
def test_what_it_says_wrong_is_named_at_its_place(step: str, said: str) -> None:
    (found,) = problems(f"steps:\n  - {{command: a, {step}}}\n")
    assert found.startswith("amd.yml:2:")
    assert said in found


def test_a_step_of_our_shape_in_such_a_file_is_refused_and_says_what_to_write() -> None:
    found = problems("""\
        steps:
        - {label: a, agent_pool: mi300_1, command: a}
        - {label: b, agent_pool: mi300_1, command: a}
        - {label: c, mirror_hardwares: amdproduction, command: a}
        - {label: d, tests: {paths: a}}
        - {label: e, agent_pool: mi300_1, command: a}
        """)
    assert found == [
        (
            "amd.yml:4:14: two shapes in one file: `mirror_hardwares: amdproduction` here, and the older AMD shape's "
            "`agent_pool` on line 2; write a list of mirrors (`[amdproduction]`) here, or presets everywhere"
        ),
        (
            "amd.yml:5:14: two shapes in one file: `tests` here, and the older AMD shape's `agent_pool` on line 2; "
            "write `commands:` here, or presets everywhere"
        ),
    ]


def test_its_own_machines_need_no_pool() -> None:
    (step, _) = steps(
        load("""
            steps:
            - {label: a, agents: {queue: cpu}, grade: Blocking, mirror_hardwares: [amdproduction], command: a}
            - {label: b, soft_fail: [{exit_status: 5}], agent_pool: mi300_1, command: a}
        """)
    )
    assert (step.mirror_hardwares, step.agents) == (None, {"queue": "cpu"})


def test_soft_fail_of_its_own_stays() -> None:
    pipeline = load("steps: [{label: b, soft_fail: [{exit_status: 5}], agent_pool: mi300_1, command: a}]")
    assert steps(pipeline)[0].soft_fail == [{"exit_status": 5}]
    assert "no grade: soft_fail stays as written" in pipeline.notices[1]


def test_a_stray_key_does_not_turn_a_file_of_ours_into_one_that_runs_nothing() -> None:
    steps_of_ours = "\n".join(f"- {{label: s{n}, agents: {{queue: cpu}}, command: a}}" for n in range(3))
    found = problems(
        f"steps:\n{steps_of_ours}\n- {{label: x, grade: Blocking, agents: {{queue: q}}, command: a}}\n"
    )
    assert found == [
        "amd.yml:5:14: steps[3].grade: unknown key; write `soft_fail: true` or `soft_fail: false`"
    ]


def test_a_file_of_our_shape_says_nothing() -> None:
    pipeline = load("steps: [{command: a, mirror_hardwares: mi300_1}, wait]")
    assert pipeline.notices == ()
    assert steps(pipeline)[0].mirrors is None


VALUES = st.recursive(
    st.sampled_from(["mi300_1", "amdproduction", "Blocking", "", "x", None, 3, True, "tests/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["queue", "steps", "group", "grade"]), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = [
    "agent_pool",
    "grade",
    "working_dir",
    "mirror_hardwares",
    "command",
    "label",
    "group",
    "steps",
    "soft_fail",
]


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.sampled_from([*KEYS, "wait", "tests"]), VALUES), max_size=4))
def test_reading_it_never_crashes(written: list[dict[str, object]]) -> None:
    try:
        pipeline = load_pipeline(json.dumps({"steps": written}), name="amd.yml")
    except LoadError:
        return
    for step in steps(pipeline):
        assert step.mirrors is None or pipeline.notices

from __future__ import annotations

RUN = "scripts/run_cov_split.sh --model-id bagel --offline tests/a.py"
STEP = """
    - label: Bagel
      plugins:
        - docker#v5.2.0: {config}
      commands: ["{run}"]
"""


def test_a_docker_container_without_the_agent_is_found(found):
    config = "{image: x, propagate-environment: true}"
    assert found("CI102", STEP.format(config=config, run=RUN)) == [
        "step 'Bagel': calls buildkite-agent in a docker container without `mount-buildkite-agent: true`"
    ]
    upload = "buildkite-agent artifact upload x"
    assert len(found("CI102", STEP.format(config=config, run=upload))) == 1


def test_a_docker_container_that_does_not_know_its_step_is_found(found):
    config = "{image: x, mount-buildkite-agent: true}"
    assert found("CI102", STEP.format(config=config, run=RUN)) == [
        (
            "step 'Bagel': measures coverage in a docker container without BUILDKITE_STEP_ID; "
            "write `propagate-environment: true`"
        )
    ]


def test_a_container_with_both_a_pod_and_a_step_that_needs_neither_are_fine(found):
    config = "{image: x, mount-buildkite-agent: true, environment: [BUILDKITE_STEP_ID]}"
    assert found("CI102", STEP.format(config=config, run=RUN)) == []
    assert found("CI102", STEP.format(config="{image: x}", run="pytest tests")) == []
    assert found("CI102", f'- {{label: A, mirror_hardwares: l4_1, commands: ["{RUN}"]}}') == []

"""`omni-ci presets`: every name a step may ask for."""

from __future__ import annotations

from typing import Any


def test_every_preset_is_listed_with_what_stands_behind_it(scratch: Any) -> None:
    ran = scratch.run("presets")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["preset", "hardware", "cards", "queue", "template", "from"]
    assert lines[1].split() == ["l4_1", "cuda", "L4", "1", "l4-k8s", "k8s-spec", ".buildkite/presets.yml:3"]
    assert lines[-1] == "3 presets in .buildkite/presets.yml"


def test_another_file_can_be_listed_and_an_older_one_says_so(scratch: Any) -> None:
    scratch.write({"old.yml": "mirror_hardwares:\n  h100_2: {agents: {queue: pool}}\n"})
    ran = scratch.run("presets", "--presets", "old.yml")
    assert ran.code == 0
    assert ran.out.splitlines()[1].split() == ["h100_2", "-", "2", "pool", "literal", "old.yml:2"]
    assert "note: old.yml: mirror_hardwares: is read as fragments:" in ran.err


def test_a_file_that_is_not_there_is_one_message(scratch: Any) -> None:
    ran = scratch.run("presets", "--presets", "no.yml")
    assert ran.code == 2
    assert "no.yml: there is no such file" in ran.err


def test_a_template_that_cannot_render_is_found_here(scratch: Any) -> None:
    scratch.write({".buildkite/templates/k8s-spec.yml.j2": "agents: {{ nothing }}"})
    ran = scratch.run("presets")
    assert ran.code == 2
    assert "'nothing' is undefined" in ran.err


def test_without_any_the_way_on_is_named(scratch: Any) -> None:
    scratch.git("rm", "--quiet", "-r", ".buildkite")
    ran = scratch.run("presets")
    assert ran.code == 2
    assert "omni-ci init" in ran.err


def test_the_presets_of_every_pipeline_are_listed(scratch: Any) -> None:
    other = (scratch.root / ".buildkite/presets.yml").read_text(encoding="utf-8").replace("l4:", "big:")
    scratch.write({".buildkite/amd/presets.yml": other, ".buildkite/amd/test-ready.yml": "steps: [wait]\n"})
    ran = scratch.run("presets")
    assert ran.code == 0, ran.err
    assert [line.split()[0] for line in ran.out.splitlines()[1:7]] == [
        "big_1", "big_2", "big_4", "l4_1", "l4_2", "l4_4",
    ]  # fmt: skip
    assert ran.out.splitlines()[-1] == "6 presets in .buildkite/amd/presets.yml, .buildkite/presets.yml"


def test_presets_are_found_before_there_is_a_pipeline(scratch: Any) -> None:
    (scratch.root / ".buildkite/cuda/test-ready.yml").unlink()
    assert scratch.run("presets").code == 0


def test_a_preset_that_alone_lacks_something_is_listed_and_named(scratch: Any) -> None:
    scratch.write({".buildkite/policy.yml": "schema: 1\npods: {required_env: [HF_HOME]}\n"})
    ran = scratch.run("presets")
    assert ran.code == 3
    assert "3 presets in .buildkite/presets.yml" in ran.out
    said = "presets.yml:3: POLICY presets 'l4_1', 'l4_2', 'l4_4': container 'container-0' has no HF_HOME"
    assert ran.err.count(said) == ran.err.count("HF_HOME,") == 1


def test_a_runner_that_is_not_there_is_named_once_a_block(scratch: Any) -> None:
    scratch.edit(".buildkite/presets.yml", "    queue:", "    runner: scripts/run.sh\n    queue:")
    ran = scratch.run("presets")
    assert ran.code == 3
    assert ran.err.count("there is no runner scripts/run.sh") == 1
    scratch.write({"scripts/run.sh": ""})
    assert scratch.run("presets").code == 0


def test_two_counts_of_cards_are_one_message(scratch: Any) -> None:
    scratch.edit(".buildkite/presets.yml", "queue: l4-k8s", "queue: gpu_1_queue")
    ran = scratch.run("presets")
    assert ran.code == 2
    assert "presets.yml:3:3: preset 'l4_2': S14 card counts differ" in ran.err
    assert "queue gpu_1_queue 1" in ran.err

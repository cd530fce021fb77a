"""Pipeline files: what is accepted, and that every problem is reported at once, at its place."""

from __future__ import annotations

import string
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.model import Group, PipelineFile, PlainStep, Step


def load(text: str) -> PipelineFile:
    return load_pipeline(textwrap.dedent(text), name="p.yml")


def problems(text: str) -> list[str]:
    with pytest.raises(LoadError) as caught:
        load(text)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_a_step_keeps_what_was_written() -> None:
    pipeline = load("""
        env: {WORKERS: 2, VERSION: 1.10, FAST: true, MODE: on}
        steps:
          - label: "Diffusion · Z-Image"
            key: z_image
            mirror_hardwares: l4_1
            source_file_dependencies: [omni/, pyproject.toml]
            timeout_in_minutes: 30
            if: build.branch == "main"
            commands: [pytest tests/a.py, "echo done"]
            soft_fail: false
            retry: {automatic: [{exit_status: -1, limit: 1}]}
    """)
    (step,) = pipeline.steps
    assert isinstance(step, Step)
    assert pipeline.env == {"WORKERS": "2", "VERSION": "1.10", "FAST": "true", "MODE": "on"}
    assert step.commands == ("pytest tests/a.py", "echo done")
    assert step.source_file_dependencies == ("omni/", "pyproject.toml")
    assert (step.where.file, step.where.line, step.where.column) == ("p.yml", 4, 5)
    written = step.written()
    assert written["if"] == 'build.branch == "main"'
    assert written["soft_fail"] is False
    assert written["retry"] == {"automatic": [{"exit_status": -1, "limit": 1}]}
    assert {"mirror_hardwares", "source_file_dependencies", "command", "plugins"}.isdisjoint(written)


@pytest.mark.parametrize("written", ["command: a", "command: [a]", "commands: a", "commands: [a]"])
def test_command_and_commands_mean_the_same(written: str) -> None:
    (step,) = load(f"steps: [{{{written}}}]").steps
    assert isinstance(step, Step)
    assert step.commands == ("a",)
    assert step.written() == {"commands": ["a"]}


def test_anchors_merges_and_writer_keys() -> None:
    pipeline = load("""
        x-common: &common
          timeout_in_minutes: 30
          env: {A: 1.50}
        x-paths: &paths [omni/, [tests/e2e/]]
        steps:
          - label: one
            <<: *common
            timeout_in_minutes: 40
            command: a
            source_file_dependencies: [*paths, omni/, README.md]
          - <<: [{label: two}, *common]
            command: b
    """)
    one, two = pipeline.steps
    assert isinstance(one, Step)
    assert isinstance(two, Step)
    assert (one.timeout_in_minutes, two.timeout_in_minutes, two.label) == (40, 30, "two")
    assert one.env == {"A": "1.50"}
    assert one.source_file_dependencies == ("omni/", "tests/e2e/", "README.md")


def test_waits_blocks_and_triggers_pass_through() -> None:
    pipeline = load("""
        steps:
          - wait
          - wait:
            continue_on_failure: true
          - block: "Ship it?"
            key: ship
          - trigger: other
            build: {branch: main}
            source_file_dependencies: [omni/]
    """)
    bodies = [step.body for step in pipeline.steps if isinstance(step, PlainStep)]
    assert bodies == [
        "wait",
        {"wait": None, "continue_on_failure": True},
        {"block": "Ship it?", "key": "ship"},
        {"trigger": "other", "build": {"branch": "main"}},
    ]
    assert [leaf.ident for _, leaf in pipeline.leaves()] == ["wait", "wait-2", "ship", "other"]
    assert pipeline.steps[3].source_file_dependencies == ("omni/",)


def test_a_bare_word_knows_its_place() -> None:
    pipeline = load("""
        steps:
          - command: a
          - wait
          - group: G
            steps: [{command: b}, "block"]
    """)
    first, wait, group = pipeline.steps
    assert [str(part.where) for part in (first, wait, group)] == ["p.yml:3:5", "p.yml:4:5", "p.yml:5:5"]
    assert str(group.steps[1].where) == "p.yml:6:27"


def test_a_group_holds_steps_and_its_own_dependencies() -> None:
    pipeline = load("""
        steps:
          - group: E2E Test
            depends_on: upload
            source_file_dependencies: omni/
            steps: [{command: a, label: ":docker: One %N/%t"}, wait]
    """)
    (group,) = pipeline.steps
    assert isinstance(group, Group)
    assert group.source_file_dependencies == ("omni/",)
    assert [(owner is group, leaf.ident) for owner, leaf in pipeline.leaves()] == [
        (True, "one"),
        (True, "wait"),
    ]


def test_idents_are_unique_and_keys_keep_theirs() -> None:
    pipeline = load("""
        steps:
          - {label: Same, command: a}
          - {label: same!, command: b}
          - {label: other, key: same, command: c}
          - {label: Same, command: d}
    """)
    assert [leaf.ident for _, leaf in pipeline.leaves()] == ["same-2", "same-3", "same", "same-4"]


def test_every_problem_is_reported_at_once() -> None:
    found = problems("""\
        env: {A: ~}
        steps:
          - label: one
            comands: [a]
            timeout_in_minutes: soon
            if: true
          - command: x
            commands: [y]
            parallelism: 0
            soft_fail: yes
          - group: g
            step: []
          - waits
        """)
    assert found == [
        "p.yml:1:7: env.A has no value; give one or remove the key",
        "p.yml:3:5: steps[0] does nothing: it has none of commands, tests, plugins, wait, block, input, trigger or group",
        "p.yml:4:5: steps[0].comands: unknown key (did you mean 'commands'?)",
        "p.yml:5:5: steps[0].timeout_in_minutes must be a whole number, not text ('soon')",
        "p.yml:6:5: steps[0].if must be a condition in quotes, such as 'build.branch == \"main\"'",
        "p.yml:7:5: steps[1] has both command and commands; keep one",
        "p.yml:9:5: steps[1].parallelism is 0; it must be at least 1",
        "p.yml:10:5: steps[1].soft_fail must be true or false or a list of exit codes, not text ('yes')",
        "p.yml:11:5: steps[2].steps is missing",
        "p.yml:12:5: steps[2].step: unknown key (did you mean 'steps'?)",
        "p.yml:13:5: steps[3] is not a step: a step is a mapping, or the word wait, not text ('waits')",
    ]


def test_infra585_an_unknown_field_is_refused_and_a_known_one_suggested() -> None:
    """A field that the generator discards without a word: the step it should have started never runs."""
    assert problems("steps: [{command: a, timeout_in_minute: 3, autorun_on_main: true}]") == [
        "p.yml:1:22: steps[0].timeout_in_minute: unknown key (did you mean 'timeout_in_minutes'?)",
        (
            "p.yml:1:44: steps[0].autorun_on_main: unknown key (known: source_file_dependencies, label, key, commands, "
            "tests, mirror_hardwares, imports, depends_on, allow_dependency_failure, if, if_changed, branches, …)"
        ),
    ]
    # deeper than the step's own keys as well
    (found,) = problems("steps: [{command: a, retry: {automatic: [{exit_status: 1, limits: 3}]}}]")
    assert found.endswith("retry.automatic[0].limits: unknown key (did you mean 'limit'?)")


def test_a_doubled_key_names_both_lines() -> None:
    found = problems("""\
        steps:
          - label: one
            command: a
            label: two
        """)
    assert found == ["p.yml:4:5: key 'label' is written twice, on lines 2 and 4; keep one"]


def test_a_key_of_two_steps_names_the_other() -> None:
    found = problems("""\
        steps:
          - {key: a, command: x}
          - group: g
            steps:
              - {key: a, command: y}
        """)
    assert found == ["p.yml:5:10: steps[1].steps[0].key 'a' is also the key of the step at line 2"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("true", "must name one preset, such as l4_1, not true"),
        ("4", "must name one preset, such as l4_1, not 4"),
        ("{l4: 1}", "must name one preset"),
        ("", "has no value"),
        (
            "l4_1\n    agents: {queue: q}\n    image: i",
            "already gives what agents (line 4), image (line 5) would set",
        ),
        ("l4_1\n    plugins: []", "already gives what plugins (line 4) would set"),
    ],
)
def test_presets_that_cannot_be_meant(value: str, said: str) -> None:
    found = problems(f"steps:\n  - command: a\n    mirror_hardwares: {value}\n")
    assert len(found) == 1
    assert found[0].startswith("p.yml:3:5: steps[0].mirror_hardwares ")
    assert said in found[0]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("omni/**", "write 'omni/'"),
        ("'*.py'", "name files or folders"),
        ("./omni/", "such as 'omni/'"),
        ("/omni/", "such as 'omni/'"),
        ("../omni", "such as 'omni'"),
        ("''", "names nothing"),
        ("'!'", "names nothing"),
        ("' omni/'", "blanks"),
        ("3", "is not text"),
        ("{a: b}", "is not text"),
    ],
)
def test_dependencies_that_could_never_match(entry: str, said: str) -> None:
    found = problems(f"steps:\n  - command: a\n    source_file_dependencies: [tests/, [{entry}]]\n")
    assert len(found) == 1
    assert found[0].startswith("p.yml:3:41: steps[0].source_file_dependencies: ")
    assert said in found[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "steps: [{command: a, source_file_dependencies: []}]",
            "is empty; remove it (the step then always runs)",
        ),
        ("steps: []", "p.yml:1:1: steps is empty"),
        ("steps: [{group: g, steps: []}]", "steps[0].steps is empty"),
        ("steps: [{group: g, steps: [{group: h, steps: [wait]}]}]", "a group cannot stand inside a group"),
        ("steps: [{}]", "does nothing"),
        ("steps: [{command: ''}]", "steps[0].command is empty"),
        ("steps: [{block: b, fieldz: []}]", "a block step has no key 'fieldz' (did you mean 'fields'?)"),
        ("steps: [{trigger: [a]}]", "steps[0].trigger must name a pipeline"),
        (
            "steps: [{command: a, mirror_hardwares: l4_1}, {command: a, agent_pool: mi300_1}]",
            "steps[1].agent_pool: unknown key; write `mirror_hardwares: mi300_1`",
        ),
        (
            "steps: [{command: a, mirror_hardwares: l4_1}, {command: a, mirror_hardwares: [amdproduction]}]",
            "steps[1].mirror_hardwares must name one preset, such as l4_1; a list of mirrors is the older AMD shape",
        ),
        ("steps: [{command: a, working_dir: x}]", "working_dir: unknown key; write `cd DIR` as the first"),
        ("steps: [{command: a, key: a b}]", "steps[0].key 'a b' must be 1 to 100 of A-Z a-z 0-9 _ - : . ,"),
        (
            "steps: [{command: a, key: 0191a3c4-11aa-7abc-8def-001122334455}]",
            "looks like a UUID, which Buildkite keeps for jobs",
        ),
        ("steps: [{command: a, env: {A: [1]}}]", "steps[0].env.A must be text, not a list"),
        ("steps: wait", "steps must be a list, not text ('wait')"),
        ("stepz: [wait]", "stepz: unknown key (did you mean 'steps'?)"),
        ("steps: [5]", "is not a step"),
    ],
)
def test_one_problem_one_message(text: str, said: str) -> None:
    assert any(said in line for line in problems(text))


NAMES = st.text(string.ascii_lowercase, min_size=3, max_size=12).map(lambda name: f"zz_{name}")


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from(["top", "step", "group", "inner", "wait"]), NAMES),
        min_size=1,
        max_size=6,
        unique_by=lambda pair: pair[1],
    )
)
def test_unknown_keys_anywhere_are_each_reported_at_their_line(planted: list[tuple[str, str]]) -> None:
    lines: list[str] = []
    expected: list[tuple[int, str]] = []

    def add(line: str, place: str, indent: str) -> None:
        lines.append(line)
        for where, name in planted:
            if where == place:
                lines.append(f"{indent}{name}: 1")
                expected.append((len(lines), name))

    add("priority: 1", "top", "")
    lines.append("steps:")
    add("  - command: a", "step", "    ")
    add("  - wait: ''", "wait", "    ")
    add("  - group: g", "group", "    ")
    lines.append("    steps:")
    add("      - command: b", "inner", "        ")
    found = problems("\n".join(lines))
    assert len(found) == len(expected)
    for line, (number, name) in zip(found, expected, strict=True):
        assert line.startswith(f"p.yml:{number}:")
        assert name in line


def test_a_bare_word_buildkite_has_no_step_for_is_refused() -> None:
    with pytest.raises(LoadError, match=r"steps\[0\] is not a step"):
        load_pipeline("steps: [manual]", name="a.yml")
    for word in ("wait", "waiter", "block", "input"):
        assert load_pipeline(f"steps: [{word}]", name="a.yml").steps


def test_numbers_keep_their_text_through_a_merge() -> None:
    text = "x-a: &x {A: 1.10, B: 010, C: 2.0}\nsteps: [{command: x, env: {<<: *x, C: word}}]\n"
    (step,) = load_pipeline(text, name="a.yml").steps
    assert step.env == {"A": "1.10", "B": "010", "C": "word"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("steps: [{group: '', steps: [{command: a}]}]", "steps[0].group is empty; give it a title"),
        ("steps: [{command: a, agents: {queue: ''}}]", "steps[0].agents: queue is empty"),
        ("steps: [{command: a, agents: ['queue= ']}]", "steps[0].agents: queue is empty"),
        ("{agents: {queue: ''}, steps: [{command: a}]}", "agents: queue is empty"),
    ],
)
def test_what_asks_for_nothing_is_refused(text: str, problem: str) -> None:
    (found,) = problems(text)
    assert problem in found

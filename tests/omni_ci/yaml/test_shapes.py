"""What passes through to Buildkite as written: its shapes, each mistake at its line."""

from __future__ import annotations

import pytest

from omni_ci.yaml.loading import LoadError, load_pipeline


def found(attribute: str, *, kind: str = "command: a") -> list[str]:
    try:
        load_pipeline(f"steps:\n  - {kind}\n    {attribute}\n", name="p.yml")
    except LoadError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize(
    "attribute",
    [
        "depends_on: build",
        "depends_on: ~",
        "depends_on: [build, {step: other, allow_failure: true}]",
        "agents: {queue: q, os: 3, gpu: true}",
        "agents: [queue=q]",
        "if_changed: '**.go'",
        "if_changed: {include: [a, b], exclude: c}",
        "branches: main",
        "branches: [main, '!x']",
        "plugins: [docker#v5.2.0, {docker#v5.2.0: {image: i, n: [1, {a: ~}]}}]",
        "plugins: {docker#v5.2.0: ~}",
        "matrix: [a, 1, true]",
        "matrix: {setup: {sku: [a, b]}, adjustments: [{with: {sku: a}, skip: true, soft_fail: [{exit_status: 1}]}]}",
        "retry: {automatic: true, manual: {allowed: false, reason: no, permit_on_passed: true}}",
        "retry: {automatic: [{exit_status: -1, limit: 1}, {exit_status: '*'}, {signal_reason: agent_stop}]}",
        "retry: {automatic: {exit_status: [1, 2], signal: SIGKILL}}",
        "notify: [github_check, {slack: '#ci', if: 'x'}]",
        "secrets: {TOKEN: token}",
        "secrets: [TOKEN]",
        "cache: {paths: [a], size: 20g}",
        "checkout: {skip: true}",
        "soft_fail: true",
        "soft_fail: [{exit_status: '*'}, {exit_status: 1}]",
    ],
)
def test_every_shape_that_buildkite_takes_passes(attribute: str) -> None:
    assert found(attribute) == []


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("depends_on: 3", "3:5: steps[0].depends_on must be text or a list of keys, not 3"),
        ("depends_on: [build, 3]", "3:25: steps[0].depends_on[1] must be text or a mapping, not 3"),
        ("depends_on: [{setp: a}]", "3:19: steps[0].depends_on[0].setp: unknown key (did you mean 'step'?)"),
        ("depends_on: [{allow_failure: true}]", "steps[0].depends_on[0].step is missing"),
        ("agents: q", "steps[0].agents must be a mapping of tags or a list of tag=value, not text ('q')"),
        (
            "agents: {queue: [a]}",
            "3:14: steps[0].agents.queue must be text, a number or true or false, not a list",
        ),
        ("agents: [3]", "steps[0].agents[0] must be text, not 3"),
        ("if_changed: {exclude: a}", "steps[0].if_changed.include is missing"),
        ("branches: true", "steps[0].branches must be text or a list, not true"),
        (
            "plugins: docker#v5",
            "steps[0].plugins must be a list of plugins or a mapping of plugins, not text",
        ),
        ("plugins: [3]", "steps[0].plugins[0] must be text or a mapping of one plugin, not 3"),
        ("matrix: {setpu: []}", "steps[0].matrix.setpu: unknown key (did you mean 'setup'?)"),
        ("matrix: {setup: {a: 1}}", "steps[0].matrix.setup.a must be a list, not 1"),
        ("retry: true", "steps[0].retry must be a mapping, not true"),
        ("retry: {automatc: true}", "3:13: steps[0].retry.automatc: unknown key (did you mean 'automatic'?)"),
        ("retry: {automatic: [{exit_staus: 1}]}", "exit_staus: unknown key (did you mean 'exit_status'?)"),
        ("retry: {automatic: {limit: 99}}", "steps[0].retry.automatic.limit is 99; it must be at most 10"),
        ("retry: {automatic: {limit: -1}}", "steps[0].retry.automatic.limit is -1; it must be at least 0"),
        ("retry: {automatic: {limit: true}}", "automatic.limit must be a whole number, not true"),
        (
            "retry: {automatic: {exit_status: soon}}",
            "steps[0].retry.automatic.exit_status is 'soon' (known: *)",
        ),
        (
            "retry: {automatic: {signal_reason: agent_stopped}}",
            "signal_reason is 'agent_stopped' (did you mean 'agent_stop'?)",
        ),
        (
            "retry: {manual: {allowed: no thanks}}",
            "steps[0].retry.manual.allowed must be true or false, not text",
        ),
        ("notify: slack", "steps[0].notify must be a list, not text ('slack')"),
        ("secrets: {TOKEN: 1}", "steps[0].secrets.TOKEN must be text, not 1"),
        ("cache: {size: 20g}", "steps[0].cache.paths is missing"),
        ("checkout: skip", "steps[0].checkout must be a mapping, not text ('skip')"),
        ("soft_fail: [{exit_code: 1}]", "soft_fail[0].exit_code: unknown key (known: exit_status)"),
        (
            "soft_fail: [{exit_status: ~}]",
            "exit_status must be a whole number or * or a list of whole numbers, not nothing",
        ),
    ],
)
def test_another_shape_is_named_at_its_line(attribute: str, said: str) -> None:
    (line,) = found(attribute)
    assert line.startswith("p.yml:3:")
    assert said in line


@pytest.mark.parametrize(
    ("kind", "attribute", "said"),
    [
        ("block: b", "if: true", "steps[0].if must be text, not true"),
        (
            "block: b",
            "blocked_state: gone",
            "steps[0].blocked_state is 'gone' (known: passed, failed, running)",
        ),
        ("input: b", "fields: {text: a}", "steps[0].fields must be a list of fields, not a mapping"),
        ("wait: ''", "continue_on_failure: 1", 'must be true or false or "true" or "false", not 1'),
        ("trigger: t", "build: main", "steps[0].build must be a mapping, not text ('main')"),
        (
            "trigger: t",
            "depends_on: {a: b}",
            "steps[0].depends_on must be text or a list of keys, not a mapping",
        ),
    ],
)
def test_plain_steps_have_shapes_too(kind: str, attribute: str, said: str) -> None:
    (line,) = found(attribute, kind=kind)
    assert said in line


def test_groups_and_the_file_have_them_too() -> None:
    text = "agents: q\nsteps:\n  - group: g\n    depends_on: 3\n    steps: [wait]\n"
    with pytest.raises(LoadError) as caught:
        load_pipeline(text, name="p.yml")
    assert str(caught.value).splitlines() == [
        "p.yml:1:1: agents must be a mapping of tags or a list of tag=value, not text ('q')",
        "p.yml:4:5: steps[0].depends_on must be text or a list of keys, not 3",
    ]

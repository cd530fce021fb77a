"""The typed classes drop what they do not know; nothing dropped may pass unseen."""

from __future__ import annotations

import buildkite_sdk
import pytest

from omni_ci.rendering.sdk import DroppedKeyError, through_sdk
from omni_hardware.errors import InputError

ORIGINS = {(0,): "a.yml:3", (0, 0): "a.yml:5"}
FULL = {
    "env": {"A": "1", "B": ""},
    "agents": {"queue": "q"},
    "steps": [
        {
            "group": "G",
            "key": "g",
            "if": 'build.branch == "main"',
            "depends_on": ["a", {"step": "b", "allow_failure": True}],
            "steps": [
                {
                    "label": "x",
                    "commands": ["a", "b"],
                    "soft_fail": False,
                    "retry": {
                        "automatic": [{"exit_status": -1, "limit": 1}, {"signal_reason": "agent_stop"}]
                    },
                    "plugins": [
                        {"kubernetes": {"podSpec": {"containers": [{"name": "c", "x": None}]}}},
                        "p#v1",
                    ],
                    "env": {"E": ""},
                    "artifact_paths": ["a/*.log"],
                    "depends_on": None,
                }
            ],
        },
        "wait",
        {"wait": None, "continue_on_failure": True},
        {"block": "Release?", "fields": [{"text": "T", "key": "t"}]},
        {"trigger": "other", "async": True, "build": {"branch": "main"}},
    ],
}


def test_a_whole_pipeline_comes_back_as_it_was_meant() -> None:
    assert through_sdk(FULL, {}) == FULL


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"timeout_in_minute": 3}, "`timeout_in_minute` is dropped"),
        ({"retry": {"automatic": [{"exit_status": -1, "limt": 1}]}}, "`retry.automatic.0.limt` is dropped"),
        ({"depends_on": [{"step": "a", "allow_failures": True}]}, "`depends_on.0.allow_failures` is dropped"),
        ({"notify": [{"email": "a@b.c", "when": "x"}]}, "`notify"),
    ],
)
def test_a_key_the_classes_drop_is_named_with_its_step(extra: dict, message: str) -> None:
    step = {"label": "Engine", "commands": ["x"], **extra}
    with pytest.raises((DroppedKeyError, InputError)) as refused:
        through_sdk({"steps": [step]}, ORIGINS)
    assert str(refused.value).startswith("a.yml:3: step 'Engine': ")
    assert message in str(refused.value)


def test_a_key_lost_inside_a_group_names_the_inner_step() -> None:
    group = {"group": "G", "steps": [{"label": "Inner", "commands": ["x"], "odd": 1}]}
    with pytest.raises(DroppedKeyError, match=r"a\.yml:5: step 'Inner': `odd` is dropped"):
        through_sdk({"steps": [group]}, ORIGINS)


def test_a_class_that_starts_to_drop_a_known_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(buildkite_sdk.CommandStep):
        def __init__(self, **fields: object) -> None:
            fields.pop("timeout_in_minutes", None)
            super().__init__(**fields)

    monkeypatch.setattr(buildkite_sdk, "CommandStep", Forgetful)
    with pytest.raises(DroppedKeyError, match=r"step 'x': `timeout_in_minutes` is dropped"):
        through_sdk({"steps": [{"label": "x", "commands": ["y"], "timeout_in_minutes": 5}]}, {})


def test_a_class_that_starts_to_change_a_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meddling(buildkite_sdk.CommandStep):
        def __init__(self, **fields: object) -> None:
            super().__init__(**{**fields, "timeout_in_minutes": 6})

    monkeypatch.setattr(buildkite_sdk, "CommandStep", Meddling)
    with pytest.raises(DroppedKeyError, match="`timeout_in_minutes` becomes 6"):
        through_sdk({"steps": [{"label": "x", "commands": ["y"], "timeout_in_minutes": 5}]}, {})


@pytest.mark.parametrize(("meant", "given"), [(1, True), (True, 1), (1, 1.0)])
def test_equal_values_of_another_type_are_a_difference(
    monkeypatch: pytest.MonkeyPatch, meant: object, given: object
) -> None:
    class Meddling(buildkite_sdk.CommandStep):
        def __init__(self, **fields: object) -> None:
            super().__init__(**{**fields, "plugins": [{"p#v1": {"on": given}}]})

    monkeypatch.setattr(buildkite_sdk, "CommandStep", Meddling)
    with pytest.raises(DroppedKeyError, match=r"`plugins\.0\.p#v1\.on` becomes"):
        through_sdk({"steps": [{"label": "x", "commands": ["y"], "plugins": [{"p#v1": {"on": meant}}]}]}, {})


@pytest.mark.parametrize("top", [{"agents": 5}, {"agents": [5]}, {"notify": 5}, {"secrets": 5}])
def test_a_value_refused_at_the_top_is_one_line_with_its_file(top: dict) -> None:
    with pytest.raises(InputError) as refused:
        through_sdk({**top, "steps": ["wait"]}, {(0,): "a.yml"})
    assert str(refused.value).startswith(f"a.yml: `{next(iter(top))}`: ")
    assert "\n" not in str(refused.value)


def test_a_key_lost_at_the_top_is_named() -> None:
    with pytest.raises(DroppedKeyError, match="pipeline: `agnets` is dropped"):
        through_sdk({"agnets": {}, "steps": ["wait"]}, {})


def test_a_value_the_classes_refuse_is_one_line_with_its_place() -> None:
    step = {"label": "x", "commands": ["y"], "retry": {"automatic": [{"signal_reason": "agent_stopped"}]}}
    with pytest.raises(InputError) as refused:
        through_sdk({"steps": [step]}, ORIGINS)
    assert str(refused.value).startswith("a.yml:3: step 'x': `retry`: ")
    assert "\n" not in str(refused.value)

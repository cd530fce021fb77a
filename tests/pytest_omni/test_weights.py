"""Run level to weights: a table of what each level does to what a test asks for."""

from __future__ import annotations

import builtins
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InputError
from pytest_omni import OmniServerParams
from pytest_omni.weights import Weights, deepest, patched

NEW = "stages:\n- {stage_id: 0, devices: '0'}\n- {stage_id: 1, load_format: safetensors}\n"
OLD = "stage_args:\n- {stage_id: 0, engine_args: {worker_type: ar}}\n- {stage_id: 1}\n"
SPARED = "stages:\n- {stage_id: 0, load_format: dummy}\n- {stage_id: 1, load_format: safetensors}\n"


def params(*args: str, model: str = "org/model") -> OmniServerParams:
    return OmniServerParams(model=model, server_args=args)


def decide(text: str, level: str, *marks: str, path: str = "deploy.yml", tiny=None):
    return patched(params("--deploy-config", path), level, marks, tiny, read=lambda _: text)


def formats(document):
    return [stage.get("load_format") for stage in document["stages"]]


@pytest.mark.parametrize("level", ["advanced_model", "full_model"])
@pytest.mark.parametrize("marks", [(), ("diffusion",)])
def test_deeper_levels_load_real_weights_untouched(level, marks):
    asked = params("--log-stats")
    answer = patched(asked, level, marks, lambda _: "/tiny")
    assert (answer.params, answer.weights, answer.config) == (asked, Weights.REAL, None)
    assert level in answer.because


def test_vllm_omni4842_a_deeper_level_never_keeps_dummy_weights():
    answer = decide(SPARED, "advanced_model")
    assert answer.weights is Weights.REAL
    assert "taken out of 1 stage of deploy.yml" in answer.because
    assert formats(yaml.safe_load(answer.config.text)) == [None, "safetensors"]


def test_the_shallowest_level_patches_every_stage_of_the_new_schema():
    answer = decide(NEW, "core_model")
    assert answer.weights is Weights.DUMMY
    assert answer.because == "core_model: load_format is dummy in 2 stages of deploy.yml"
    document = yaml.safe_load(answer.config.text)
    assert formats(document) == ["dummy", "dummy"]
    assert document["stages"][0] == {"stage_id": 0, "devices": "0", "load_format": "dummy"}


def test_the_shallowest_level_patches_every_stage_of_the_old_schema():
    document = yaml.safe_load(decide(OLD, "core_model").config.text)
    assert [stage["engine_args"]["load_format"] for stage in document["stage_args"]] == ["dummy"] * 2
    assert document["stage_args"][0]["engine_args"]["worker_type"] == "ar"


def test_a_platform_that_overrides_the_format_is_patched_too():
    text = json.dumps(
        {
            "stages": [{"stage_id": 0}],
            "platforms": {"rocm": {"stages": [{"stage_id": 0, "load_format": "auto"}, {"stage_id": 1}]}},
        }
    )
    document = json.loads(decide(text, "core_model", path="deploy.json").config.text)
    assert [row.get("load_format") for row in document["platforms"]["rocm"]["stages"]] == ["dummy", None]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pipeline: x\n", "deploy.yml has no stages to patch"),
        ("stages: []\n", "deploy.yml has no stages to patch"),
        ("base_config: common.yml\nstages: [{stage_id: 0}]\n", "inherits stages from common.yml"),
        ("stages: [{stage_id: 0}, other.yml]\n", "only 1 of the 2 stages"),
        ("stage_args: [{engine_args: other.yml}]\n", "no stages to patch"),
    ],
)
def test_dummy_is_never_claimed_where_nothing_was_patched(text, why):
    answer = decide(text, "core_model")
    assert (answer.weights, answer.config) == (Weights.REAL, None)
    assert why in answer.because
    assert answer.because.endswith("real weights")


def test_without_config_and_tiny_model_the_weights_are_real_and_said_so():
    answer = patched(params(), "core_model", {"diffusion", "cuda"}, lambda _: None)
    assert (answer.weights, answer.params) == (Weights.REAL, params())
    assert "no tiny model is known for org/model" in answer.because
    assert "tiny" not in patched(params(), "core_model", {"tts"}, lambda _: "/tiny").because


def test_a_diffusion_test_gets_a_tiny_model_under_the_original_name():
    answer = patched(params("--log-stats"), "core_model", {"diffusion"}, lambda model: f"/tiny/{model}")
    assert answer.weights is Weights.TINY
    assert answer.params.model == "/tiny/org/model"
    assert answer.params.server_args == ("--log-stats", "--served-model-name", "org/model")
    assert "org/model is replaced by /tiny/org/model" in answer.because


@pytest.mark.parametrize("name", [("--served-model-name", "mine"), ("--served-model-name=mine",)])
def test_a_name_of_the_tests_own_is_kept(name):
    assert patched(params(*name), "core_model", {"diffusion"}, lambda _: "/t").params.server_args == name


def test_a_diffusion_test_without_a_tiny_model_falls_back_to_its_deploy_config():
    assert decide(NEW, "core_model", "diffusion", tiny=lambda _: None).weights is Weights.DUMMY


@pytest.mark.parametrize("level", ["core_model", "full_model"])
def test_what_the_test_itself_asks_for_is_not_called_real(level):
    answer = patched(params("--load-format", "dummy"), level, ())
    assert answer.weights is Weights.DUMMY
    assert "the test itself" in answer.because


def test_levels_of_a_project_count():
    levels = ("smoke", "deep")
    assert patched(params(), "smoke", {"diffusion"}, lambda _: "/t", levels=levels).weights is Weights.TINY
    assert patched(params(), "deep", {"diffusion"}, lambda _: "/t", levels=levels).weights is Weights.REAL


@pytest.mark.parametrize("flag", ["--deploy-config", "--stage-configs-path"])
def test_the_patched_file_lies_in_the_given_folder_and_the_command_names_it(tmp_path, flag):
    source = tmp_path / "deploy.yaml"
    source.write_text(NEW)
    folder = tmp_path / "run"
    folder.mkdir()
    for args in ((flag, str(source), "--x"), (f"{flag}={source}", "--x")):
        started = patched(params(*args), "core_model", ()).written(folder)
        assert started.server_args[-1] == "--x"
        assert str(folder / "deploy.yaml") in started.server_args[0] + started.server_args[1]
        assert formats(yaml.safe_load((folder / "deploy.yaml").read_text())) == ["dummy", "dummy"]
    by_field = OmniServerParams(model="m", deploy_config=source)
    assert patched(by_field, "core_model", ()).written(folder).deploy_config == folder / "deploy.yaml"
    assert source.read_text() == NEW
    untouched = patched(params("--x"), "core_model", ())
    assert untouched.written(folder) is untouched.params


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("deploy.yml", None, "no such file (did you mean 'deploy.yaml'?)"),
        ("deploy.toml", "", "must end in one of .yml, .yaml, .json"),
        ("deploy.json", "{", "not JSON: Expecting"),
        ("deploy.yml", "a: [", "not YML: while parsing"),
        ("deploy.yml", "- 1\n", "must hold a mapping with `stages`, not list"),
    ],
)
def test_a_config_that_cannot_be_read_is_one_message(tmp_path, name, text, message):
    (tmp_path / "deploy.yaml").write_text(NEW)
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        patched(params("--deploy-config", str(tmp_path / name)), "core_model", ())
    assert message in str(error.value)
    assert str(tmp_path / name) in str(error.value)


def test_yaml_without_pyyaml_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "yaml":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match="pip install pyyaml"):
        decide(NEW, "core_model")
    assert decide('{"stages": [{}]}', "core_model", path="deploy.json").weights is Weights.DUMMY


FORMAT = st.sampled_from([None, "dummy", "safetensors"])


@given(
    st.lists(FORMAT, max_size=4), st.lists(FORMAT, max_size=4), st.sampled_from(["core_model", "full_model"])
)
def test_the_claim_is_what_the_file_says(new, old, level):
    def stage(value):
        return {} if value is None else {"load_format": value}

    document = {"stages": [stage(v) for v in new], "stage_args": [{"engine_args": stage(v)} for v in old]}
    text = json.dumps(document)
    answer = decide(text, level, path="deploy.json")
    after = json.loads(answer.config.text if answer.config else text)
    found = [s.get("load_format") for s in after["stages"]]
    found += [s["engine_args"].get("load_format") for s in after["stage_args"]]
    if answer.weights is Weights.DUMMY:
        assert found
        assert set(found) == {"dummy"}
    else:
        assert "dummy" not in found


def test_a_session_is_called_after_its_most_real_server():
    assert deepest(()) is None
    assert deepest(("dummy", "tiny")) == "tiny"
    assert deepest(("real", "dummy")) == "real"

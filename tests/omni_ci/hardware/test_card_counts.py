"""S14: the cards of a step are one number wherever it appears."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.card_counts import check_counts
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import load_presets
from omni_hardware.errors import InputError

RULES = PodRules(secrets={}, infra_retry=[])
# One line a template; each names the cards in every place that its shape has.
BLOCKS = {
    "k8s-spec": "platform: cuda, sku: L4, resource: nvidia.com/gpu, per_card: {cpu: 4, shm: 1Gi}",
    "k8s-patch": "platform: rocm, sku: MI300, resource: amd.com/gpu, runner: run.sh",
    "k8s-class": 'platform: npu, sku: A3, resource_class: "npu-{cards}", image: i',
    "docker": "platform: cuda, sku: L4, image: i",
}


def step_of(template: str, cards: int, queue: str = "pool_{cards}") -> dict[str, Any]:
    text = f'skus:\n  it: {{template: {template}, cards: [{cards}], queue: "{queue}", {BLOCKS[template]}}}\n'
    presets = load_presets(text, name="p.yml")
    return Pods(package_templates(), RULES).fragment(presets.find(f"it_{cards}", at="here"))


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything that a reader would take for a count of cards."""
    if isinstance(value, dict):
        found = [one for key, item in value.items() for one in numbers(item, (*path, key))]
        if value.get("name") == "VLLM_CI_EXPECTED_GPU_COUNT":
            found.append((*path, "value"))
        return found
    if isinstance(value, list):
        return [one for index, item in enumerate(value) for one in numbers(item, (*path, index))]
    names = {"nvidia.com/gpu", "amd.com/gpu", "gpus", "VLLM_CI_EXPECTED_GPU_COUNT", "queue", "resource_class"}
    is_one = path[-1] in names or str(value).startswith("VLLM_CI_EXPECTED_GPU_COUNT=")
    # S11 holds a request against its limit
    return [path] if is_one and "requests" not in path else []


@given(st.sampled_from(sorted(BLOCKS)), st.integers(1, 16))
@settings(max_examples=64)
def test_what_a_preset_renders_names_one_number_and_any_other_is_found(template: str, cards: int) -> None:
    step = step_of(template, cards)
    assert list(check_counts(step, preset=f"it_{cards}")) == []
    other = cards % 16 + 1
    places = numbers(step)
    assert len(places) >= 3, places
    for place in places:
        wrong = copy.deepcopy(step)
        holder = wrong
        for part in place[:-1]:
            holder = holder[part]
        # the digits at the end are the count: `npu-2`, `pool_2`, `X=2`, "2"
        holder[place[-1]] = str(holder[place[-1]]).removesuffix(str(cards)) + str(other)
        assert [code for code, _ in check_counts(wrong, preset=f"it_{cards}")] == ["S14"], place
    assert [code for code, _ in check_counts(step, preset=f"it_{other}")] == ["S14"]


@given(st.sampled_from(sorted(BLOCKS)), st.integers(1, 16), st.integers(1, 16))
@settings(max_examples=64)
def test_a_mismatch_cannot_be_rendered(template: str, cards: int, queue: int) -> None:
    if cards == queue:
        assert step_of(template, cards, f"amd_mi300_{queue}")
        return
    with pytest.raises(
        InputError, match=rf"p\.yml:2:3: preset 'it_{cards}': S14 card counts differ: .*_{queue} {queue}"
    ):
        step_of(template, cards, f"amd_mi300_{queue}")


def test_a_class_of_another_size_cannot_be_rendered() -> None:
    text = "skus:\n  a3: {platform: npu, sku: A3, template: k8s-class, cards: [2, 4], queue: q, resource_class: npu-4, image: i}\n"
    presets = load_presets(text, name="p.yml")
    pods = Pods(package_templates(), RULES)
    assert pods.fragment(presets.find("a3_4", at="here"))["agents"]["resource_class"] == "npu-4"
    with pytest.raises(InputError, match=r"'a3_2': S14 card counts differ: .*resource class npu-4 4"):
        pods.fragment(presets.find("a3_2", at="here"))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        # the literal presets of NPU machines: nothing but a class and a name
        (
            {"agents": {"queue": "ascend-a3", "resource_class": "npu-4"}},
            "resource class npu-4 4, preset it_2 2",
        ),
        ({"agents": ["queue=ascend-a3", "resource_class=npu-4"]}, "resource class npu-4 4, preset it_2 2"),
        (
            {"plugins": [{"docker#v5": {"gpus": "device=0,1,2"}}]},
            "gpus of the docker plugin 3, preset it_2 2",
        ),
        ({"plugins": [{"docker#v5": {"gpus": '"device=0"'}}]}, "gpus of the docker plugin 1"),
        ({"plugins": [{"docker#v5": {"gpus": 1}}]}, "gpus of the docker plugin 1"),
        (
            {"env": {"VLLM_CI_EXPECTED_GPU_COUNT": 1}},
            "VLLM_CI_EXPECTED_GPU_COUNT of the job 1, preset it_2 2",
        ),
        ({"env": {"VLLM_CI_EXPECTED_GPU_COUNT": "two"}}, "VLLM_CI_EXPECTED_GPU_COUNT of the job 'two'"),
    ],
)
def test_every_place_counts(step: dict[str, Any], message: str) -> None:
    ((code, said),) = check_counts(step, preset="it_2")
    assert code == "S14"
    assert message in said


@pytest.mark.parametrize(
    "step",
    [
        {"agents": {"queue": "amd_mi300_4"}},  # a name alone counts nothing
        {
            "agents": {"queue": "ascend_910"},
            "env": {"VLLM_CI_EXPECTED_GPU_COUNT": "2"},
        },  # a chip, not a count
        {"plugins": [{"docker#v5": {"gpus": "all"}}]},
        {"env": {"VLLM_CI_EXPECTED_GPU_COUNT": "02"}, "agents": {"queue": "q_2"}},
        {"plugins": 5, "agents": 5, "env": 5},
    ],
)
def test_what_is_no_count_is_left_alone(step: dict[str, Any]) -> None:
    assert list(check_counts(step, preset="it_2")) == []


def test_network_cards_are_not_counted_as_cards() -> None:
    container = {"name": "container-0", "resources": {"limits": {"nvidia.com/gpu": 2, "rdma/hca_shared": 1}}}
    step = {"plugins": [{"kubernetes": {"podSpec": {"containers": [container]}}}]}
    assert list(check_counts(step, preset="h100_2")) == []


def test_the_tail_of_mi300_16_is_sixteen() -> None:
    """The last character of a pool was once taken for its cards: 6."""
    assert step_of("k8s-patch", 16, "amd_mi300_{cards}")["agents"] == {"queue": "amd_mi300_16"}

"""Which chips a presets file has, and which of them is meant."""

from __future__ import annotations

import pytest

from omni_ci.hardware.chips import asked_chip, chip_for, chips_of
from omni_ci.hardware.presets import Presets, load_presets
from omni_hardware.errors import InputError
from omni_hardware.project import extend
from omni_hardware.vocabulary import DEFAULT

PRESETS = """\
skus:
  l4_docker: {platform: cuda, sku: L4, template: docker, cards: [1], queue: q, image: i}
  l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1, 4], queue: q, resource: nvidia.com/gpu}
  h100: {platform: cuda, sku: H100, template: k8s-spec, cards: [1, 2], queue: q, resource: nvidia.com/gpu}
  mi300: {platform: rocm, sku: MI300, template: k8s-patch, cards: [1], queue: q, resource: amd.com/gpu}
fragments:
  b200_2: {agents: {queue: b}}
  a3_npu_2: {agents: {queue: a}}
  builder: {agents: {queue: c}}
"""


def presets() -> Presets:
    return load_presets(PRESETS, name="presets.yml")


def test_a_chip_is_the_presets_that_differ_in_their_count() -> None:
    assert [(chip.name, chip.sku, chip.platform, dict(chip.by_cards)) for chip in chips_of(presets())] == [
        ("l4_docker", "L4", "cuda", {1: "l4_docker_1"}),
        ("l4", "L4", "cuda", {1: "l4_1", 4: "l4_4"}),
        ("h100", "H100", "cuda", {1: "h100_1", 2: "h100_2"}),
        ("mi300", "MI300", "rocm", {1: "mi300_1"}),
        ("b200", "B200", "cuda", {2: "b200_2"}),
        ("a3_npu", None, None, {2: "a3_npu_2"}),
    ]


@pytest.mark.parametrize(
    ("skus", "name"),
    [
        ({"L4"}, "l4"),
        ({"L4", "H100"}, "h100"),
        ({"A100", "L4"}, "l4"),
        ({"B200"}, None),
        ({"B200", "L4"}, "l4"),
        ({"MI300"}, "mi300"),
        ({"A100"}, None),
        (set(), None),
    ],
)
def test_the_first_sku_in_the_stated_order_that_has_presets(skus: set[str], name: str | None) -> None:
    chip = chip_for(skus, chips_of(presets()))
    assert (chip.name if chip else None) == name


def test_a_projects_own_sku_follows_in_the_vocabularys_order() -> None:
    vocabulary = extend({"skus": {"cuda": ["GB300", "Z9"]}}, source="pyproject.toml")
    text = PRESETS.replace("sku: MI300", "sku: GB300").replace("platform: rocm", "platform: cuda")
    chips = chips_of(load_presets(text, name="p.yml", vocabulary=vocabulary), vocabulary)
    chip = chip_for({"Z9", "GB300"}, chips, vocabulary)
    assert chip is not None
    assert (chip.name, chip.sku) == ("mi300", "GB300")


@pytest.mark.parametrize("name", ["b200", "B200"])
def test_the_asked_chip_is_named_like_its_presets_or_its_sku(name: str) -> None:
    chip, ignored = asked_chip(
        name, chips_of(presets()), platform="cuda", file="presets.yml", vocabulary=DEFAULT
    )
    assert chip is not None
    assert (chip.name, ignored) == ("b200", None)


def test_a_chip_of_another_platform_is_ignored_and_that_is_said() -> None:
    chips = chips_of(presets())
    assert asked_chip("b200", chips, platform="npu", file="presets.yml", vocabulary=DEFAULT) == (
        None,
        "MIRROR_HW=b200 is cuda hardware; npu pipelines ignore it",
    )
    # a presets file of an NPU folder may not know the chip at all
    assert asked_chip("b200", (), platform="npu", file="presets.yml", vocabulary=DEFAULT)[0] is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("b20", "MIRROR_HW=b20: presets.yml has no presets of such a chip (did you mean 'b200'?)"),
        (
            "tpu",
            "MIRROR_HW=tpu: presets.yml has no presets of such a chip (known: l4_docker, l4, h100, b200)",
        ),
        ("a100", "MIRROR_HW=a100: presets.yml has no presets of such a chip (did you mean 'h100'?)"),
        ("a3_npu", "no presets of such a chip"),
    ],
)
def test_a_chip_without_presets_is_refused_up_front(name: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        asked_chip(name, chips_of(presets()), platform="cuda", file="presets.yml", vocabulary=DEFAULT)
    assert said in str(caught.value)

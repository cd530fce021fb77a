from __future__ import annotations

import dataclasses

import pytest

from omni_hardware.vocabulary import CARDS, DEFAULT, PLATFORMS, Platform

SKUS = {
    "cuda": "L4 A100 H20 H100 H200 H800 B200",
    "rocm": "MI250 MI300 MI325 MI355",
    "xpu": "B60",
    "npu": "A2 A3 A5 310P",
    "musa": "S5000",
    "cpu": "any",
}


def test_every_platform_has_its_skus():
    assert {name: " ".join(row.skus) for name, row in PLATFORMS.items()} == SKUS


@pytest.mark.parametrize(
    ("platform", "variables"),
    [
        ("cuda", ("CUDA_VISIBLE_DEVICES",)),
        ("rocm", ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")),
        ("xpu", ("ZE_AFFINITY_MASK",)),
        ("npu", ("ASCEND_RT_VISIBLE_DEVICES",)),
        ("musa", ("MUSA_VISIBLE_DEVICES",)),
        ("cpu", ()),
    ],
)
def test_visibility_variables(platform, variables):
    assert PLATFORMS[platform].visibility == variables


def test_platform_of_a_sku():
    for row in DEFAULT.platforms:
        for sku in set(row.skus) - {"any"}:
            assert DEFAULT.platform_of(sku) is row
    assert DEFAULT.platform_of("any") is None
    assert DEFAULT.platform_of("H1000") is None
    assert DEFAULT.platform("npu").gpu is False
    assert DEFAULT.platform("tpu") is None


def test_markers_are_every_word_once():
    names = [line.partition(": ")[0] for line in DEFAULT.marker_lines()]
    assert len(names) == len(set(names)) == len(DEFAULT.words())
    assert {"cuda", "cpu", "gpu", "H100", "310P", "cards_1", "cards_16", "core_model", "slow", "tts"} <= set(
        names
    )
    assert "any" not in names
    assert "cards_17" not in names
    assert tuple(range(1, 17)) == CARDS


def test_a_new_row_is_all_that_a_platform_needs():
    row = Platform("tpu", False, ("TPU_VISIBLE_CHIPS",), ("v5e",))
    grown = dataclasses.replace(DEFAULT, platforms=(*DEFAULT.platforms, row))
    assert {"tpu", "v5e"} <= set(grown.words())
    assert grown.platform_of("v5e") is row


@pytest.mark.parametrize(
    ("platform", "product", "sku"),
    [
        ("cuda", "NVIDIA H100 80GB HBM3", "H100"),
        ("cuda", "NVIDIA H100 NVL", "H100"),
        ("cuda", "NVIDIA A100-SXM4-80GB", "A100"),
        ("cuda", "NVIDIA H20-3e", "H20"),
        ("cuda", "NVIDIA H200", "H200"),
        ("cuda", "NVIDIA L4", "L4"),
        ("cuda", "NVIDIA L40S", None),
        ("cuda", "NVIDIA GH200 480GB", None),
        ("cuda", "NVIDIA GB200", None),
        ("cuda", "NVIDIA GeForce RTX 4090", None),
        ("rocm", "AMD Instinct MI300X", "MI300"),
        ("rocm", "AMD Instinct MI300A", "MI300"),
        ("rocm", "AMD Instinct MI325X", "MI325"),
        ("rocm", "AMD INSTINCT MI250 (MCM) OAM AC MBA", "MI250"),
        ("rocm", "AMD Instinct MI308X", None),
        ("rocm", "AMD Instinct MI210", None),
        ("xpu", "Intel(R) Arc(TM) Pro B60 Graphics", "B60"),
        ("xpu", "Intel(R) Data Center GPU Max 1100", None),
        ("npu", "910B2C", "A2"),
        ("npu", "Ascend 910B4", "A2"),
        ("npu", "Ascend910", "A3"),
        ("npu", "Ascend910_9391", "A3"),
        ("npu", "910B", None),
        ("npu", "910ProB", None),
        ("npu", "Ascend950PR", "A5"),
        ("npu", "310P3", "310P"),
        ("npu", "310", None),
        ("musa", "MTT S5000", "S5000"),
        ("musa", "MTT S80", None),
        ("cpu", "any", None),
    ],
)
def test_a_product_is_called_by_its_sku(platform, product, sku):
    assert PLATFORMS[platform].sku_of(product) == sku


def test_every_pattern_names_a_sku_of_its_row():
    for row in DEFAULT.platforms:
        assert {sku for sku, _ in row.products} <= set(row.skus)

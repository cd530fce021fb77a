from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.quantities import docker_size, multiplied, value_of


@pytest.mark.parametrize(
    ("quantity", "factor", "product"),
    [
        ("40Gi", 2, "80Gi"),
        (10, 3, "30"),
        ("500m", 3, "1500m"),
        ("1.5Gi", 2, "3Gi"),
        ("1.5Gi", 3, "4.5Gi"),
        ("0.1", 10, "1"),
        ("100", 16, "1600"),
    ],
)
def test_products_are_exact(quantity: object, factor: int, product: str) -> None:
    assert multiplied(quantity, factor) == product


@pytest.mark.parametrize("quantity", ["one", "16GB", "", "4 Gi", "-1", True, None, "1e999999999", "Gi"])
def test_what_kubernetes_refuses_is_refused_with_an_example(quantity: object) -> None:
    with pytest.raises(ValueError, match=r"no Kubernetes quantity; write a number like"):
        value_of(quantity)


@given(
    st.integers(0, 10**6), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "Ti"]), st.integers(1, 16)
)
@settings(max_examples=50)
def test_a_product_stands_for_the_product_of_the_values(number: int, suffix: str, factor: int) -> None:
    quantity = f"{number}{suffix}"
    assert value_of(multiplied(quantity, factor)) == value_of(quantity) * factor


@pytest.mark.parametrize(
    ("quantity", "size"),
    [("8Gi", "8gb"), ("512Mi", "512mb"), ("1.5Gi", f"{3 * 2**29}b"), ("1G", "1000000000b")],
)
def test_docker_writes_sizes_its_own_way(quantity: str, size: str) -> None:
    assert docker_size(quantity) == size


def test_binary_and_decimal_units_differ() -> None:
    assert value_of("1Ki") == Decimal(1024)
    assert value_of("1k") == Decimal(1000)
    assert value_of("1m") == Decimal("0.001")

from __future__ import annotations

from omni.models.catalog import CATALOG
from omni.models.tiny import FAMILIES

Z_IMAGE = CATALOG["ZImagePipeline"]


def test_rows_are_found_by_pipeline_and_have_a_tiny_builder() -> None:
    assert all(name == row.pipeline for name, row in CATALOG.items())
    assert {row.family for row in CATALOG.values()} == set(FAMILIES)


def test_roles_by_path() -> None:
    def role(path: str) -> str | None:
        rule = Z_IMAGE.role_of(path)
        return rule and rule.role

    assert role("layers.17.attention") == "z_image.self"
    assert role("noise_refiner.0.attention") == "z_image.noise_refiner"
    assert role("layers.0.attention.to_q") is None
    assert role("xlayers.0.attention") is None


def test_role_names_hold_roles_and_categories_once() -> None:
    assert Z_IMAGE.role_names == (
        "z_image.self",
        "z_image.noise_refiner",
        "z_image.context_refiner",
        "z_image.siglip_refiner",
        "self",
    )

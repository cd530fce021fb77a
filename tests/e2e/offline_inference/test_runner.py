"""Z-Image through the plugin's fixtures: the engine comes from the hook in tests/conftest.py."""

from __future__ import annotations

import pytest

from pytest_omni import OmniServerParams

pytestmark = [pytest.mark.core_model, pytest.mark.diffusion, pytest.mark.cpu]


@pytest.mark.parametrize("omni_runner", [OmniServerParams("tiny/z_image")], indirect=True, ids=["z_image"])
def test_the_runner_generates(omni_runner, offline_client):
    assert offline_client.engine is omni_runner
    assert len(offline_client.generate("a red cube", num_inference_steps=1).images) == 1

"""Z-Image over HTTP: a server process, driven as a client would."""

from __future__ import annotations

import base64
import io
from typing import Any

import httpx
import pytest
from PIL import Image

from pytest_omni import OmniServer, OmniServerParams

MODEL = "tiny/z_image"


def on(platform: str, *marks: pytest.MarkDecorator) -> Any:
    # the device is named, so that a lane without it fails instead of measuring the CPU
    params = OmniServerParams(MODEL, server_args=("--device", platform))
    return pytest.param(params, id=platform, marks=[getattr(pytest.mark, platform), *marks])


pytestmark = [
    pytest.mark.core_model,
    pytest.mark.diffusion,
    pytest.mark.parametrize(
        "omni_server",
        [on("cpu"), on("cuda", pytest.mark.gpu), on("rocm", pytest.mark.gpu)],
        indirect=True,
    ),
]


def post(server: OmniServer, **body: Any) -> httpx.Response:
    url = f"{server.url}/v1/images/generations"
    return httpx.post(url, json={"prompt": "a red cube", "num_inference_steps": 2, **body}, timeout=300)


def images(server: OmniServer, **body: Any) -> list[bytes]:
    response = post(server, **body)
    assert response.status_code == 200, response.text
    return [base64.b64decode(image["b64_json"]) for image in response.json()["data"]]


def test_health_and_models(omni_server: OmniServer) -> None:
    assert httpx.get(f"{omni_server.url}/health").status_code == 200
    listed = httpx.get(f"{omni_server.url}/v1/models").json()["data"]
    assert [model["id"] for model in listed] == [MODEL]


def test_a_prompt_becomes_a_png_of_the_size_asked_for(omni_server: OmniServer) -> None:
    (data,) = images(omni_server, size="48x32", seed=1)
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.size) == ("PNG", (48, 32))


def test_the_same_seed_gives_the_same_image(omni_server: OmniServer) -> None:
    (first,) = images(omni_server, seed=7)
    assert images(omni_server, seed=7) == [first]
    assert images(omni_server, seed=8) != [first]


def test_image_i_is_the_image_of_seed_plus_i(omni_server: OmniServer) -> None:
    alone = [images(omni_server, seed=seed)[0] for seed in (40, 41)]
    assert images(omni_server, seed=40, n=2) == alone


@pytest.mark.parametrize("size", ["axb", "33x32", "100000x10000"])
def test_a_bad_size_is_a_400_with_an_openai_body(omni_server: OmniServer, size: str) -> None:
    response = post(omni_server, size=size)
    assert response.status_code == 400
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", "size")
    assert size in error["message"]


def test_the_log_names_the_device_and_no_prompt(omni_server: OmniServer) -> None:
    images(omni_server, prompt="a very private prompt")
    log = omni_server.log_path.read_text()
    assert f"device {omni_server.params.server_args[1]}" in log
    assert "private" not in log

from __future__ import annotations

import pytest

from omni.errors import DeviceError, InputError
from omni.platforms.devices import BACKENDS, Device, Present, choose_device, choose_dtype, detect
from omni_hardware.vocabulary import PLATFORMS

NONE = Present({}, "torch 2.13.0 (no CUDA or HIP)")
CUDA = Present({"cuda": 2}, "torch 2.13.0 (CUDA 13.0)")
ROCM = Present({"rocm": 8}, "torch 2.13.0 (HIP 7.0)")


@pytest.mark.parametrize(
    ("present", "platform", "torch_type"),
    [
        (NONE, "cpu", "cpu"),
        (CUDA, "cuda", "cuda"),
        (ROCM, "rocm", "cuda"),
        (Present({"xpu": 1}, ""), "xpu", "xpu"),
    ],
)
def test_auto_is_the_best_device_present(present: Present, platform: str, torch_type: str) -> None:
    device = choose_device("auto", present)

    assert (device.platform, device.torch_type) == (platform, torch_type)
    assert platform in device.because


def test_a_device_is_given_exactly_as_asked() -> None:
    assert choose_device("cpu", CUDA) == Device("cpu", "cpu", "asked for")
    assert choose_device("CUDA", CUDA).platform == "cuda"
    assert choose_device("rocm", ROCM) == Device("rocm", "cuda", "asked for")


@pytest.mark.parametrize(
    ("asked", "present"), [("cuda", NONE), ("cuda", ROCM), ("rocm", CUDA), ("npu", CUDA)]
)
def test_an_absent_device_is_an_error_and_never_another_one(asked: str, present: Present) -> None:
    with pytest.raises(DeviceError, match=f"{asked}.* is not present: torch 2.13.0 .* sees ") as caught:
        choose_device(asked, present)

    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("asked", "hint"), [("cuad", "did you mean 'cuda'"), ("gpu", "valid: auto, cuda"), ("", "valid")]
)
def test_a_name_that_is_no_device_is_bad_input(asked: str, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        choose_device(asked, CUDA)


def test_every_platform_of_the_vocabulary_is_reachable() -> None:
    assert set(BACKENDS) == set(PLATFORMS)


def test_dtype_follows_the_device_unless_asked() -> None:
    cpu, cuda = choose_device("cpu", NONE), choose_device("cuda", CUDA)

    assert (choose_dtype("auto", cpu), choose_dtype("auto", cuda)) == ("float32", "bfloat16")
    assert choose_dtype("float16", cuda) == "float16"
    with pytest.raises(InputError, match="did you mean 'bfloat16'"):
        choose_dtype("bfloat61", cpu)


def test_detection_agrees_with_torch() -> None:
    import torch

    present = detect()

    assert present.has("cpu")
    assert torch.__version__ in present.build
    seen = present.counts["cuda"] + present.counts["rocm"]
    assert seen == (torch.cuda.device_count() if torch.cuda.is_available() else 0)
    assert not (present.has("cuda") and present.has("rocm"))

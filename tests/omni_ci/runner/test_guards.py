from __future__ import annotations

from pathlib import Path

import pytest

from omni_ci.errors import GuardError
from omni_ci.runner.counting import Counted
from omni_ci.runner.guards import Situation, check
from omni_ci.runner.mounts import Mount
from omni_ci.runner.platforms import completed, platform_of
from omni_hardware.errors import InputError

NATIVE = {"VLLM_CI_DOCKER_DISABLED": "1", "VLLM_CI_EXPECTED_GPU_COUNT": "2"}
MOUNTS = [Mount("/", "overlay"), Mount("/mnt/hf", "nfs4"), Mount("/dev/shm", "tmpfs")]
TWO = [Counted("rocm-smi", 2, "MI300×2")]


def situation(environ, name=None, answers=TWO, mounts=MOUNTS) -> Situation:
    return Situation(
        environ=environ,
        name=name,
        platform=platform_of(name),
        mounts=lambda: mounts,
        count=lambda *_: answers,
    )


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, None),
        (NATIVE, None),
        (NATIVE, "rocm"),
        ({"VLLM_VERSION": "v0.31.0", "BUILDKITE_COMMIT": "0a"}, "xpu"),
        ({**NATIVE, "VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE": "1", "HF_HOME": "/mnt/hf/home"}, "rocm"),
        ({"VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE": "0"}, None),
    ],
)
def test_what_holds_passes(environ, name):
    check(situation(environ, name))


CACHE = {**NATIVE, "VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE": "1"}


@pytest.mark.parametrize(
    ("environ", "name", "said"),
    [
        ({"VLLM_CI_EXPECTED_GPU_COUNT": "2"}, "rocm", 'DOCKER_DISABLED is not set, and must be "1"'),
        ({**NATIVE, "VLLM_CI_DOCKER_DISABLED": "true"}, "rocm", "DOCKER_DISABLED is 'true'"),
        ({"VLLM_CI_DOCKER_DISABLED": "0"}, None, "DOCKER_DISABLED is '0'"),
        ({"AMD_CI_RUNTIME": "native"}, None, "DOCKER_DISABLED is not set"),
        ({"NATIVE_CI": "true"}, None, "DOCKER_DISABLED is not set"),
        ({"VLLM_CI_DOCKER_DISABLED": "1"}, "rocm", "EXPECTED_GPU_COUNT is not set, which jobs on rocm need"),
        ({"BUILDKITE_COMMIT": "0a"}, "xpu", "VLLM_VERSION is not set, which jobs on xpu need"),
        ({"VLLM_VERSION": "v1"}, "xpu", "BUILDKITE_COMMIT is not set"),
        (CACHE, "rocm", "HF_HOME is not set"),
        ({**CACHE, "HF_HOME": "/root/hf"}, "rocm", "HF_HOME=/root/hf is on no mount of its own"),
        ({**CACHE, "HF_HOME": "mnt/hf"}, "rocm", "is on no mount of its own"),
        ({**CACHE, "HF_HOME": "/dev/shm/hf"}, "rocm", "is on /dev/shm, which is memory (tmpfs)"),
        ({**NATIVE, "VLLM_CI_EXPECTED_GPU_COUNT": "two"}, "rocm", "'two' is no number of devices"),
        (
            {**NATIVE, "VLLM_CI_EXPECTED_GPU_COUNT": "4"},
            "rocm",
            "4 devices expected, rocm-smi sees 2 (MI300×2)",
        ),
        ({**NATIVE, "VLLM_CI_EXPECTED_GPU_COUNT": "0"}, "rocm", "0 devices expected, rocm-smi sees 2"),
    ],
)
def test_what_does_not_hold_is_a_guard(environ, name, said):
    with pytest.raises(GuardError) as caught:
        check(situation(environ, name))
    assert said in str(caught.value)
    assert str(caught.value).endswith("No test was run.")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([Counted("rocm-smi", problem="it hung")], "cannot count the devices: rocm-smi: it hung"),
        ([], "nothing here can count them"),
        (
            [*TWO, Counted("torch 2.13.0", 0, "this build of it is not for rocm")],
            "torch 2.13.0 sees 0 (this build",
        ),
    ],
)
def test_a_count_that_nobody_can_give_is_no_count(answers, said):
    with pytest.raises(GuardError) as caught:
        check(situation(NATIVE, "rocm", answers))
    assert said in str(caught.value)


def test_no_devices_expected_and_nothing_to_count_with_is_fine():
    check(situation({**NATIVE, "VLLM_CI_EXPECTED_GPU_COUNT": "0"}, "rocm", []))


def test_all_problems_are_said_at_once():
    with pytest.raises(GuardError) as caught:
        check(situation({"VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE": "1"}, "rocm"))
    assert len(str(caught.value).splitlines()) == 4


def test_mounts_that_cannot_be_read_are_no_persistent_cache():
    def fail():
        from omni_hardware.errors import InfrastructureError

        raise InfrastructureError("mountinfo cannot be read")

    at = Situation(environ={**CACHE, "HF_HOME": "/mnt/hf"}, mounts=fail, count=lambda *_: TWO)
    with pytest.raises(GuardError, match="the mounts cannot be told: mountinfo"):
        check(at)


def test_a_relative_cache_is_on_no_mount_of_its_own():
    mounts = [Mount("/", "overlay"), Mount("hf", "nfs4"), Mount("/hf", "nfs4")]
    for home in ("hf/home", "hf"):
        with pytest.raises(GuardError, match=f"HF_HOME={home} is on no mount of its own"):
            check(situation({**CACHE, "HF_HOME": home}, mounts=mounts))


def test_a_relative_cache_is_none_either_where_the_checkout_has_a_mount_of_its_own():
    mounts = [Mount("/", "overlay"), Mount(str(Path.cwd()), "nfs4")]
    with pytest.raises(GuardError, match="HF_HOME=hf is on no mount of its own"):
        check(situation({**CACHE, "HF_HOME": "hf"}, mounts=mounts))
    check(situation({**CACHE, "HF_HOME": str(Path.cwd() / "hf")}, mounts=mounts))


def test_defaults_are_set_where_the_job_says_nothing():
    found = completed(platform_of("rocm"), {"VLLM_ROCM_USE_AITER": "1"})
    assert found == {
        "PYTHONFAULTHANDLER": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "300",
        "HF_HUB_ETAG_TIMEOUT": "60",
        "MIOPEN_DEBUG_CONV_DIRECT": "0",
        "MIOPEN_DEBUG_CONV_GEMM": "0",
        "VLLM_ROCM_USE_AITER": "1",
        "PYTORCH_ROCM_ARCH": "",
        "PYTHONPATH": "..",
    }
    assert "MIOPEN_DEBUG_CONV_GEMM" not in completed(platform_of("cuda"), {})


def test_vllm_omni7118_the_pods_token_beats_one_of_the_build():
    """A build's HF_TOKEN overrode the pod's secret: the pod's has a name of its own, and wins."""
    environ = {"HF_TOKEN": "of the build", "VLLM_CI_HF_TOKEN": "of the pod"}
    assert completed(platform_of(None), environ)["HF_TOKEN"] == "of the pod"
    assert completed(platform_of(None), {"HF_TOKEN": "mine"})["HF_TOKEN"] == "mine"


def test_an_unknown_platform_is_a_mistake_of_the_command_line():
    with pytest.raises(InputError, match=r"unknown platform 'rocmm'.*did you mean 'rocm'"):
        platform_of("rocmm")

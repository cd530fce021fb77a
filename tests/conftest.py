"""What every test here may use: tiny checkpoints, and the command that serves one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_omni import OmniServerParams

pytest_plugins = ["pytester"]

# The e2e pair also runs where only the runtime and coverage are installed.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    # No deadline: how fast an example is says something about the machine only.
    settings.register_profile(
        "explore", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    # What a merge needs gives one commit one verdict; looking for new examples is for everybody else.
    settings.register_profile("gate", parent=settings.get_profile("explore"), derandomize=True)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "explore"))

_TINY = "tiny/"
# Models that tests name, and the family whose tiny checkpoint stands for each at the shallowest run level.
_FAMILIES = {"Tongyi-MAI/Z-Image": "z_image", "Tongyi-MAI/Z-Image-Turbo": "z_image"}
# A folder with checkpoints that are there already, one a family: who made one lends it to these tests.
_LENT = "OMNI_TINY_MODELS"


class TinyModels:
    """Random checkpoints of a few MB, each built once a session by a process, so that nothing heavy is imported here."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="omni-tiny-")
        self._built: dict[str, Path] = {}

    def path(self, family: str) -> Path:
        if family not in self._built:
            if lent := os.environ.get(_LENT):
                self._built[family] = Path(lent, family).absolute()
                return self._built[family]
            target = Path(self._folder.name) / family
            command = [sys.executable, "-m", "omni.cli", "tiny", family, str(target)]
            # Not measured: the checkpoint is no part of what a mode of the model covers.
            environ = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=300, env=environ
            )
            if done.returncode != 0:
                pytest.fail(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}", pytrace=False)
            self._built[family] = target
        return self._built[family]

    def remove(self) -> None:
        self._folder.cleanup()


_MODELS = pytest.StashKey[TinyModels]()


def _models(config: pytest.Config) -> TinyModels:
    if _MODELS not in config.stash:
        config.stash[_MODELS] = TinyModels()
        config.add_cleanup(config.stash[_MODELS].remove)
    return config.stash[_MODELS]


def _checkpoint(config: pytest.Config, model: str) -> str:
    return str(_models(config).path(model.removeprefix(_TINY))) if model.startswith(_TINY) else model


def pytest_omni_server_command(config: pytest.Config, params: OmniServerParams, port: int) -> list[str]:
    """Serve params.model with omni; "tiny/<family>" is a checkpoint built for this session."""
    model = _checkpoint(config, params.model)
    names = [] if "--served-model-name" in params.server_args else ["--served-model-name", params.model]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "omni.cli", "serve", model, *where, *names, *params.server_args]


def pytest_omni_engine(config: pytest.Config, params: OmniServerParams) -> Any:
    """omni's engine in this process, imported by the first test that wants one."""
    from omni import Omni

    return Omni(_checkpoint(config, params.model))


def pytest_omni_tiny_model(config: pytest.Config, model: str) -> str | None:
    """A random checkpoint of the model's family, built for this session by `omni tiny`."""
    family = _FAMILIES.get(model, model.removeprefix(_TINY) if model.startswith(_TINY) else None)
    return None if family is None else str(_models(config).path(family))


@pytest.fixture(scope="session")
def tiny_z_image(pytestconfig: pytest.Config) -> Path:
    """The folder of a tiny Z-Image checkpoint."""
    return _models(pytestconfig).path("z_image")

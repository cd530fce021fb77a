"""The built wheel in an environment of its own, used by a repository that is not this one."""

from __future__ import annotations

import re

import pytest


def stable(output: str) -> str:
    # pytest itself names every installed plugin in one line of its header
    return re.sub(r"\d+\.\d+s", "TIME", re.sub(r"^plugins: .*$", "", output, flags=re.MULTILINE))


@pytest.mark.parametrize(
    "arguments", [("-v",), ("--collect-only", "-q"), ("--markers",), ("--fixtures",), ("-n0",)]
)
def test_the_unarmed_plugin_changes_nothing(environment_with, repository, arguments):
    environment = environment_with()
    with_us = environment.run("python", "-m", "pytest", "-p", "no:cacheprovider", *arguments, cwd=repository)
    without_us = environment.run(
        "python", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:omni", *arguments, cwd=repository
    )
    assert stable(with_us.stdout) == stable(without_us.stdout)
    assert (with_us.stderr, with_us.returncode) == (without_us.stderr, without_us.returncode)


def test_the_armed_plugin_knows_the_vocabulary(environment_with, repository):
    environment = environment_with()
    with (repository / "pyproject.toml").open("a") as file:
        file.write("[tool.omni]\n")
    done = environment.run("python", "-m", "pytest", "--markers", cwd=repository)
    assert done.returncode == 0, done.stderr
    assert "@pytest.mark.H100" in done.stdout


@pytest.mark.parametrize("tokens", [("--help",), ("plan",), ("cov", "split", "--model-id", "x")])
def test_without_the_ci_extra_omni_ci_prints_the_install_line(environment_with, repository, tokens):
    environment = environment_with()
    assert environment.run("python", "-c", "import cyclopts", cwd=repository).returncode == 1
    assert environment.run("python", "-c", "import pydantic", cwd=repository).returncode == 1
    done = environment.run("omni-ci", *tokens, cwd=repository)
    assert done.returncode == 4
    assert "pip install 'pytest-omni[ci]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_with_the_ci_extra_a_new_repository_gets_a_plan(environment_with, repository):
    environment = environment_with("ci")
    begun = environment.run("omni-ci", "init", cwd=repository)
    assert begun.returncode == 0, begun.stderr
    planned = environment.run("omni-ci", "plan", cwd=repository)
    assert planned.returncode == 0, planned.stderr
    assert " run " in f" {planned.stdout} ", planned.stdout
    assert environment.run("python", "-c", "import torch", cwd=repository).returncode == 1


def test_the_wheel_holds_the_four_packages_and_their_data(wheel):
    from zipfile import ZipFile

    names = ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "omni", "omni_ci", "omni_hardware", "pytest_omni",
    }  # fmt: skip
    assert "omni_ci/data/policy.yml" in names
    assert [name for name in names if name.startswith("omni_ci/data/templates/") and name.endswith(".j2")]
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]

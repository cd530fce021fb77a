from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from omni_ci import cli
from omni_hardware.errors import CheckError, InfrastructureError, InputError

HEAVY = ("torch", "diffusers", "transformers", "omni", "fastapi")


def omni_ci(*tokens: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-m", "omni_ci", *tokens]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_row_of_the_table_names_a_function_and_says_what_it_does(name):
    row = cli.COMMANDS[name]
    module, _, attribute = row.target.partition(":")
    function = getattr(importlib.import_module(module), attribute)
    assert callable(function)
    assert function.__doc__
    assert row.about.endswith(".")


def test_help_lists_every_command_and_imports_none():
    done = omni_ci("--help", options=("-X", "importtime"))
    assert done.returncode == 0
    for name in cli.COMMANDS:
        assert name.split()[0] in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "omni_ci.cli" in imported
    assert not [name for name in imported if name.startswith("omni_ci.commands.")]
    assert not imported & {*HEAVY, "buildkite_sdk", "yaml", "pydantic"}


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["plam"], "no command 'plam' (did you mean 'plan'?)"),
        (["cov", "splt"], "no command 'splt' (did you mean 'split'?)"),
        (["xyzzy"], "no command 'xyzzy' (known: bootstrap, cov, "),
        (["cov", "split", "--model-id"], "--model-id requires an argument"),
        (
            ["cov", "split", "--model-id", "z", "extra"],
            "unexpected argument 'extra'\nArguments for the child",
        ),
        (["generate"], "`omni-ci generate` needs FILE\nSee `omni-ci --help`"),
        (["gate", "cuda"], "`omni-ci gate` needs LEVEL"),
        (["run", "--jobs", "two"], "--jobs 'two' is no whole number"),
        (["run", "--jobs", "1.5"], "--jobs '1.5' is no whole number"),
        (["generate", "a.yml", "--part", "1.0"], "--part '1.0' is no whole number"),
        (["plan", "--base", ""], "--base names nothing; give it a commit, or leave it out"),
        (["gate", "cuda", "l2", "--head", ""], "--head names nothing; give it a commit, or leave it out"),
        (["plan", "--presets", ""], "--presets names nothing; give it a file or folder, or leave it out"),
        (["plan", "--from", ""], "--from names nothing"),
        (["plan", "--durations", ""], "--durations names nothing"),
        (["bootstrap", "a.yml", "--policy", ""], "--policy names nothing"),
        (["presets", "--presets", ""], "--presets names nothing"),
        (["lint", "--baseline", ""], "--baseline names nothing"),
        (["lint", "--write-baseline", ""], "--write-baseline names nothing"),
        (["run", "--inventory", ""], "--inventory names nothing"),
        (["presets", "b.yml"], "unexpected argument 'b.yml'\nSee `omni-ci --help`"),
    ],
)
def test_a_mistake_is_one_message_with_exit_code_two(tokens, text, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(tokens)
    assert caught.value.code == 2
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_commands_help_names_only_flags_of_ours_and_loses_no_character(name, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([*name.split(), "--help"])
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--empty-" not in shown
    assert "--no-" not in shown
    assert name != "plan" or ".buildkite/*/test-*.yml" in shown
    assert name != "cov split" or "coverage-<model id>-<mode>-<step>.xml.gz" in shown


@pytest.mark.parametrize("error", [InputError, CheckError, InfrastructureError])
def test_an_error_is_its_message_and_its_exit_code(error, monkeypatch, capsys):
    def fail(_tokens):
        raise error("presets.yml:14: no\x1b[31m such SKU")

    monkeypatch.setattr(cli, "run", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == error.exit_code
    assert capsys.readouterr().err == "omni-ci: presets.yml:14: no[31m such SKU\n"


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt, 130)])
def test_an_interrupt_is_no_traceback(raised, code, monkeypatch, capsys):
    def fail(_tokens):
        raise raised

    monkeypatch.setattr(cli, "run", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_traceback():
    script = "import sys, omni_ci.cli as cli\ncli.run = lambda tokens: print('x' * 1_000_000)\ncli.main([])\n"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=30) == 141
    assert errors == b""


def test_a_missing_extra_is_the_install_line():
    with pytest.raises(InfrastructureError) as caught:
        cli.require_extra(["yaml", "nowhere"], find=lambda name: None if name == "nowhere" else object())
    assert "nowhere not installed" in str(caught.value)
    assert "pip install 'pytest-omni[ci]'" in str(caught.value)


@pytest.mark.parametrize(
    ("tokens", "own", "forwarded"),
    [
        (["cov", "split", "--model-id", "z", "--", "-m", "a and b", "--"], 4, ("-m", "a and b", "--")),
        (["cov", "split", "--model-id", "z"], 4, ()),
        # elsewhere `--` keeps its usual meaning: what follows is no option
        (["plan", "--", "-odd-name.yml"], 3, ()),
    ],
)
def test_what_follows_the_dashes_is_forwarded_by_transparent_commands_only(tokens, own, forwarded):
    assert cli.split_forwarded(tokens) == (tokens[:own], forwarded)


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert omni_ci("--version").stdout.strip() == version("pytest-omni")


@pytest.mark.parametrize(
    ("tokens", "code"),
    [(["plan"], 4), (["gate", "cuda", "l2"], 4), (["run"], 125), (["cov", "split", "--model-id", "z"], 125)],
)
def test_a_folder_that_is_gone_is_told_as_that(tokens, code, tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SystemExit) as ended:
        cli.main(tokens)
    assert ended.value.code == code
    assert capsys.readouterr().err == (
        "omni-ci: the folder that this was started in is gone: No such file or directory; go to one that is there\n"
    )


@pytest.mark.parametrize(("tokens", "code"), [(["plam"], 2), (["presets", "a", "b"], 2)])
def test_a_message_that_cannot_be_written_leaves_the_exit_code(tokens, code):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "omni_ci", *tokens], stderr=full, timeout=60, check=False
        )
    assert done.returncode == code

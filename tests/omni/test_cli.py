"""The command line as a user runs it: processes, one table of mistakes, and the real tiny model."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from PIL import Image

from omni import cli
from omni.engine.request import ImageRequest

HEAVY = ("torch", "diffusers", "transformers")
HANG_S = 120


def omni(*argv, **how):
    command = [sys.executable, "-m", "omni", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S, **how)


def in_process(capfd, *argv):
    code = cli.run([str(word) for word in argv])
    return code, *capfd.readouterr()


MISTAKES = [
    (["srve"], 'did you mean "serve"'),
    (["--bogus"], "--bogus"),
    (["serve"], "MODEL"),
    (["serve", "M", "--prot", "1"], "did you mean --port"),
    (["serve", "M", "--port", "99999"], "<= 65535"),
    (["serve", "M", "--port", "http"], "--port"),
    (["serve", "M", "--port", "1", "--port", "2"], "multiple times"),
    (["serve", "M", "--device", "cdua"], "did you mean 'cuda'"),
    (["serve", "M", "--dtype", "float23"], "did you mean 'float32'"),
    (["serve", "M", "--max-generated-image-size", "big"], "WIDTH*HEIGHT"),
    (["serve", "M", "--diffusion-attention-backend", "TORCH_SPDA"], "did you mean 'TORCH_SDPA'"),
    (["serve", "M", "--diffusion-attention-config", "{"], "not JSON"),
    (["serve", "M", "--diffusion-attention-config.per_rol.self", "TORCH_SDPA"], "did you mean 'per_role'"),
    (
        ["serve", "M", "--diffusion-attention-config.default", "X", "--diffusion-attention-backend", "X"],
        "both set",
    ),
    (["serve", "BROKEN"], "no model_index.json"),
    (["serve", "M", "--host", "no.such.host.invalid"], "not an address"),
    (["serve", "M", "--served-model-name", ""], "--served-model-name"),
    (["serve", "M", "--served-model-name", "\x1b[31mred"], "cannot be printed"),
    (["serve", "~nosuchuser/m"], "no such folder"),
    (["serve", "m" * 300], "no such folder"),
    (["generate", "M"], "--prompt"),
    (["generate", "M", "extra", "--prompt", "a"], "unexpected argument 'extra'"),
    (["generate", "M", "--prompt", "a", "--n", "0"], "n must be"),
    (["generate", "M", "--prompt", "a", "--size", "axb"], "axb"),
    (["generate", "M", "--prompt", "a", "--size", "33x32"], "32x32"),
    (["generate", "M", "--prompt", "a", "--size", "100000x10000"], "limit"),
    (["generate", "M", "--prompt", "a", "--output", "/nope/a.png"], "no folder /nope"),
    (["generate", "M", "--prompt", "a", "--output", "a.pgn"], "did you mean '.png'"),
    (["generate", "M", "--prompt", "a", "--num-inference-steps", "0"], "num_inference_steps"),
    (["generate", "M", "--prompt", "a", "--guidance-scale", "nan"], "guidance_scale"),
    (["generate", "M", "--prompt", "a", "--output", "picture"], "needs an extension"),
    (["generate", "nowhere", "--prompt", "a"], "no such folder"),
    (["generate", "BROKEN", "--prompt", "a"], "no model_index.json"),
    (["tiny", "z_imag", "DIR"], "did you mean 'z_image'"),
    (["tiny", "z_image", "BROKEN"], "not empty"),
]

RUN_ALL = """
    import contextlib, io, json, sys
    from omni.cli import run

    answers = []
    for argv in json.load(sys.stdin):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(argv)
        answers.append([code, out.getvalue(), err.getvalue()])
    print(json.dumps({"answers": answers, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def mistakes(tiny_z_image, tmp_path_factory):
    """What each line of MISTAKES answers, all in one process, and what that process had to import for it."""
    folder = tmp_path_factory.mktemp("mistakes")
    broken = folder / "broken"
    broken.mkdir()
    (broken / "weights.bin").touch()
    places = {"M": tiny_z_image, "BROKEN": broken, "DIR": folder / "new"}
    lines = [[str(places.get(word, word)) for word in argv] for argv, _ in MISTAKES]
    command = [sys.executable, "-c", textwrap.dedent(RUN_ALL)]
    done = subprocess.run(
        command,
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
        cwd=folder,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("index", range(len(MISTAKES)), ids=[" ".join(argv) for argv, _ in MISTAKES])
def test_a_mistake_is_one_message_and_exit_2(mistakes, index):
    code, out, err = mistakes["answers"][index]
    assert (code, out) == (2, "")
    assert err.startswith("omni: ")
    assert err.count("\n") == 1
    assert MISTAKES[index][1].lower() in err.lower()


def test_no_mistake_costs_an_import_of_torch(mistakes):
    assert not [name for name in mistakes["modules"] if name.partition(".")[0] in HEAVY]


@pytest.mark.parametrize("argv", [[], ["--help"], ["serve", "--help"], ["generate", "--help"], ["--version"]])
def test_help_imports_no_torch(argv):
    command = [sys.executable, "-X", "importtime", "-m", "omni.cli", *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.strip()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "cyclopts" in imported
    assert not imported & set(HEAVY)


def test_without_the_runtime_extra_the_install_line_is_printed(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    code, out, err = in_process(capfd, "--help")
    assert (code, out) == (4, "")
    assert "pip install 'pytest-omni[runtime]'" in err


def test_control_characters_of_an_argument_do_not_reach_the_terminal(capfd):
    code, _, err = in_process(capfd, "tiny", "\x1b[31mred", "somewhere")
    assert code == 2
    assert "\x1b" not in err


FULL = Path("/dev/full")
needs_a_full_device = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


@needs_a_full_device
@pytest.mark.parametrize("command", ["--help", "serve"])
def test_output_that_cannot_be_written_is_one_message_and_exit_4(tiny_z_image, command):
    argv = [sys.executable, "-m", "omni", command]
    argv += [str(tiny_z_image), "--port", "0"] if command == "serve" else []
    with FULL.open("w") as full:
        done = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=HANG_S
        )
    assert done.returncode == 4
    assert done.stderr == "omni: standard output cannot be written: No space left on device\n"


@needs_a_full_device
def test_a_path_that_cannot_be_printed_is_exit_4(tiny_z_image, tmp_path, monkeypatch, capfd):
    with FULL.open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        argv = ["generate", tiny_z_image, "--prompt", "a", "--num-inference-steps", 1, "--device", "cpu"]
        code, _, err = in_process(capfd, *argv, "-o", tmp_path / "a.png")
    assert (code, err) == (4, "omni: standard output cannot be written: No space left on device\n")


def test_a_reader_that_left_is_exit_141_without_a_word():
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "omni", "--help"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
        timeout=HANG_S,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")


def test_every_flag_reaches_the_engine(tiny_z_image, tmp_path, monkeypatch, capfd):
    from omni.engine import engine

    seen = []

    class Seen(engine.Omni):
        def generate(self, prompt, **how):
            seen.append((self, prompt))
            return super().generate(prompt, **how)

    monkeypatch.setattr(engine, "Omni", Seen)
    words = "--dtype bfloat16 --max-generated-image-size 64*48 --n 2 --seed 7 --size 32x48 --num-inference-steps 3"
    argv = ["generate", tiny_z_image, "--prompt", "a", "--device", "cpu", "-o", tmp_path, *words.split()]
    code, _, err = in_process(capfd, *argv, "--negative-prompt", "fog", "--guidance-scale", "4")
    assert (code, err) == (0, "")
    [(used, request)] = seen
    assert (used.dtype, used.device, used.sizes.max_pixels) == ("bfloat16", "cpu", 64 * 48)
    assert request == ImageRequest(
        prompt="a",
        negative_prompt="fog",
        n=2,
        width=32,
        height=48,
        num_inference_steps=3,
        guidance_scale=4,
        seed=7,
    )


def test_generate_in_a_pipe_prints_paths_and_nothing_else(tiny_z_image, tmp_path):
    argv = ["generate", tiny_z_image, "--prompt", "a", "--n", 2, "--seed", 5, "--num-inference-steps", 2]
    done = omni(*argv, "--size", "32x48", "--device", "cpu", "--output", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    paths = done.stdout.splitlines()
    assert paths == [str(tmp_path / "omni-5.png"), str(tmp_path / "omni-6.png")]
    for path in paths:
        with Image.open(path) as image:
            assert image.size == (32, 48)


def test_generate_on_a_terminal_shows_progress_and_the_seed(tiny_z_image, tmp_path):
    ours, theirs = pty.openpty()
    target = tmp_path / "a.webp"
    argv = ["generate", str(tiny_z_image), "--prompt", "a", "--num-inference-steps", "2", "-o", str(target)]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "omni", *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=env) as process:
        os.close(theirs)
        screen = _all_of(ours)
        assert process.stdout.read() == f"{target}\n"
    assert process.returncode == 0
    assert "generating" in screen
    assert re.search(rf"{re.escape(str(target))}: seed \d+", screen.replace("\r\n", ""))


def _all_of(terminal):
    # A pseudo-terminal answers EIO, not an empty read, once its other side is closed.
    pieces = []
    try:
        while piece := os.read(terminal, 4096):
            pieces.append(piece)
    except OSError:
        pass
    finally:
        os.close(terminal)
    return b"".join(pieces).decode(errors="replace")


@pytest.mark.parametrize(
    "flags",
    [
        ["--diffusion-attention-backend", "REFERENCE"],
        ["--diffusion-attention-config.default.backend", "REFERENCE"],
        ["--diffusion-attention-config", '{"per_role": {"self": "REFERENCE"}}'],
    ],
)
def test_attention_flags_reach_the_engine_in_every_form(tiny_z_image, tmp_path, capfd, monkeypatch, flags):
    from omni.engine import engine

    reports = []
    real = engine.bind
    monkeypatch.setattr(engine, "bind", lambda *given: reports.append(str(given[-1])) or real(*given))
    target = tmp_path / "a.png"
    argv = [
        "generate",
        tiny_z_image,
        "--prompt",
        "a",
        "--num-inference-steps",
        1,
        "--device",
        "cpu",
        "-o",
        target,
    ]
    assert in_process(capfd, *argv, *flags) == (0, f"{target}\n", "")
    assert "REFERENCE" in reports[0]


def test_a_role_of_another_model_is_refused_with_the_roles_there_are(tiny_z_image, tmp_path, capfd):
    role = "--diffusion-attention-config.per_role.ltx2.audio_to_video.backend"
    argv = ["generate", tiny_z_image, "--prompt", "a", "-o", tmp_path, role, "TORCH_SDPA"]
    code, out, err = in_process(capfd, *argv)
    assert (code, out) == (2, "")
    assert "per_role.ltx2.audio_to_video: this pipeline has no attention role" in err

"""The main job, end to end, on this machine: a picture, a plan, a pipeline and a coverage report.

Everything it makes lies in .quickstart/, which git ignores.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from installation import PYTHON, ROOT, SetupError, install

OUT = Path(".quickstart")
MODEL = OUT / "z_image"
PROMPT = "a lighthouse at dusk"
READY_WITHIN_S = 120
TESTS = "tests/e2e/{}/test_z_image.py"


def main() -> int:
    """Install, then do and show the five points; 0 when all of them worked."""
    os.chdir(ROOT)
    started = time.monotonic()
    try:
        install()
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        title("1", "a tiny random Z-Image checkpoint: the real pipeline, a few MB, no network")
        omni("tiny", "z_image", MODEL)
        title("2", "an image, by the command line and over HTTP")
        images = generate_images()
        title("3", "the plan for the last commit: every step of our pipelines, run or skip, and why")
        plan()
        title("4", "the same as Buildkite pipelines, validated")
        pipelines = generate_pipelines()
        title("5", "the coverage pilot: lines covered by the offline and by the online tests")
        reports = coverage()
    except SetupError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        print("quickstart: interrupted", file=sys.stderr)
        return 130
    title("", f"done in {time.monotonic() - started:.0f} s")
    print(f"images     {'  '.join(map(str, images))}")
    print(f"plan       {OUT / 'selection.json'}")
    print(f"pipelines  {'  '.join(map(str, pipelines))}")
    print(f"coverage   {'  '.join(map(str, reports))}")
    return 0


def generate_images() -> list[Path]:
    """Return the image that `omni generate` made and the one that a server answered with."""
    # The server loads while the command line works: each of them imports torch for seconds.
    with server() as ready:
        offline = OUT / "offline.png"
        omni("generate", MODEL, "--prompt", PROMPT, "--seed", "1", "--output", offline)
        return [offline, generate_over_http(ready())]


def generate_over_http(url: str) -> Path:
    """Return the image that the server at *url* answered with."""
    path = OUT / "over-http.png"
    body = {"prompt": PROMPT, "seed": 1}
    print(f"POST {url}/v1/images/generations {json.dumps(body)}")
    answer = request(f"{url}/v1/images/generations", body)
    path.write_bytes(base64.b64decode(json.loads(answer)["data"][0]["b64_json"]))
    print(path)
    return path


def plan() -> None:
    """Show the plan and keep it as selection.json."""
    omni_ci("plan", *last_commit())
    kept = omni_ci("plan", "--format", "json", *last_commit(), capture=True)
    (OUT / "selection.json").write_text(kept, encoding="utf-8")


def generate_pipelines() -> list[Path]:
    """Return the generated pipelines, each judged a second time by check-jsonschema."""
    made = list(generate_each(last_commit()))
    if not made:
        print(
            "the last commit selects no step, so there is nothing to upload; these are the pipelines of --all"
        )
        made = list(generate_each(["--all"]))
    call([str(PYTHON.with_name("check-jsonschema")), "--builtin-schema", "vendor.buildkite", *map(str, made)])
    return made


def generate_each(selecting: Sequence[str]) -> Iterator[Path]:
    """Yield a file for each of our pipelines in which *selecting* selects a step."""
    for source in sorted(Path(".buildkite").glob("*/test-*.yml")):
        if text := omni_ci("generate", *selecting, str(source), capture=True):
            path = OUT / f"{source.parent.name}-{source.name}"
            path.write_text(text, encoding="utf-8")
            yield path


def coverage() -> list[Path]:
    """Return the reports of the coverage pilot on the CPU."""
    # The checkpoint of point 1 serves here too: building one takes a process that imports torch, once a half.
    os.environ["OMNI_TINY_MODELS"] = str(OUT.absolute())
    call(
        [
            *("scripts/run_cov_split.sh", "--model-id", "z_image", "--reports", str(OUT)),
            *("--offline", TESTS.format("offline_inference"), "--online", TESTS.format("online_serving")),
            *("--", "-q", "-m", "core_model and cpu"),
        ]
    )
    return sorted(OUT.glob("coverage-*.xml.gz"))


def last_commit() -> list[str]:
    """Return the flags that name the last commit; a clone of depth 1 does not know its parent."""
    done = subprocess.run(["git", "rev-parse", "--verify", "-q", "HEAD~1"], capture_output=True, check=False)
    return ["--base", "HEAD~1", "--head", "HEAD"] if done.returncode == 0 else []


@contextmanager
def server() -> Iterator[Callable[[], str]]:
    """Yield a function that waits until `omni serve` is ready and returns its address; stop it at the end."""
    command = [str(PYTHON.with_name("omni")), "serve", str(MODEL), "--port", "0"]
    print("$", shlex.join(["omni", *command[1:]]), flush=True)
    log = OUT / "serve.log"
    with log.open("wb") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert child.stdout is not None
    try:
        line = child.stdout.readline()
        address = re.search(r"http://\S+", line)
        if address is None:
            raise SetupError(f"omni serve ended before it listened:\n{log.read_text(encoding='utf-8')}")
        print(line.rstrip())
        yield partial(wait_until_ready, address[0], child, log)
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
        child.stdout.close()


def wait_until_ready(url: str, child: subprocess.Popen[str], log: Path) -> str:
    """Return *url* when the server's health is 200; raises SetupError when it dies or takes too long."""
    deadline = time.monotonic() + READY_WITHIN_S
    while child.poll() is None and time.monotonic() < deadline:
        try:
            request(f"{url}/health")
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return url
    raise SetupError(f"omni serve did not become ready:\n{log.read_text(encoding='utf-8')}")


def request(url: str, body: dict[str, object] | None = None) -> bytes:
    """Return the answer's body; raises urllib's errors."""
    asked = urllib.request.Request(url, headers={"Content-Type": "application/json"})  # noqa: S310 - our own server
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(asked, data, timeout=READY_WITHIN_S) as answer:  # noqa: S310
        content: bytes = answer.read()
    return content


def omni(*arguments: str | Path) -> None:
    """Run the runtime's command line."""
    call([str(PYTHON.with_name("omni")), *map(str, arguments)])


def omni_ci(*arguments: str, capture: bool = False) -> str:
    """Run the orchestrator's command line; return what it printed if *capture*."""
    return call([str(PYTHON.with_name("omni-ci")), *arguments], capture=capture)


def call(command: Sequence[str], *, capture: bool = False) -> str:
    """Show and run *command*; raises SetupError when it fails."""
    shown = shlex.join(
        [Path(command[0]).name if Path(command[0]).is_absolute() else command[0], *command[1:]]
    )
    print(f"$ {shown}", flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE if capture else None, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`{shown}` failed with exit code {done.returncode}; its message stands above")
    return done.stdout or ""


def title(number: str, text: str) -> None:
    """Print a heading."""
    print(f"\n({number}) {text}" if number else f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

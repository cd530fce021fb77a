"""How many devices the commands of a job will see: asked of the vendor's tool, and of the torch that they will use."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from omni_ci.runner.platforms import Platform
from omni_hardware.inventory import describe
from omni_hardware.probes import AUTO, VENDORS, probe
from omni_hardware.probes.tools import run

TORCH_LIMIT_S = 180.0  # a first import from a cold network disk takes minutes

# No torch is no answer; a torch that does not import is one.
_ASK = """
import importlib.util, json, sys
module, build, count = sys.argv[1:]
if importlib.util.find_spec("torch") is None:
    print(json.dumps({"torch": None}))
    sys.exit()
import torch
if module != "torch":
    __import__(module)
print(json.dumps({"torch": torch.__version__, "built": bool(eval(build)), "count": eval(count)}))
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """What one of them answered: a number, or a problem."""

    who: str
    count: int | None = None
    sight: str = ""
    problem: str = ""


def counted(
    name: str | None, platform: Platform, environ: Mapping[str, str], *, root: Path = Path("/")
) -> list[Counted]:
    """Return every answer; none where neither a vendor's tool nor torch is there."""
    return [*_by_tool(name, environ, root), *_by_torch(name, platform, environ)]


def problems(expected: int, answers: list[Counted]) -> Iterator[str]:
    """Yield why *answers* do not say that there are *expected* devices."""
    for answer in answers:
        if answer.problem:
            yield f"cannot count the devices: {answer.who}: {answer.problem}"
        elif answer.count != expected:
            sight = f" ({answer.sight})" if answer.sight else ""
            yield f"{expected} device{'' if expected == 1 else 's'} expected, {answer.who} sees {answer.count}{sight}"
    if not answers and expected:
        yield (
            f"{expected} device{'' if expected == 1 else 's'} expected, and nothing here can count them: neither a "
            "vendor's tool nor torch is installed in this image"
        )


def _by_tool(name: str | None, environ: Mapping[str, str], root: Path) -> Iterator[Counted]:
    asked = [
        vendor for vendor in VENDORS if name in {None, vendor.platform} and vendor.worth_asking(environ, root)
    ]
    if not asked:
        return
    found = probe(environ, platform=name or AUTO, root=root)
    tools = " or ".join(dict.fromkeys(tool for vendor in asked for tool in vendor.tools))
    if found.error is not None:
        yield Counted(tools, problem=found.error)
    else:
        sight = f"{describe(found.seen)}; {found.limit}" if found.limit else describe(found.seen)
        yield Counted(tools, len(found.seen), sight)


def _by_torch(name: str | None, platform: Platform, environ: Mapping[str, str]) -> Iterator[Counted]:
    python = next(
        (path for one in ("python3", "python") if (path := shutil.which(one, path=environ.get("PATH")))),
        sys.executable,
    )
    command = [python, "-P", "-c", _ASK, platform.module, platform.build, platform.count]
    output = run(command, environ, limit_s=TORCH_LIMIT_S, leads_group=True)
    said = output.out.strip().splitlines()[-1:] or [""]
    try:
        answer = json.loads(said[0])
    except ValueError:
        last = (output.err.strip().splitlines() or ["it printed nothing"])[-1]
        yield Counted("torch", problem=f"{python} ended with {output.code}: {last[:300]}")
        return
    if answer["torch"] is None:
        return
    sight = "" if answer["built"] else f"this build of it is not for {name}"
    yield Counted(f"torch {answer['torch']}", answer["count"] if answer["built"] else 0, sight)

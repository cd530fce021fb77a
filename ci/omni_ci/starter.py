"""The commented `.buildkite` folder that `omni-ci init` writes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from omni_ci.policy import default_text
from omni_hardware.errors import InfrastructureError, InputError

FOLDER = ".buildkite"
_POLICY_HEAD = """\
# What your repository decides about its CI. Everything below is what omni-ci assumes anyway; take a `#` off to
# change it: mappings merge key by key, lists and values replace, `null` removes.
schema: 1
"""


def starter_files() -> dict[str, str]:
    """Return the starter's files: path from the repository's root to text."""
    data = files("omni_ci").joinpath("data/starter")
    names = ("cuda/test-ready.yml", "presets.yml", "dependencies.yml")
    texts = {name: data.joinpath(name).read_text(encoding="utf-8") for name in names}
    return {f"{FOLDER}/{name}": text for name, text in {**texts, "policy.yml": starter_policy()}.items()}


def starter_policy() -> str:
    """Return the package's policy with every line commented out, so that it cannot fall behind."""
    body = default_text().split("schema: 1\n", maxsplit=1)[1]
    lines = [line if not line or line.startswith("#") else f"# {line}" for line in body.splitlines()]
    return _POLICY_HEAD + "\n".join(lines) + "\n"


def write_starter(root: Path) -> tuple[Path, ...]:
    """Write the starter under *root* and return its files; nothing is overwritten.

    Raises InputError naming the files that are there already, InfrastructureError where writing fails.
    """
    texts = {root / path: text for path, text in starter_files().items()}
    if taken := [path for path in texts if path.exists() or path.is_symlink()]:
        listed = ", ".join(str(path.relative_to(root)) for path in taken)
        raise InputError(
            f"{root}: {listed} exist{'s' if len(taken) == 1 else ''} already; nothing was written"
        )
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return tuple(texts)

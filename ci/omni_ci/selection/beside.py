"""The pipelines of a repository that were not asked about."""

from __future__ import annotations

from collections.abc import Container, Iterator

from omni_ci.repository.places import FOLDER, Tree
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.reading import read
from omni_hardware.errors import OmniError


def other_pipelines(tree: Tree, *, without: Container[str]) -> Iterator[PipelineFile]:
    """Yield every file under .buildkite/ that holds steps and can be loaded, but those in *without*.

    A file that cannot be loaded has no steps that could be asked for: it fails where it is planned itself.
    """
    for name in yaml_files(tree):
        text = tree.read(name) if name not in without else None
        document = read(text, name)[0] if text and "steps" in text else None
        if isinstance(document, dict) and document.get("steps"):
            try:
                yield load_pipeline(text or "", name=name)
            except OmniError:
                continue


def yaml_files(tree: Tree) -> list[str]:
    """Return the paths of all YAML files under .buildkite/, sorted; folders and links that lead nowhere are none."""
    paths = (path for ending in ("yml", "yaml") for path in (tree.root / FOLDER).rglob(f"*.{ending}"))
    return sorted(path.relative_to(tree.root).as_posix() for path in paths if path.is_file())

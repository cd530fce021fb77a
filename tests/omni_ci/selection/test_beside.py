"""The pipelines nobody asked about."""

from __future__ import annotations

from typing import Any

from omni_ci.repository.places import Tree
from omni_ci.selection.beside import other_pipelines, yaml_files

OTHER = "steps:\n  - {label: Other, key: other, commands: [make]}\n"


def test_what_is_no_file_holds_no_steps(scratch: Any) -> None:
    """One link that led nowhere ended every `--only` that named a step of another file."""
    scratch.write(
        {".buildkite/a.yaml": OTHER, ".buildkite/broken.yml": "steps: [", ".buildkite/no.txt": OTHER}
    )
    (scratch.root / ".buildkite/folder.yml").mkdir()
    (scratch.root / ".buildkite/gone.yml").symlink_to("nowhere.yml")
    tree = Tree(scratch.root)
    asked = ".buildkite/cuda/test-ready.yml"
    assert yaml_files(tree) == [".buildkite/a.yaml", ".buildkite/broken.yml", asked, ".buildkite/presets.yml"]
    found = other_pipelines(tree, without={asked})
    assert [one.name for one in found] == [".buildkite/a.yaml"]
    ran = scratch.run("plan", asked, "--only", "other,no")
    assert ran.code == 2
    assert "'other,no': no step has this key" in ran.err

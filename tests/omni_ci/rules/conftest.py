"""One rule asked about files written down in a test."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pytest

from omni_ci.rules.lint_findings import LintFinding
from omni_ci.rules.linting import chosen, findings, load_repository

PRESETS = """\
schema: 1
skus:
  l4:
    platform: cuda
    sku: L4
    template: k8s-spec
    cards: [1, 2, 4]
    queue: l4-k8s
    resource: nvidia.com/gpu
  mi300:
    platform: rocm
    sku: MI300
    template: k8s-patch
    cards: [1, 2]
    queue: amd_mi300_{cards}
    resource: amd.com/gpu
    runner: scripts/run-amd-test.sh
  plain:
    platform: cuda
    sku: L4
    template: docker
    cards: [1]
    queue: gpu_{cards}_queue
    image: registry.example/ci:$BUILDKITE_COMMIT
"""
PIPELINE = ".buildkite/cuda/test-ready.yml"
Asked = Callable[..., list[LintFinding]]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """Return what rule *code* finds: *steps* is the list of steps of one CUDA pipeline, *files* all else there is."""

    def ask(
        code: str,
        steps: str = "",
        files: Mapping[str, str] | None = None,
        *,
        top: str = "",
        today: date | None = None,
    ) -> list[LintFinding]:
        written = {".buildkite/presets.yml": PRESETS, **(files or {})}
        if steps:
            written[PIPELINE] = (
                f"{top}steps:\n" + textwrap.indent(textwrap.dedent(steps).strip("\n"), "  ") + "\n"
            )
        for name, text in written.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        context = load_repository(tmp_path).context
        if today is not None:
            context.today = today
        return list(findings(context, chosen([code], ())))

    return ask


@pytest.fixture
def found(asked: Asked) -> Callable[..., list[str]]:
    """Return the messages of what rule *code* finds."""

    def ask(*arguments: object, **options: object) -> list[str]:
        return [one.message for one in asked(*arguments, **options)]

    return ask

from __future__ import annotations

import pytest

from omni_ci.rules import placements as module
from omni_ci.rules.linting import load_repository
from omni_ci.rules.placements import placements
from omni_hardware import expression

MIXED = """
import pytest
from pytest_omni import hardware_test

@hardware_test(res={"cuda": "L4"}, num_cards=1)
def test_one(): pass

@hardware_test(res={"cuda": "L4"}, num_cards=2)
def test_two(): pass

@hardware_test(res={"cuda": "L4"}, num_cards=1)
def test_three(): pass
"""
PRESETS = """\
schema: 1
skus:
  l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1, 2], queue: l4, resource: nvidia.com/gpu}
"""


@pytest.fixture
def context(tmp_path):
    """Forty steps with one card, whose runs differ in nothing that matters, over thirty files."""
    steps = [
        f"- {{label: S{number}, mirror_hardwares: l4_1, commands: [\"pytest -v tests -m 'cuda and L4'\"]}}\n"
        for number in range(40)
    ]
    files = {".buildkite/presets.yml": PRESETS, ".buildkite/cuda/test-ready.yml": "steps:\n" + "".join(steps)}
    files |= {f"tests/test_{number}.py": MIXED for number in range(30)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return load_repository(tmp_path).context


def test_tests_of_a_file_that_are_alike_are_placed_together(context):
    placed = [one for one in placements(context.jobs[0], context) if one.file == "tests/test_0.py"]
    assert [
        ([test.name for test in one.tests], one.skipped and one.skipped.because, one.id) for one in placed
    ] == [
        (["test_one", "test_three"], None, ("tests/test_0.py", 6)),
        (["test_two"], "needs cuda L4×2", ("tests/test_0.py", 9)),
    ]


def test_the_work_does_not_grow_with_the_steps_and_files_that_are_alike(context, monkeypatch):
    asked = {"skipped": 0, "matches": 0}
    skipped, matches = module.skipped, expression.Expression.matches

    def counting_skipped(*arguments, **options):
        asked["skipped"] += 1
        return skipped(*arguments, **options)

    def counting_matches(*arguments):
        asked["matches"] += 1
        return matches(*arguments)

    monkeypatch.setattr(module, "skipped", counting_skipped)
    monkeypatch.setattr(expression.Expression, "matches", counting_matches)
    assert sum(len(placements(job, context)) for job in context.jobs) == 40 * 30 * 2
    assert asked == {"skipped": 2, "matches": 2}

"""What the change of a real repository leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omni_ci.policy import default_policy
from omni_ci.selection.asking import Asked
from omni_ci.starting.gating import gate_decision, platform_of
from omni_ci.starting.skipping import Decision, Kind
from omni_hardware.errors import InfrastructureError, InputError

TEST = '''\
"""Tests."""

import pytest


@pytest.mark.parametrize("size", [1, 2])
def test_one(size):
    assert size
'''
SKIPPED = TEST.replace("@pytest", '@pytest.mark.skip(\n    reason="flaky",\n)\n@pytest')


def decided(scratch: Any, environ: dict[str, str] | None = None, **asked: Any) -> Decision:
    decision, _ = gate_decision(Asked(**asked), "cuda", "l2", here=scratch.root, environ=environ or {})
    return decision


@pytest.fixture
def tested(scratch: Any) -> Any:
    scratch.commit({"tests/test_engine.py": TEST, "tests/conftest.py": "import pytest\n"})
    return scratch


def test_a_skip_mark_in_a_real_diff_runs_nothing(tested: Any) -> None:
    tested.commit({"tests/test_engine.py": SKIPPED, "docs/index.md": "# Later\n"})
    assert decided(tested).kind is Kind.SKIP_ALL


def test_a_document_that_the_package_links_to_is_no_documentation_only(tested: Any) -> None:
    (tested.root / "src/engine/help.txt").symlink_to("../../docs/help.txt")
    tested.commit({"docs/help.txt": "one\n"})
    tested.commit({"docs/help.txt": "two\n"})
    decision = decided(tested)
    assert (decision.kind, decision.because) == (
        Kind.NORMAL,
        "product or non-whitelisted changes present: src/engine/help.txt",
    )


def test_taking_the_skip_away_runs_the_test(tested: Any) -> None:
    tested.commit({"tests/test_engine.py": SKIPPED})
    tested.commit({"tests/test_engine.py": TEST})
    decision = decided(tested)
    assert decision.kind is Kind.NORMAL
    assert "tests/test_engine.py" in decision.because


def test_a_skip_does_not_hide_another_change(tested: Any) -> None:
    tested.commit({"tests/test_engine.py": SKIPPED.replace("[1, 2]", "[1, 3]")})
    assert decided(tested).kind is Kind.NORMAL


def test_a_branch_is_judged_from_its_merge_base(tested: Any) -> None:
    tested.git("checkout", "--quiet", "-b", "work")
    tested.commit({"tests/test_engine.py": SKIPPED})
    tested.git("checkout", "--quiet", "main")
    tested.commit(
        {"tests/test_engine.py": TEST.replace("size\n", "size > 0\n"), "src/engine/core.py": "x = 2\n"}
    )
    tested.git("checkout", "--quiet", "work")
    assert decided(tested).kind is Kind.SKIP_ALL
    assert decided(tested, base="main", head="work").kind is Kind.SKIP_ALL


def test_a_moved_test_runs_even_where_it_is_skipped_at_its_new_place(tested: Any) -> None:
    tested.git("mv", "tests/test_engine.py", "tests/test_moved.py")
    tested.commit({"tests/test_moved.py": SKIPPED})
    assert decided(tested).kind is Kind.NORMAL


def test_a_new_test_file_that_skips_all_of_itself_runs_nothing(tested: Any) -> None:
    text = "import pytest\n\npytestmark = pytest.mark.skip(reason='next week')\n\n\ndef test_a():\n    assert 0\n"
    tested.commit({"tests/e2e/test_new.py": text})
    assert decided(tested).kind is Kind.SKIP_ALL
    tested.commit({"tests/e2e/test_newer.py": text.replace("pytestmark", "marks")})
    assert decided(tested).kind is Kind.NORMAL
    tested.commit({"tests/e2e/conftest.py": text})
    assert decided(tested).kind is Kind.NORMAL


def test_a_deleted_test_and_one_that_cannot_be_parsed_are_changes(tested: Any) -> None:
    tested.commit({"tests/test_engine.py": SKIPPED.replace("def ", "def def ")})
    assert decided(tested).kind is Kind.NORMAL
    tested.commit({"tests/test_engine.py": TEST})
    (tested.root / "tests/test_engine.py").unlink()
    tested.commit()
    assert decided(tested).kind is Kind.NORMAL


def test_a_file_that_is_no_text_is_a_change(tested: Any) -> None:
    (tested.root / "tests/test_engine.py").write_bytes(TEST.encode() + b"# \xff\n")
    tested.commit()
    assert decided(tested).kind is Kind.NORMAL


def test_without_a_diff_range_a_skip_mark_cannot_be_seen(tested: Any) -> None:
    tested.commit({"tests/test_engine.py": SKIPPED})
    assert decided(tested, changed=["tests/test_engine.py"]).kind is Kind.NORMAL
    assert decided(tested, changed=["docs/index.md"]).kind is Kind.SKIP_ALL


def test_steps_asked_for_by_name_are_never_left_out(tested: Any) -> None:
    environ = {"VLLM_CI_ONLY_STEP_KEYS": '["engine"]'}
    decision = decided(tested, environ, changed=["README.md"])
    assert (decision.kind, decision.because) == (Kind.NORMAL, "VLLM_CI_ONLY_STEP_KEYS asks for steps by name")


def test_a_forks_policy_does_not_decide_what_its_change_leaves_out(tested: Any) -> None:
    """A fork whose own policy calls everything documentation would skip every test."""
    policy = {
        ".buildkite/policy.yml": 'schema: 1\ndocs: ["**"]\npipelines: {".buildkite/policy.yml": {platform: cuda, tier: weekly}}\n'
    }
    tested.git("checkout", "--quiet", "-b", "work")
    tested.commit({**policy, "src/engine/core.py": "x = 3\n"})
    tested.git("update-ref", "refs/remotes/origin/main", "main")
    environ = {
        "BUILDKITE_PULL_REQUEST": "7",
        "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
        "BUILDKITE_REPO": "https://example.org/ours.git",
        "BUILDKITE_PULL_REQUEST_REPO": "https://example.org/theirs.git",
    }
    decision, said = gate_decision(Asked(), "cuda", "l2", here=tested.root, environ=environ)
    assert decision.kind is Kind.NORMAL
    assert any("merge base" in line and "theirs" in line for line in said)
    assert decided(tested, environ, config_from="head").kind is not Kind.NORMAL


def test_a_fork_without_a_merge_base_is_no_decision(scratch: Any) -> None:
    environ = {
        "BUILDKITE_PULL_REQUEST": "7",
        "BUILDKITE_REPO": "https://example.org/ours.git",
        "BUILDKITE_PULL_REQUEST_REPO": "https://example.org/theirs.git",
    }
    with pytest.raises(InfrastructureError, match="merge base"):
        decided(scratch, environ)


@pytest.mark.parametrize(
    ("platform", "level", "said"),
    [
        ("cuda", "l9", "there is no level 'l9' in omni_ci/data/policy.yml"),
        ("cuda", "ready", "(known: l2, l3, l4, l5)"),
        ("cudda", "l2", "there is no platform 'cudda' in omni_ci/data/policy.yml (did you mean 'cuda'?)"),
        ("rocm", "l2", "(known: amd, cuda, npu, intel, cpu)"),
        ("", "l2", "there is no platform ''"),
    ],
)
def test_an_unknown_name_has_its_neighbours(scratch: Any, platform: str, level: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        gate_decision(Asked(), platform, level, here=scratch.root, environ={})
    assert said in str(refused.value)


def test_outside_of_a_repository_the_changes_are_unknown(tmp_path: Path) -> None:
    decision, _ = gate_decision(Asked(), "cuda", "l2", here=tmp_path, environ={})
    assert decision.kind is Kind.NORMAL
    assert "could not resolve changed files" in decision.because


def test_the_platform_of_a_bootstrap_file() -> None:
    policy = default_policy()
    assert platform_of(".buildkite/npu/bootstrap-upload-steps.yml", policy) == "npu"
    assert platform_of("cuda/npu/more/bootstrap.yml", policy) == "npu"
    with pytest.raises(InputError, match=r"name the platform with --platform"):
        platform_of(".buildkite/cuda.yml", policy)

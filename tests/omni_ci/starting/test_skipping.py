"""What a change may leave out, against the public decision table, whose rows stand here as literals."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

import pytest

from omni_ci.policy import default_policy, load_policy
from omni_ci.repository.watching import Links
from omni_ci.starting.skipping import Decision, Kind, decide

POLICY = default_policy()
# The nine files of the table: what each is of. L4 and L5 are no level that a diff leaves out.
L2 = {
    ".buildkite/cuda/test-ready.yml": "cuda",
    ".buildkite/npu/test-npu-ready.yml": "npu",
    ".buildkite/amd/test-amd-ready.yml": "amd",
    ".buildkite/intel/pipeline-intel.yml": "intel",
}
L3 = {".buildkite/cuda/test-merge.yml": "cuda", ".buildkite/amd/test-amd-merge.yml": "amd"}
L45 = (
    ".buildkite/cuda/test-nightly.yml",
    ".buildkite/cuda/test-weekly.yml",
    ".buildkite/npu/test-npu-nightly.yml",
)
WHITELIST = (*L2, *L3, *L45)
# (any L2 file, any L3 file, any L4/5 file) → the row, and whether touched L2 and touched L3 platforms run
ROWS = {
    (False, False, True): ("G1", False, False),
    (True, False, False): ("G2", True, False),
    (False, True, False): ("G3", False, True),
    (True, True, False): ("G4", True, True),
    (True, False, True): ("G5", True, False),
    (False, True, True): ("G6", False, True),
    (True, True, True): ("G7", True, True),
}
PLATFORMS = ("amd", "cuda", "npu", "intel")


def decided(*files: str, skip_only: Collection[str] = ()) -> Decision:
    return decide(files, skip_only=lambda path: path in skip_only, policy=POLICY)


def subsets() -> Iterator[tuple[str, ...]]:
    for size in range(1, len(WHITELIST) + 1):
        yield from combinations(WHITELIST, size)


def touched(files: Collection[str]) -> set[tuple[str, str]]:
    """Return the pairs that run by the table's row for *files*."""
    of_l2, of_l3 = [L2[file] for file in files if file in L2], [L3[file] for file in files if file in L3]
    _, runs_l2, runs_l3 = ROWS[bool(of_l2), bool(of_l3), any(file in L45 for file in files)]
    return {*((one, "l2") for one in of_l2 if runs_l2), *((one, "l3") for one in of_l3 if runs_l3)}


def test_every_subset_of_the_nine_files_runs_the_pairs_it_touches() -> None:
    seen = 0
    rows: set[str] = set()
    for files in subsets():
        decision = decided(*files)
        pairs = touched(files)
        assert decision.kind is Kind.GATED, files
        assert decision.run == pairs, files
        for platform in PLATFORMS:
            for level in ("l2", "l3"):
                assert decision.is_run(platform, level) is ((platform, level) in pairs), (
                    files,
                    platform,
                    level,
                )
            assert decision.is_run(platform, "l4"), files
            assert decision.is_run(platform, "l5"), files
        flags = tuple(any(file in names for file in files) for names in (L2, L3, L45))
        rows.add(ROWS[flags][0])  # type: ignore[index]
        seen += 1
    assert seen == 2**9 - 1
    assert rows == {"G1", "G2", "G3", "G4", "G5", "G6", "G7"}


def test_every_subset_decides_the_same_beside_documentation_and_skip_marks() -> None:
    """Row 4: upstream's code and its documents disagree, ours is what the pipeline files say."""
    for files in subsets():
        decision = decided("README.md", *files, "tests/test_a.py", skip_only={"tests/test_a.py"})
        assert (decision.kind, decision.run) == (Kind.GATED, touched(files)), files
        assert "mixed doc/skip-mark and CI config YAML" in decision.because


def test_every_subset_is_normal_beside_product_code() -> None:
    for files in ((), *subsets()):
        decision = decided(*files, "omni/engine.py")
        assert decision.kind is Kind.NORMAL
        assert all(decision.is_run(platform, level) for platform in PLATFORMS for level in ("l2", "l3", "l4"))


def test_vllm_omni_skip_ci_g4_cuda_ready_and_amd_merge_run_both() -> None:
    """Upstream's code loses cuda/l2 where its documents promise both: its result cannot hold pairs."""
    decision = decided(".buildkite/cuda/test-ready.yml", ".buildkite/amd/test-amd-merge.yml")
    assert decision.run == {("cuda", "l2"), ("amd", "l3")}
    assert not decision.is_run("cuda", "l3")
    assert not decision.is_run("amd", "l2")


def test_vllm_omni_skip_ci_g4_npu_ready_and_cuda_merge_run_both() -> None:
    """Upstream's code gives cuda/l3 alone."""
    decision = decided(".buildkite/npu/test-npu-ready.yml", ".buildkite/cuda/test-merge.yml")
    assert decision.run == {("npu", "l2"), ("cuda", "l3")}


def test_vllm_omni_skip_ci_g4_two_amd_files_do_not_switch_cuda_off() -> None:
    """Upstream's code loses cuda/l2 here too."""
    decision = decided(
        ".buildkite/cuda/test-ready.yml",
        ".buildkite/amd/test-amd-ready.yml",
        ".buildkite/amd/test-amd-merge.yml",
    )
    assert decision.run == {("cuda", "l2"), ("amd", "l2"), ("amd", "l3")}


def test_camunda6631_an_unknown_diff_runs_everything() -> None:
    """A failed diff that reads as an empty one would be green without a test."""
    decision = decide(None, skip_only=lambda _: True, policy=POLICY, unknown="no merge base")
    assert decision.kind is Kind.NORMAL
    assert decision.because == "could not resolve changed files (no merge base); run normal CI"
    assert decision.is_run("cuda", "l2")


@pytest.mark.parametrize(
    ("files", "kind", "said"),
    [
        ((), Kind.NORMAL, "no file changed"),
        (("docs/a.py",), Kind.SKIP_ALL, "CI skipped — docs or pytest skip-mark changes only"),
        (("a/b/NOTES.md", "README.md", "mkdocs.yml"), Kind.SKIP_ALL, "CI skipped"),
        (("sub/mkdocs.yml",), Kind.NORMAL, "sub/mkdocs.yml"),
        (("documents/a.py",), Kind.NORMAL, "product or non-whitelisted changes present: documents/a.py"),
        (("README.MD",), Kind.NORMAL, "README.MD"),
        (("tests/test_skipped.py",), Kind.SKIP_ALL, "CI skipped"),
        (("tests/a/test_skipped.py", "docs/x.md"), Kind.SKIP_ALL, "CI skipped"),
        (("tests/test_changed.py",), Kind.NORMAL, "tests/test_changed.py"),
        (("tests/test_skipped.py", "tests/test_changed.py"), Kind.NORMAL, ": tests/test_changed.py"),
        (("omni/test_skipped.py",), Kind.NORMAL, "omni/test_skipped.py"),
        (("tests/data/x.json",), Kind.NORMAL, "tests/data/x.json"),
        (("a.py", "b.py", "c.py"), Kind.NORMAL, ": a.py and 2 more"),
        ((".buildkite/cuda/test-ready.yml", "a.py"), Kind.NORMAL, ": a.py"),
        ((".buildkite/cuda/bootstrap-upload-steps.yml",), Kind.NORMAL, "bootstrap-upload-steps.yml"),
        ((".buildkite/amd/test-amd-nightly.yml",), Kind.NORMAL, "test-amd-nightly.yml"),
        ((".buildkite/cuda/test-ready.yaml",), Kind.NORMAL, "test-ready.yaml"),
        ((".buildkite/policy.yml",), Kind.NORMAL, ".buildkite/policy.yml"),
    ],
)
def test_a_bucket_a_file(files: tuple[str, ...], kind: Kind, said: str) -> None:
    decision = decided(
        *files, skip_only={"tests/test_skipped.py", "tests/a/test_skipped.py", "omni/test_skipped.py"}
    )
    assert decision.kind is kind
    assert said in decision.because


def test_a_gated_decision_says_what_changed_what_runs_and_what_does_not() -> None:
    files = (
        ".buildkite/amd/test-amd-merge.yml",
        ".buildkite/cuda/test-nightly.yml",
        ".buildkite/cuda/test-ready.yml",
    )
    assert decided(*files).because == (
        "only CI config YAML changed — changed: L2=[.buildkite/cuda/test-ready.yml], "
        "L3=[.buildkite/amd/test-amd-merge.yml], L4=[.buildkite/cuda/test-nightly.yml]; "
        "run: amd/l3, cuda/l2; skip: every other l2 and l3"
    )
    assert "run: nothing; skip: every other l2 and l3" in decided(".buildkite/cuda/test-weekly.yml").because


def test_a_test_file_is_asked_about_only_where_nothing_else_decides() -> None:
    asked: list[str] = []
    files = ["tests/test_a.py", "omni/engine.py"]
    decide(files, skip_only=lambda path: bool(asked.append(path)), policy=POLICY)
    assert asked == []


def test_the_first_test_that_does_not_qualify_is_enough() -> None:
    asked: list[str] = []
    files = [f"tests/test_{number}.py" for number in range(50)]
    decision = decide(files, skip_only=lambda path: bool(asked.append(path)), policy=POLICY)
    assert (decision.kind, asked) == (Kind.NORMAL, ["tests/test_0.py"])


LINKS = Links(
    targets={
        "omni/schema": "docs/schema",
        "tests/test_linked.py": "docs/test_linked.py",
        ".buildkite/amd/test-ready.yml": ".buildkite/cuda/test-ready.yml",
        "docs/examples": "tests/examples",
    }
)


@pytest.mark.parametrize(
    ("file", "kind", "said"),
    [
        ("docs/schema/a.json", Kind.NORMAL, "present: omni/schema/a.json"),
        ("docs/schema/a.md", Kind.SKIP_ALL, "docs or pytest skip-mark changes only"),
        ("docs/test_linked.py", Kind.NORMAL, "present: docs/test_linked.py"),
        ("docs/index.md", Kind.SKIP_ALL, "docs or pytest skip-mark changes only"),
        ("tests/examples/test_skipped.py", Kind.SKIP_ALL, "docs or pytest skip-mark changes only"),
        ("tests/examples/test_a.py", Kind.NORMAL, "present: tests/examples/test_a.py"),
        (".buildkite/cuda/test-ready.yml", Kind.GATED, "run: cuda/l2, amd/l2;"),
    ],
)
def test_a_file_is_whatever_it_is_under_any_of_its_names(file: str, kind: Kind, said: str) -> None:
    skip_only = {"tests/examples/test_skipped.py"}.__contains__
    decision = decide([file], skip_only=skip_only, policy=POLICY, links=LINKS)
    assert decision.kind is kind
    assert said in decision.because


def test_no_decision_without_a_reason() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Decision(kind=Kind.NORMAL, because=" ")


def test_another_repositorys_files_levels_and_documents() -> None:
    text = """\
schema: 1
platforms: {amd: null, cuda: null, npu: null, intel: null, cpu: null, gpu: cuda}
tiers: {ready: null, merge: null, nightly: null, weekly: null, quick: {level: small, label: go, on: pr}, deep: {level: big, on: main}}
pipelines: {".ci/{platform}-{tier}.yml": {}, ".ci/all.yml": {platform: gpu, tier: deep}}
docs: ["notes/**"]
"""
    policy = load_policy(text, name=".buildkite/policy.yml")
    decision = decide([".ci/gpu-quick.yml", "notes/a"], skip_only=lambda _: False, policy=policy)
    assert decision.run == {("gpu", "small")}
    assert not decision.is_run("gpu", "big")
    assert decide([".ci/all.yml"], skip_only=lambda _: False, policy=policy).run == {("gpu", "big")}
    assert decide(["README.md"], skip_only=lambda _: False, policy=policy).kind is Kind.NORMAL


@pytest.mark.parametrize("kind", ["docs", "skip_marks"])
@pytest.mark.parametrize(
    "file",
    [".buildkite/policy.yml", ".buildkite/presets.yml", ".buildkite/templates/pod.yaml.j2", "ci/own.yml"],
)
def test_no_policy_can_call_what_steers_the_build_documentation(kind: str, file: str) -> None:
    policy = load_policy(f'schema: 1\n{kind}: ["**"]\n', name="ci/own.yml")
    assert decide([file, "docs/a.md"], skip_only=lambda _: True, policy=policy).kind is Kind.NORMAL
    assert decide(["docs/a.md"], skip_only=lambda _: True, policy=policy).kind is Kind.SKIP_ALL
    assert decide([".buildkite/README.md"], skip_only=lambda _: True, policy=policy).kind is Kind.SKIP_ALL

"""When the steps of a bootstrap file start: the cells of the public table, as conditions over what a build is.

Every condition is evaluated for every build that can tell two cells apart, so that it is its meaning that is held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product

import pytest

from omni_ci.checks.conditions import check_condition
from omni_ci.policy import Policy, default_policy, load_policy
from omni_ci.starting.builds import Situation, Start, is_sweep, named_tiers, start_of
from omni_ci.starting.skipping import Decision, Kind
from omni_hardware.errors import InputError

POLICY = default_policy()
SCHEDULES = ("NIGHTLY", "WEEKLY", "NON_CRITICAL")
NIGHTLY_LABELS = ("nightly-test", "omni-test", "tts-test", "diffusion-x2iat-test", "diffusion-x2v-test")
LABELS = ("ready", "merge-test", "weekly-test", "other", *NIGHTLY_LABELS)


@dataclass(frozen=True)
class Build:
    """What a condition can ask."""

    branch: str
    env: frozenset[str]
    labels: frozenset[str]

    @property
    def main(self) -> bool:
        return self.branch == "main"

    @property
    def nightly(self) -> bool:
        return self.main and "NIGHTLY" in self.env

    @property
    def weekly(self) -> bool:
        return self.main and "WEEKLY" in self.env

    @property
    def non_critical(self) -> bool:
        return self.main and "NON_CRITICAL" in self.env

    def labelled(self, *labels: str) -> bool:
        """Whether it is no build of main and has one of *labels*."""
        return not self.main and bool(self.labels & set(labels))


def builds() -> Iterator[Build]:
    some = [
        (),
        *((label,) for label in LABELS),
        ("ready", "merge-test"),
        ("other", "tts-test"),
        ("ready", "other"),
    ]
    env = chain.from_iterable(combinations(SCHEDULES, size) for size in range(4))
    for branch, names, labels in product(("main", "work"), env, some):
        yield Build(branch, frozenset(names), frozenset(labels))


BUILDS = tuple(builds())


def holds(condition: str | None, build: Build) -> bool:
    """Return what Buildkite would make of *condition*, which is checked to be one; none always holds."""
    if condition is None:
        return True
    check_condition(condition)
    text = re.sub(r'build\.env\("(\w+)"\)', r'(1 if "\1" in env else None)', condition)
    text = re.sub(r'build\.pull_request\.labels includes "([^"]+)"', r'("\1" in labels)', text)
    text = text.replace('== "1"', "== 1").replace('!= "1"', "!= 1").replace("build.branch", "branch")
    text = re.sub(r"!(?!=)", " not ", text).replace("&&", " and ").replace("||", " or ")
    names = {"env": build.env, "labels": build.labels, "branch": build.branch}
    return bool(eval(text, {"__builtins__": {}}, names))


def decision(kind: Kind, *run: tuple[str, str]) -> Decision:
    levels = frozenset({"l2", "l3"}) if kind is Kind.GATED else frozenset()
    return Decision(kind=kind, because="the diff says so", run=frozenset(run), levels=levels)


def started(key: str, platform: str, decided: Decision, *, policy: Policy = POLICY, named: str = "") -> Start:
    named_ones = named_tiers(named, policy=policy, platform=platform)
    found = start_of(key, Situation(policy=policy, platform=platform, decision=decided, named=named_ones))
    assert found is not None
    return found


NORMAL, SKIP_ALL = decision(Kind.NORMAL), decision(Kind.SKIP_ALL)
BOTH = decision(Kind.GATED, ("cuda", "l2"), ("cuda", "l3"), ("npu", "l2"))
READY = decision(Kind.GATED, ("cuda", "l2"), ("npu", "l2"), ("amd", "l3"))
MERGE = decision(Kind.GATED, ("cuda", "l3"), ("amd", "l2"))
NEITHER = decision(Kind.GATED)
ALWAYS, OMITTED = "always", "omitted"
Cell = str | Callable[[Build], bool]


def ready(build: Build) -> bool:
    return build.weekly or build.labelled("ready")


def merge(build: Build) -> bool:
    push = build.main and not build.env
    return build.weekly or push or build.labelled("merge-test")


def nightly(build: Build) -> bool:
    return build.nightly or build.labelled(*NIGHTLY_LABELS)


def weekly(build: Build) -> bool:
    return build.weekly or build.non_critical or build.labelled("weekly-test")


def npu_ready(build: Build) -> bool:
    return build.labelled("ready")


# (decision, platform) → image, ready (L2), merge (L3), nightly (L4), weekly (L5)
TABLE: dict[tuple[str, str], tuple[Decision, Cell, Cell, Cell, Cell, Cell]] = {
    ("normal", "cuda"): (NORMAL, ALWAYS, ready, merge, nightly, weekly),
    ("normal", "npu"): (NORMAL, ALWAYS, npu_ready, OMITTED, nightly, OMITTED),
    ("skip_all", "cuda"): (
        SKIP_ALL,
        lambda b: b.nightly or b.weekly or b.non_critical,
        lambda b: b.weekly,
        lambda b: b.weekly,
        lambda b: b.nightly,
        lambda b: b.weekly or b.non_critical,
    ),
    ("skip_all", "npu"): (SKIP_ALL, lambda b: b.nightly, OMITTED, OMITTED, lambda b: b.nightly, OMITTED),
    ("gated, both", "cuda"): (
        BOTH,
        lambda b: nightly(b) or weekly(b) or ready(b) or merge(b),
        ready,
        merge,
        nightly,
        weekly,
    ),
    ("gated, ready", "cuda"): (
        READY, lambda b: nightly(b) or weekly(b) or ready(b), ready, OMITTED, nightly, weekly,
    ),
    ("gated, merge", "cuda"): (
        MERGE, lambda b: nightly(b) or weekly(b) or merge(b), OMITTED, merge, nightly, weekly,
    ),
    ("gated, neither", "cuda"): (
        NEITHER, lambda b: nightly(b) or weekly(b), OMITTED, OMITTED, nightly, weekly,
    ),
    ("gated, ready", "npu"): (
        READY, lambda b: nightly(b) or npu_ready(b), npu_ready, OMITTED, nightly, OMITTED,
    ),
    ("gated, neither", "npu"): (NEITHER, nightly, OMITTED, OMITTED, nightly, OMITTED),
}  # fmt: skip
KEYS = (
    "image-build",
    "upload-ready-pipeline",
    "upload-merge-pipeline",
    "upload-nightly-pipeline",
    "upload-weekly-pipeline",
)


@pytest.mark.parametrize(("row", "platform"), TABLE)
@pytest.mark.parametrize("column", range(5), ids=KEYS)
def test_a_cell_of_the_table(row: str, platform: str, column: int) -> None:
    decided, *cells = TABLE[row, platform]
    start, cell = started(KEYS[column], platform, decided), cells[column]
    if cell == OMITTED:
        assert start.left_out
        return
    assert start.left_out is None
    if cell == ALWAYS:
        assert start.condition is None
        return
    assert start.condition is not None
    assert start.condition.startswith("(")
    assert start.condition.endswith(")")
    assert callable(cell)
    for build in BUILDS:
        assert holds(start.condition, build) is cell(build), (build, start.condition)


@pytest.mark.parametrize("platform", ["cuda", "npu", "amd", "intel"])
@pytest.mark.parametrize("key", KEYS[1:])
def test_no_label_revives_what_the_change_skips(platform: str, key: str) -> None:
    start = started(key, platform, SKIP_ALL)
    for build in BUILDS:
        if not build.main and start.left_out is None:
            assert not holds(start.condition, build)


@pytest.mark.parametrize("key", ["image-build", "image-build-a2", "image-build-a3", "image-build-310p"])
def test_every_image_is_an_image(key: str) -> None:
    assert started(key, "npu", NORMAL) == Start()
    assert started(key, "npu", SKIP_ALL).condition is not None


def test_the_words_of_a_condition() -> None:
    assert started("upload-ready-pipeline", "cuda", NORMAL).condition == (
        '((build.branch == "main" && build.env("WEEKLY") == "1") || '
        '(build.branch != "main" && build.pull_request.labels includes "ready"))'
    )
    assert started("upload-ready-pipeline", "cuda", SKIP_ALL).condition == (
        '(build.branch == "main" && build.env("WEEKLY") == "1")'
    )


def test_what_is_left_out_says_why() -> None:
    assert started("upload-ready-pipeline", "npu", SKIP_ALL).left_out == "the diff says so"
    assert started("upload-merge-pipeline", "cuda", READY).left_out == "the diff says so"
    assert (
        started("upload-merge-pipeline", "npu", NORMAL).left_out
        == "merge does not start on npu (tiers and platform_tiers of omni_ci/data/policy.yml)"
    )
    never = policy("tiers: {nightly: {env: [], label: []}}")
    assert (
        started("upload-nightly-pipeline", "cuda", NORMAL, policy=never).left_out
        == "nothing starts nightly on cuda (tiers and platform_tiers of policy.yml)"
    )


def test_a_scheduled_build_is_no_push_on_a_platform_without_that_schedule_either() -> None:
    text = "platform_tiers: {cpu: {ready: {sweep: []}, merge: {sweep: []}, weekly: {starts: false}}}"
    start = started("upload-merge-pipeline", "cpu", NORMAL, policy=policy(text))
    for names in ((), ("WEEKLY",), ("NIGHTLY",), ("NON_CRITICAL",)):
        build = Build("main", frozenset(names), frozenset())
        assert holds(start.condition, build) is (names == ()), names


def test_other_keys_are_nobodys_business() -> None:
    for key in (None, "collect", "upload-pipeline", "upload--pipeline", "my-image-build"):
        assert start_of(key, Situation(policy=POLICY, platform="cuda", decision=SKIP_ALL)) is None


def test_the_key_of_a_tier_that_is_not_there_has_a_nearest_name() -> None:
    with pytest.raises(
        InputError, match=r"there is no tier 'redy' in omni_ci/data/policy.yml \(did you mean 'ready'"
    ):
        started("upload-redy-pipeline", "cuda", NORMAL)


def policy(text: str) -> Policy:
    return load_policy(f"schema: 1\n{text}\n", name="policy.yml")


# What the schedules of a build of main start: (tier, whether for its end-to-end groups only)
E1 = {
    (): {"merge": False},
    ("NIGHTLY",): {"nightly": False},
    ("WEEKLY",): {"ready": True, "merge": True, "weekly": False},
    ("NON_CRITICAL",): {"weekly": False},
    ("NIGHTLY", "WEEKLY"): {"ready": True, "merge": True, "nightly": False, "weekly": False},
    ("WEEKLY", "NON_CRITICAL"): {"ready": True, "merge": True, "weekly": False},
}
E0 = {
    (): {"merge": False},
    ("NIGHTLY",): {"ready": True, "merge": True, "nightly": False},
    ("WEEKLY",): {"weekly": False},
}
E0_POLICY = "tiers: {ready: {sweep: NIGHTLY}, merge: {sweep: NIGHTLY}}"


@pytest.mark.parametrize(
    ("policy_text", "table"), [("", E1), (E0_POLICY, E0)], ids=["the weekly sweeps", "the nightly one swept"]
)
def test_vllm_omni6311_which_schedule_starts_what_and_sweeps(
    policy_text: str, table: dict[tuple[str, ...], dict[str, bool]]
) -> None:
    """A change of the schedules moved `--e2e` from NIGHTLY to WEEKLY by editing shell in every step."""
    mine = policy(policy_text)
    for names, wanted in table.items():
        build = Build("main", frozenset(names), frozenset())
        environ = {"BUILDKITE_BRANCH": "main", **dict.fromkeys(names, "1")}
        found = {}
        for name, tier in mine.tiers_on("cuda").items():
            start = started(f"upload-{name}-pipeline", "cuda", NORMAL, policy=mine)
            if start.left_out is None and holds(start.condition, build):
                found[name] = is_sweep(tier, environ, main_branch=mine.main_branch)
        assert found == wanted, names


@pytest.mark.parametrize(
    "environ",
    [
        {"BUILDKITE_BRANCH": "work", "WEEKLY": "1"},
        {"BUILDKITE_BRANCH": "main", "WEEKLY": "0"},
        {"BUILDKITE_BRANCH": "main", "WEEKLY": ""},
        {"BUILDKITE_BRANCH": "main", "NIGHTLY": "1"},
        {"WEEKLY": "1"},
        {},
    ],
)
def test_nothing_else_is_a_sweep(environ: dict[str, str]) -> None:
    assert not is_sweep(POLICY.tiers["ready"], environ, main_branch="main")


# AMD chooses suites: by hand, on main, by labels, else ready. (branch, schedules, labels) → suites
AMD = {
    ("main", (), ()): {"merge"},
    ("main", ("WEEKLY",), ()): {"merge"},
    ("main", ("NON_CRITICAL",), ()): {"merge"},
    ("main", ("NIGHTLY",), ()): {"nightly"},
    ("work", (), ()): {"ready"},
    ("work", (), ("other",)): {"ready"},
    ("work", (), ("ready",)): {"ready"},
    ("work", (), ("merge-test",)): {"merge"},
    ("work", (), ("ready", "merge-test")): {"ready", "merge"},
    ("work", (), ("nightly-test",)): {"ready"},
}


@pytest.mark.parametrize("case", AMD)
def test_the_suites_of_amd(case: tuple[str, tuple[str, ...], tuple[str, ...]]) -> None:
    branch, names, labels = case
    build = Build(branch, frozenset(names), frozenset(labels))
    tiers = POLICY.tiers_on("amd")
    starts = {name: started(f"upload-{name}-pipeline", "amd", NORMAL) for name in tiers}
    assert {name for name, one in starts.items() if not one.left_out and holds(one.condition, build)} == AMD[
        case
    ]
    assert not any(tier.sweep for tier in tiers.values())


def test_suites_named_by_hand_start_whatever_the_build_is() -> None:
    named = "merge , ready"
    assert started("upload-ready-pipeline", "amd", NORMAL, named=named).condition is None
    assert started("upload-merge-pipeline", "amd", NORMAL, named="merge").condition is None
    assert (
        started("upload-ready-pipeline", "amd", NORMAL, named="merge").left_out
        == "DEBUG_TEST_YAML names only merge"
    )
    assert started("image-build", "amd", NORMAL, named="merge") == Start()


def test_suites_named_by_hand_pass_the_gate_all_the_same() -> None:
    assert started("upload-ready-pipeline", "amd", SKIP_ALL, named="ready").left_out == "the diff says so"
    assert started("upload-ready-pipeline", "amd", READY, named="ready").left_out == "the diff says so"
    assert started("upload-merge-pipeline", "amd", READY, named="merge").left_out is None
    assert "nothing is uploaded" in (started("image-build", "amd", SKIP_ALL, named="ready").left_out or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ready,redy", "DEBUG_TEST_YAML=ready,redy: no tier 'redy' starts on amd (did you mean 'ready'?)"),
        ("weekly", "no tier 'weekly' starts on amd (known: ready, merge, nightly)"),
        ("ready, ready", "'ready' is named twice"),
    ],
)
def test_suites_named_wrongly(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        named_tiers(text, policy=POLICY, platform="amd")
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["", " ", ","])
def test_no_suite_is_named(text: str) -> None:
    assert named_tiers(text, policy=POLICY, platform="amd") is None


def test_another_repositorys_words() -> None:
    mine = policy(
        """\
main_branch: trunk
tiers: {ready: {label: 'say "go" $5\\ok'}, smoke: {level: l1, on: pr}}
bootstrap: {upload_key: "{tier}:run", image_keys: docker}"""
    )
    start = started("ready:run", "cuda", NORMAL, policy=mine)
    assert start.condition is not None
    check_condition(start.condition)
    assert 'includes "say \\"go\\" $$5\\\\ok"' in start.condition
    assert started("smoke:run", "cuda", NORMAL, policy=mine).condition == '(build.branch != "trunk")'
    assert started("docker", "cuda", NORMAL, policy=mine) == Start()
    assert start_of("image-build", Situation(policy=mine, platform="cuda", decision=NORMAL)) is None

"""Policy: the package's values, a repository's overrides by name, and what is refused."""

from __future__ import annotations

import pytest

from omni_ci.policy import Policy, default_policy, load_policy
from omni_ci.yaml.loading import LoadError


def load(text: str) -> Policy:
    return load_policy(f"schema: 1\n{text}", name=".buildkite/policy.yml")


def test_the_package_has_a_complete_policy() -> None:
    policy = default_policy()
    assert policy.main_branch == "main"
    assert policy.tiers["ready"].on == "pr"  # `on` is a key, not the boolean YAML 1.1 makes of it
    assert "scripts/run_cov_split.sh" in policy.coverage.inputs
    assert policy.labels["ci-run-all"] == ("*",)


def test_lmcache3816_tests_failures_are_never_retried() -> None:
    statuses = {rule.exit_status for rule in default_policy().retry.infra}
    assert statuses.isdisjoint({1, 137, "*"})


def test_overrides_merge_by_name() -> None:
    policy = load(
        "tiers: {ready: {label: go}, weekly: null}\ndocs: [notes/**]\npods: {secrets: {TOKEN: a/b}}\n"
    )
    default = default_policy()
    assert (policy.tiers["ready"].label, policy.tiers["ready"].level) == (("go",), "l2")
    assert "weekly" not in policy.tiers
    assert policy.docs == ("notes/**",)
    assert policy.pods.secrets == {"TOKEN": "a/b"}
    assert policy.pods.allow == default.pods.allow
    assert policy.coverage == default.coverage


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tiers: {weekli: null}",
            ":2:9: tiers.weekli: null takes a default away, and there is none (did you mean 'weekly'?)",
        ),
        ("platform_tiers: {amb: null}", "platform_tiers.amb: null takes a default away, and there is none (did"),
        ("platform_tiers: {amd: {weekli: null}}", "platform_tiers.amd.weekli: null takes"),
        ("pipelines: {.buildkite/intel/pipline-intel.yml: null}", "(did you mean '.buildkite/intel/pipeline-intel.yml'?)"),
        ("labels: {ci-run-al: null}", "labels.ci-run-al: null takes a default away, and there is none (did you mean 'ci-run-all'?)"),
        ("platforms: {musa: null}", "platforms.musa: null takes a default away, and there is none (known: amd, cuda"),
        ("pods: {secrets: {HF_TOKEN: null}}", "pods.secrets.HF_TOKEN: null takes a default away, and there is none"),
        ("docz: null", "docz: null takes a default away, and there is none (did you mean 'docs'?)"),
    ],
)  # fmt: skip
def test_what_is_taken_away_must_be_there(text: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        load(text)
    assert said in str(caught.value)


def test_the_schema_need_not_be_written() -> None:
    assert load_policy("main_branch: trunk", name="policy.yml").version == 1
    with pytest.raises(LoadError, match=r"policy\.yml:1:1: schema is 2; it must be 1"):
        load_policy("schema: 2", name="policy.yml")


def test_the_digest_names_the_values_and_not_the_spelling() -> None:
    assert load("").digest == default_policy().digest
    assert load("main_branch: main # as before").digest == default_policy().digest
    assert load("main_branch: trunk").digest != default_policy().digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("docz: []", ".buildkite/policy.yml:2:1: docz: unknown key (did you mean 'docs'?)"),
        ("coverage: {wen: x}", ":2:12: coverage.wen: unknown key (did you mean 'when'?)"),
        (
            "coverage: {when: alwys}",
            "coverage.when is 'alwys'; it must be one of always, scheduled (did you mean 'always'?)",
        ),
        (
            "platforms: {cuda: cudda}",
            ":2:13: platforms.cuda: unknown platform 'cudda' (did you mean 'cuda'?)",
        ),
        ("tiers: {ready: {levell: l2}}", "tiers.ready.levell: unknown key (did you mean 'level'?)"),
        ("tiers: {new: {label: x}}", "tiers.new.level is missing"),
        ("retry: {infra: [{exit_status: one}]}", "retry.infra[0].exit_status must be a whole number"),
        ("retry: {infra: [{limit: 20}]}", "retry.infra[0].limit is 20; it must be at most 10"),
        ("retry: {infra: [{signal_reason: agent_stopp}]}", "(did you mean 'agent_stop'?)"),
        (
            "imports: onion",
            "imports is 'onion'; it must be one of report, union (did you mean 'union'?)",
        ),
        ("pods: {secrets: {T: token}}", "pods.secrets: T: write the secret as `name/key`, not 'token'"),
        ("pods: {secrets: {T: a/b/c}}", "write the secret as `name/key`"),
        ('pods: {secrets: {"A B": a/b}}', "'A B' is no name of an environment variable"),
        ("pods: {secrets: {VLLM_CI_DOCKER_DISABLED: a/b}}", "is set by the pod template"),
        ("tiers: {ready: {env: A B}}", "tiers.ready.env: 'A B' is no name of an environment variable"),
        ("tiers: {ready: {sweep: [1]}}", "tiers.ready.sweep[0] must be text"),
        ("tiers: {ready: {on: push}}", "tiers.ready.on is 'push'; it must be one of pr, main"),
        (
            "platform_tiers: {npuu: {}}",
            ":2:18: platform_tiers: unknown platform 'npuu' (did you mean 'npu'?)",
        ),
        (
            "platform_tiers: {npu: {redy: {}}}",
            "platform_tiers.npu: unknown tier 'redy' (did you mean 'ready'?)",
        ),
        ("platform_tiers: {npu: {ready: {level: l9}}}", "platform_tiers.npu.ready.level: unknown key"),
        (
            "pipelines: {a.yml: {platform: cuda}}",
            "pipelines.a.yml says its tier neither in its name nor beside it",
        ),
        (
            "pipelines: {'{tier}.yml': {platform: cuda, tier: ready}}",
            "pipelines.{tier}.yml says its tier both in its name and beside it",
        ),
        (
            "pipelines: {a.yml: {platform: cud, tier: ready}}",
            "pipelines.a.yml: unknown platform 'cud' (did you mean 'cuda'?)",
        ),
        (
            "pipelines: {'{platform}.yml': {tier: redy}}",
            "pipelines.{platform}.yml: unknown tier 'redy' (did you mean 'ready'?)",
        ),
        ("bootstrap: {upload_key: upload}", "bootstrap.upload_key: 'upload' must hold {tier} once"),
        ("bootstrap: {suites_env: a-b}", "'a-b' is no name of an environment variable"),
        ("bootstrap: {image_key: x}", "bootstrap.image_key: unknown key (did you mean 'image_keys'?)"),
        ("main_branch: null", ".buildkite/policy.yml:2:1: main_branch is missing"),
        ("main_branch: 3", "main_branch must be text, not a number (3)"),
        ("docs: a\ndocs: b", "key 'docs' is written twice, on lines 2 and 3"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        load(text)
    assert said in str(caught.value)


def test_a_platform_does_some_tiers_differently() -> None:
    policy = load("platform_tiers: {cuda: {merge: {label: deep}, weekly: {starts: false}}}")
    tiers = policy.tiers_on("cuda")
    assert list(tiers) == ["ready", "merge", "nightly"]
    assert (tiers["merge"].label, tiers["merge"].level, tiers["merge"].on) == (("deep",), "l3", "main")
    assert policy.tiers_on("cpu") == policy.tiers
    assert list(policy.tiers_on("npu")) == ["ready", "nightly"]


def test_a_tier_or_platform_taken_away_takes_its_files_along() -> None:
    policy = load("tiers: {merge: null}\nplatforms: {amd: null}")
    assert ".buildkite/amd/test-amd-merge.yml" not in policy.places()
    assert ".buildkite/cuda/test-merge.yml" not in policy.places()
    assert policy.places()[".buildkite/cuda/test-ready.yml"] == ("cuda", "ready")
    assert policy.levels == ("l2", "l4", "l5")


def test_a_file_written_out_wins_over_its_placeholders() -> None:
    policy = load("pipelines: {.buildkite/cuda/test-ready.yml: {platform: npu, tier: merge}}")
    assert policy.places()[".buildkite/cuda/test-ready.yml"] == ("npu", "merge")
    assert policy.places()[".buildkite/cuda/test-merge.yml"] == ("cuda", "merge")


def test_another_schema_number_is_refused() -> None:
    with pytest.raises(LoadError, match="schema is 2; it must be 1"):
        load_policy("schema: 2", name="policy.yml")

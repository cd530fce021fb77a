"""Policy: the package's values, a repository's overrides by name, and what is refused."""

from __future__ import annotations

import pytest

from omni_ci.loading import LoadError
from omni_ci.policy import Policy, default_policy, load_policy


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
    assert (policy.tiers["ready"].label, policy.tiers["ready"].level) == ("go", "l2")
    assert "weekly" not in policy.tiers
    assert policy.docs == ("notes/**",)
    assert policy.pods.secrets == {"TOKEN": "a/b"}
    assert policy.pods.allow == default.pods.allow
    assert policy.coverage == default.coverage


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
            "imports: union",
            "imports: 'union' is not built yet; 'report' is the only value that does anything",
        ),
        ("coverage: {when: scheduled}", "coverage.when: 'scheduled' is not built yet"),
        ("pods: {secrets: {T: token}}", "pods.secrets: T: write the secret as `name/key`, not 'token'"),
        ("pods: {secrets: {T: a/b/c}}", "write the secret as `name/key`"),
        ('pods: {secrets: {"A B": a/b}}', "'A B' is no name of an environment variable"),
        ("pods: {secrets: {VLLM_CI_DOCKER_DISABLED: a/b}}", "is set by the pod template"),
        ("main_branch: null", ".buildkite/policy.yml:2:1: main_branch is missing"),
        ("main_branch: 3", "main_branch must be text, not a number (3)"),
        ("docs: a\ndocs: b", "key 'docs' is written twice, on lines 2 and 3"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        load(text)
    assert said in str(caught.value)


def test_another_schema_number_is_refused() -> None:
    with pytest.raises(LoadError, match="schema is 2; it must be 1"):
        load_policy("schema: 2", name="policy.yml")

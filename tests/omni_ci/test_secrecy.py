"""Which names and texts are secrets, and that none of them gets out."""

from __future__ import annotations

import pytest

from omni_ci.checks.validation import validate
from omni_ci.policy import load_policy
from omni_ci.secrecy import is_secret, is_value, redacted, secret_in

STEP = {"label": "x", "commands": ["true"], "timeout_in_minutes": 5}
VALUE = "s3cr3tv4lue99"
HF = "hf_" + "a1B2" * 9


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "TOKEN", "hf_token", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "DB_PASSWORD", "MY_SECRET",
     "GPG_PASSPHRASE", "APIKEY", "GOOGLE_CREDENTIALS", "BUILDKITE_AGENT_ACCESS_TOKEN"],
)  # fmt: skip
def test_names_of_secrets(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["MAX_TOKENS", "TOKENIZERS_PARALLELISM", "HF_TOKEN_PATH", "KEY", "BUILDKITE_STEP_KEY", "MONKEY", "CACHE_KEY",
     "SSH_PUBLIC_KEY", "SECRETARY", "PATH"],
)  # fmt: skip
def test_names_that_only_look_like_it(name):
    assert not is_secret(name)


@pytest.mark.parametrize(
    "text", [VALUE, "correct-horse-battery", "a" * 40, "top-secret-hunter2", "prod-token-9f8a7d11", "hunter2", "abc",
             "/9j4AAQSkZJRgABAQ+k=", "test1234"],
)  # fmt: skip
def test_values(text):
    assert is_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "EMPTY",
        "dummy-key",
        "/run/secrets/hf",
        "~/.netrc",
        "$$OTHER",
        "sk-test-key",
        "test",
        "0",
        "xxx",
        "fake_token",
        "<your key>",
        "./key.pem",
        "../secrets/hf",
    ],
)
def test_what_is_no_value(text):
    assert not is_value(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"curl -H {HF}", "Hugging Face token"),
        ("ghp_" + "a1" * 18, "GitHub token"),
        ("AKIA" + "A1" * 8, "AWS access key"),
        ("-----BEGIN RSA PRIVATE KEY-----", "private key"),
        ("npm_" + "a1" * 18, "npm token"),
        ("postgres://user:S3cretPassw0rd@db/x", "password in a URL"),
    ],
)
def test_what_its_issuer_marks_as_a_secret(text, kind):
    assert secret_in(text)[0] == kind
    assert redacted(f"a {text} b", ()) != f"a {text} b"
    assert (
        secret_in(
            "hf_home sk-1 AKIA ghp_x npm_run https://git@host/x:y https://$$USER:$$PASS@host ssh://h:22/a@b"
        )
        is None
    )


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"env": {"HF_TOKEN": VALUE}}, "env: HF_TOKEN"),
        ({"commands": [f"export HF_TOKEN={VALUE}"]}, "commands: HF_TOKEN"),
        ({"commands": [f"bash -c 'HF_TOKEN={VALUE} run'"]}, "commands: HF_TOKEN"),
        (
            {"plugins": [{"kubernetes": {"podSpec": {"containers": [{"env": [{"name": "HF_TOKEN", "value": VALUE}]}]}}}]},
            "pod env: HF_TOKEN",
        ),
        ({"commands": [f"docker run -e HF_TOKEN={VALUE} x"]}, "commands: HF_TOKEN"),
        ({"commands": [f"env -u A HF_TOKEN={VALUE} run"]}, "commands: HF_TOKEN"),
        ({"commands": [f"docker run --env=HF_TOKEN={VALUE} x"]}, "commands: HF_TOKEN"),
        ({"commands": [f"mysql --password={VALUE}"]}, "commands: --password"),
        ({"commands": [f"mysql --db-password {VALUE}"]}, "commands: --db-password"),
        ({"plugins": [{"docker#v5": {"image": "i", "environment": [f"HF_TOKEN={VALUE}"]}}]}, "docker environment: HF_TOKEN"),
        ({"label": f"x {HF}"}, "label holds what has the form of a Hugging Face token"),
        ({"env": {"A": HF}}, "env.A holds what has the form of a Hugging Face token"),
    ],
)  # fmt: skip
def test_a_secret_as_text_is_an_error_that_does_not_say_it(changes, place):
    findings = validate({"steps": [{**STEP, **changes}]}, origins={(0,): "a.yml:3"})
    (found,) = [one for one in findings if one.code == "SECRET"]
    assert place in found.message
    assert found.where == "a.yml:3"
    assert not any(secret in str(one) for one in findings for secret in (VALUE, HF))


def test_no_other_check_says_it_either():
    step = {**STEP, "label": VALUE, "env": {"API_KEY": VALUE}, "comands": 1, "depends_on": VALUE, "if": VALUE}
    findings = validate({"steps": [step]})
    assert {one.code for one in findings} >= {"SECRET", "SCHEMA", "S3", "S6"}
    assert not any(VALUE in str(one) for one in findings)


def test_the_environment_of_the_whole_file_counts():
    (found,) = validate({"env": {"HF_TOKEN": VALUE}, "steps": [STEP]}, origins={(): "a.yml:1"})
    assert (found.code, found.where) == ("SECRET", "a.yml:1")


def test_policy_may_name_a_secret_that_does_not_look_like_one():
    policy = load_policy("schema: 1\npods: {secrets: {SESSION: name/key}}\n", name="policy.yml")
    step = {**STEP, "env": {"SESSION": VALUE, "B": "$SESSION"}}
    messages = [one.message for one in validate({"steps": [step]}, policy=policy)]
    assert any("env: SESSION is a secret" in one for one in messages)
    assert any("env.B: `$SESSION` puts the value of a secret" in one for one in messages)


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"HF_TOKEN": "$$OTHER"}},
        {"env": {"OPENAI_API_KEY": "EMPTY"}},
        {"commands": ["export HF_TOKEN=$$VLLM_CI_HF_TOKEN"]},
        {"commands": ["echo HF_TOKEN=abcdefghijk"]},
        {
            "commands": [
                "docker run -e HF_TOKEN -e API_KEY=EMPTY x",
                "serve --api-key EMPTY --max-token 8",
                "go --password -v",
            ]
        },
        {"env": {"HF_HOME": "/root/hf_cache"}},
    ],
)
def test_a_name_a_reference_or_a_stand_in_is_no_secret(changes):
    assert validate({"steps": [{**STEP, **changes}]}) == ()

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_hardware.redaction import redact, redact_words, secret_values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HF_TOKEN=hf_abc123def go", "HF_TOKEN=[redacted] go"),
        ("using hf_abcdefghijklmnop", "using [redacted]"),
        ('{"api_key": "s3cret", "n": 1}', '{"api_key": "[redacted]", "n": 1}'),
        ("serve --api-key abc --port 1", "serve --api-key [redacted] --port 1"),
        ("serve --api-key=abc", "serve --api-key=[redacted]"),
        ("serve --api-key --port 1", "serve --api-key --port 1"),
        ("argv: ['--api-key', 'a b', '--port', '1']", "argv: ['--api-key', '[redacted]', '--port', '1']"),
        ('["--token", "x"]', '["--token", "[redacted]"]'),
        ("['--api-key', '--port']", "['--api-key', '--port']"),
        ("serve --password 'two words' --port 1", "serve --password '[redacted]' --port 1"),
        ("serve --max-tokens 128", "serve --max-tokens 128"),
        ("Authorization: Bearer abcdef.ghi-jkl", "Authorization: Bearer [redacted]"),
        ("pull https://user:pw@host/x", "pull https://[redacted]@host/x"),
        ("db_password: hunter2", "db_password: [redacted]"),
        ("PASSWORD=12345678", "PASSWORD=[redacted]"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("ghp_0123456789abcdef", "[redacted]"),
        ("max_tokens=128 prompt_tokens: 7", "max_tokens=128 prompt_tokens: 7"),
        ('{"total_tokens": 7}', '{"total_tokens": 7}'),
        ("loading tokenizer: qwen", "loading tokenizer: qwen"),
        ("plain words", "plain words"),
    ],
)
def test_redact(text, expected):
    assert redact(text) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--api-key", "two words", "x"], ["--api-key", "[redacted]", "x"]),
        (["--api-key=two words", "x"], ["--api-key=[redacted]", "x"]),
        (["HF_TOKEN=two words"], ["HF_TOKEN=[redacted]"]),
        (["--token", "-x", "--token", "--port"], ["--token", "[redacted]", "--token", "--port"]),
        (["--max-tokens", "128", "--max-tokens=128"], ["--max-tokens", "128", "--max-tokens=128"]),
        (["token", "x", "--verbose", "y"], ["token", "x", "--verbose", "y"]),
        (["-H", "Authorization: Bearer abcdefgh.ij"], ["-H", "Authorization: Bearer [redacted]"]),
        (["a=swordfish"], ["a=[redacted]"]),
    ],
)
def test_words_of_a_command(words, expected):
    assert redact_words(words, secrets=["swordfish"]) == tuple(expected)


def test_known_values_are_blotted_wherever_they_stand():
    assert redact("x=swordfish!, y=7", secrets=["swordfish", "7"]) == "x=[redacted]!, y=7"


def test_secret_values_are_found_by_name():
    env = {"HF_TOKEN": "a-b-c", "OPENAI_API_KEY": "k", "PATH": "/bin", "TOKENIZERS_PARALLELISM": "false"}
    assert secret_values(env) == ("a-b-c", "k")


@settings(max_examples=50)
@given(st.text(max_size=40), st.from_regex(r"hf_[A-Za-z0-9]{10,30}", fullmatch=True), st.text(max_size=40))
def test_a_token_never_survives(before, token, after):
    assert token not in redact(f"{before} {token} {after}")
    assert token not in redact(f"{before}\nHF_TOKEN={token}\n{after}")


@settings(max_examples=50)
@given(st.text(st.sampled_from("TOKENtoken=_:-/@ \"'[]r1"), max_size=60))
def test_redact_twice_changes_nothing(text):
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("char", ["-", "a", "/", ":", "token", "--token", "a://"])
def test_a_long_line_is_no_trap(char):
    began = time.monotonic()
    redact(char * 100_000)
    assert time.monotonic() - began < 10  # a hang guard: takes well under a second

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from omni_ci.runner.caches import Caches
from omni_ci.runner.heading import heading, waited

CREATED = {"BUILDKITE_BUILD_CREATED_AT": "2026-01-01T00:00:00.000Z"}


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, ""),
        ({"BUILDKITE_BUILD_CREATED_AT": "yesterday"}, ""),
        (
            {**CREATED, "BUILDKITE_JOB_STARTED_AT": "2026-01-01T01:02:05+01:00"},
            "125 s from the build to this job",
        ),
        (CREATED, "10 s from the build to this job"),
    ],
)
def test_the_wait_in_the_queue(environ, said):
    assert waited(environ, now=datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)) == said


def test_the_heading_names_the_job_and_no_secret():
    environ = {
        "BUILDKITE_COMMIT": "0a1b2c",
        "BUILDKITE_BRANCH": "fix/x\x1b[31m",
        "BUILDKITE_JOB_ID": "0190",
        "BUILDKITE_BUILD_URL": "https://user:hunter22@buildkite.example/1",
        "VLLM_CI_EXPECTED_GPU_COUNT": "2",
        "HF_HOME": "/mnt/hf",
        "HF_TOKEN": "hf_abcdefghij",
        "TRITON_CACHE_DIR": "/t",
    }
    caches = Caches(root=Path("/tmp/omni-0190"), variables={}, kept=("TRITON_CACHE_DIR",))
    lines = list(heading(environ, caches, platform="rocm", count=1, source="OMNI_COMMANDS"))
    assert lines == [
        "--- omni-ci exec: 1 item from OMNI_COMMANDS",
        "commit: 0a1b2c",
        "branch: fix/x[31m",
        "build: https://[redacted]@buildkite.example/1",
        "job: 0190",
        "devices expected: 2",
        "models in: /mnt/hf",
        "platform: rocm",
        "caches: /tmp/omni-0190",
        "TRITON_CACHE_DIR: kept as the job set it, /t",
    ]

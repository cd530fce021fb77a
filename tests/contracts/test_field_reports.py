"""Every public report that the plugin and the orchestrator were built against is held by a test, or listed with the reason why not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What people reported, a row a subject; one test a row carries one of its references, the others are listed beside it.
ROWS = [
    "vllm-project/vllm-omni#4842",
    "vllm-project/vllm-omni#7612",
    "vllm-project/vllm-omni#4165",
    "vllm-project/vllm-omni#3683 vllm-project/vllm-omni#2768 vllm-project/vllm-omni#3725",
    "vllm-project/afd-plugin#392",
    "vllm-project/vllm-omni#2024 vllm-project/vllm-omni#2025 vllm-project/vllm-omni#4132",
    "vllm-project/vllm-omni#3207",
    "vllm-project/vllm-omni#3904",
    "vllm-project/vllm-omni#6935",
    "vllm-project/vllm#53840 vllm-project/vllm#53813 vllm-project/vllm#34994",
    "cupy/cupy#3342",
    "vllm-project/vllm#32040 vllm-project/vllm#55638",
    "tigerless-labs/autoharness#152",
    "NVIDIA-NeMo/RL#3422 AdamGleave/pytest-shard#6 vllm-project/vllm-omni#7706 omnigent#138",
    "jerry-git/pytest-split#61 jerry-git/pytest-split#108 jerry-git/pytest-split#26",
    "kirodotdev/KiroCrew#6351",
    "vllm-project/vllm#21764",
    "pytest-dev/pytest#2781 pytest-dev/pytest#12166 pytest-dev/pytest#14127",
    "Tracer-Cloud/opensre#3899",
    "triton-lang/triton#11831 ROCm/rocm-libraries#11898",
    "cupy/cupy#9584 AMD-Ecosystem/flashinfer#183",
    "pytest-dev/pytest-xdist#520 pytest-dev/pytest-xdist#760",
    "ray-project/ray#52701 ray-project/ray#51104 ray-project/ray#53737 vllm-project/vllm#12572",
    "mcmonkeyprojects/SwarmUI#565",
    "vllm-project/vllm#41848 vllm-project/vllm#13815 vllm-project/vllm#46132 pytorch/pytorch#92315",
    "intel/torch-xpu-ops#3502 pytorch/pytorch#178496",
    "pytorch/pytorch#95073 pytorch/pytorch#122815 NVIDIA/Isaac-GR00T#765 MakazhanAlpamys/Soup#1128",
    "meta-pytorch/torchrec#4226",
    "vllm-project/vllm#47446 vllm-project/vllm#50638 vllm-project/vllm#28965 vllm-project/vllm#3557 EleutherAI/gpt-neox#1132",
    "pytest-dev/pytest-timeout#134 pytest-dev/pytest-timeout#159",
    "pytest-dev/pytest#13400 apify/crawlee-python#1892 Snowflake-Labs/pg_lake#224",
    "vllm-project/vllm#27576 triton-inference-server/triton_cli#101 NVIDIA/TensorRT-LLM#9343",
    "caikit/caikit#646",
    "sgl-project/sglang#31571",
    "vllm-project/vllm#49242 vllm-project/vllm#43023 vllm-project/vllm#47536",
    "coveragepy/coveragepy#2076 coveragepy/coveragepy#2078 scrapy/scrapy#7137 cta-observatory/ctapipe#2882",
    "pytest-dev/pytest-cov#715 renatahodovan/picireny#58 Pylons/hupper#6 coveragepy/coveragepy#1307 coveragepy/coveragepy#1599",
    "generative-computing/granite-switch#123",
    # the orchestrator's
    "vllm-project/vllm#51345",
    "vllm-project/vllm#42221 vllm-project/vllm#42223",
    "vllm-project/vllm#53959",
    "vllm-project/vllm-omni#5593",
    "vllm-project/vllm-omni#4734",
    "buildkite/agent#715 buildkite/agent#927",
    "buildkite-plugins/monorepo-diff#26",
    "elastic/kibana#268212 solana-labs/solana#32568 sourcegraph/sourcegraph#40235 buildkite-plugins/monorepo-diff#83",
    "buildkite/pipeline-schema#68",
    "vllm-project/ci-infra#585",
    "vllm-project/ci-infra#442 vllm-project/ci-infra#500 vllm-project/ci-infra#512 vllm-project/ci-infra#520",
    "vllm-project/ci-infra#450 vllm-project/vllm#51046",
    "pytorch/pytorch#64902 pytorch/pytorch#64921",
    "aspect-cli#1257 tj-actions/changed-files#737 tj-actions/changed-files#797",
    "camunda-platform-helm#6631",
    "buildkite/agent#803 buildkite/agent#2774 buildkite/docs#1607",
    "buildkite/agent#1099",
    "buildkite/agent#619",
    "buildkite/agent-stack-k8s#575",
    "buildkite/agent-stack-k8s#203 buildkite/agent-stack-k8s#251 buildkite-plugins/docker-buildkite-plugin#104",
    "vllm-project/vllm-omni#7118",
    "vllm-project/vllm-omni#2008 compressed-tensors#720",
    "vllm-project/vllm-omni#6311",
    "vllm-project/vllm-omni#6175",
    "vllm-project/vllm-omni#7605",
    "vllm-project/vllm-omni#5994",
    "LMCache#3816 hao-ai-lab/FastVideo#1571",
    "buildkite/agent#695",
]
# Seen in code only: no report has a number for it.
FROM_CODE = (
    "vllm-project/vllm: tests/utils.py",
    "vllm-project/vllm-omni@01eb2298: the nested quotes of Qwen Image Test",
    "vllm-project/vllm-omni: row G4 of its skip table",
    "vllm-project/vllm-omni: the log of its LoRA step",
)


@pytest.fixture
def reports(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("field_reports")


@pytest.fixture
def carried(reports):
    return {row.report for row in reports.reproduced()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split()[0])
def test_a_row_is_held_or_says_why_not(row, reports, carried):
    names = set(row.split())
    stood_for = {other for name in names & carried for other in reports.REPORTED_TOO.get(name, ())}
    assert names - carried - stood_for <= set(reports.NOT_OURS)


def test_what_was_read_in_code_has_its_test(reports):
    assert set(FROM_CODE) == set(reports.READ_IN_CODE)
    assert sorted(row[0] for row in reports.table()[1] if row[0] in FROM_CODE) == sorted(FROM_CODE)


def test_the_lists_hold_nothing_that_is_not_so(reports, carried):
    assert set(reports.REPORTED_TOO) <= carried, "listed beside a test that is not there"
    others = [other for found in reports.REPORTED_TOO.values() for other in found]
    assert len(others) == len(set(others))
    assert not set(others) & carried, "has a test of its own"
    assert not set(reports.NOT_OURS) & (carried | set(others))
    assert all(reports.NOT_OURS.values()), "a reason is missing"

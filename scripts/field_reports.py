"""The public bug reports that tests reproduce: read from the tests' names, with what else reports the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# How a test's name writes a tracker, and how people do. A name that is not here is no report.
TRACKERS = {
    "afd_plugin": "vllm-project/afd-plugin",
    "agent": "buildkite/agent",
    "agent_stack_k8s": "buildkite/agent-stack-k8s",
    "aspect": "aspect-cli",
    "autoharness": "tigerless-labs/autoharness",
    "caikit": "caikit/caikit",
    "camunda": "camunda-platform-helm",
    "coveragepy": "coveragepy/coveragepy",
    "crawlee": "apify/crawlee-python",
    "ctapipe": "cta-observatory/ctapipe",
    "cupy": "cupy/cupy",
    "docker_plugin": "buildkite-plugins/docker-buildkite-plugin",
    "docs": "buildkite/docs",
    "fastvideo": "hao-ai-lab/FastVideo",
    "flashinfer": "AMD-Ecosystem/flashinfer",
    "gpt_neox": "EleutherAI/gpt-neox",
    "granite_switch": "generative-computing/granite-switch",
    "hupper": "Pylons/hupper",
    "infra": "vllm-project/ci-infra",
    "isaac_groot": "NVIDIA/Isaac-GR00T",
    "kibana": "elastic/kibana",
    "kirocrew": "kirodotdev/KiroCrew",
    "lmcache": "LMCache",
    "monorepo_diff": "buildkite-plugins/monorepo-diff",
    "nemo_rl": "NVIDIA-NeMo/RL",
    "opensre": "Tracer-Cloud/opensre",
    "pg_lake": "Snowflake-Labs/pg_lake",
    "picireny": "renatahodovan/picireny",
    "pipeline_schema": "buildkite/pipeline-schema",
    "pytest": "pytest-dev/pytest",
    "pytest_cov": "pytest-dev/pytest-cov",
    "pytest_split": "jerry-git/pytest-split",
    "pytest_timeout": "pytest-dev/pytest-timeout",
    "pytest_xdist": "pytest-dev/pytest-xdist",
    "pytorch": "pytorch/pytorch",
    "ray": "ray-project/ray",
    "rocm_libraries": "ROCm/rocm-libraries",
    "scrapy": "scrapy/scrapy",
    "sglang": "sgl-project/sglang",
    "soup": "MakazhanAlpamys/Soup",
    "swarmui": "mcmonkeyprojects/SwarmUI",
    "tensorrt_llm": "NVIDIA/TensorRT-LLM",
    "torch_xpu_ops": "intel/torch-xpu-ops",
    "torchrec": "meta-pytorch/torchrec",
    "trinity_rft": "agentscope-ai/Trinity-RFT",
    "triton": "triton-lang/triton",
    "triton_cli": "triton-inference-server/triton_cli",
    "vllm": "vllm-project/vllm",
    "vllm_omni": "vllm-project/vllm-omni",
}
REPORT = re.compile(
    rf"^\s*def test_(?P<repo>{'|'.join(TRACKERS)})(?P<number>\d+)_(?P<what>\w+)", re.MULTILINE
)
# A report that a test carries → reports of the same thing, for which the test stands too.
REPORTED_TOO: dict[str, tuple[str, ...]] = {
    "coveragepy/coveragepy#2076": (
        "coveragepy/coveragepy#2078",
        "scrapy/scrapy#7137",
        "cta-observatory/ctapipe#2882",
    ),
    "cupy/cupy#9584": ("AMD-Ecosystem/flashinfer#183",),
    "intel/torch-xpu-ops#3502": ("pytorch/pytorch#178496",),
    "jerry-git/pytest-split#61": ("jerry-git/pytest-split#108", "jerry-git/pytest-split#26"),
    "pytest-dev/pytest#13400": ("apify/crawlee-python#1892", "Snowflake-Labs/pg_lake#224"),
    "pytest-dev/pytest#2781": ("pytest-dev/pytest#12166", "pytest-dev/pytest#14127"),
    "pytest-dev/pytest-cov#715": (
        "renatahodovan/picireny#58",
        "Pylons/hupper#6",
        "coveragepy/coveragepy#1307",
        "coveragepy/coveragepy#1599",
    ),
    "elastic/kibana#268212": ("solana-labs/solana#32568", "sourcegraph/sourcegraph#40235"),
    "NVIDIA-NeMo/RL#3422": ("AdamGleave/pytest-shard#6", "vllm-project/vllm-omni#7706", "omnigent#138"),
    "aspect-cli#1257": ("tj-actions/changed-files#737", "tj-actions/changed-files#797"),
    "vllm-project/ci-infra#450": ("vllm-project/vllm#51046",),
    "vllm-project/vllm-omni#2008": ("compressed-tensors#720",),
    "pytest-dev/pytest-timeout#134": ("pytest-dev/pytest-timeout#159",),
    "pytest-dev/pytest-xdist#520": ("pytest-dev/pytest-xdist#760",),
    "pytorch/pytorch#95073": (
        "pytorch/pytorch#122815",
        "NVIDIA/Isaac-GR00T#765",
        "MakazhanAlpamys/Soup#1128",
    ),
    "ray-project/ray#52701": (
        "ray-project/ray#51104",
        "ray-project/ray#53737",
        "vllm-project/vllm#12572",
    ),
    "triton-lang/triton#11831": ("ROCm/rocm-libraries#11898",),
    "vllm-project/vllm#27576": (
        "triton-inference-server/triton_cli#101",
        "NVIDIA/TensorRT-LLM#9343",
    ),
    "vllm-project/vllm#32040": ("vllm-project/vllm#55638",),
    "vllm-project/vllm#41848": (
        "vllm-project/vllm#13815",
        "vllm-project/vllm#46132",
        "pytorch/pytorch#92315",
    ),
    "vllm-project/vllm#47446": (
        "vllm-project/vllm#50638",
        "vllm-project/vllm#28965",
        "vllm-project/vllm#3557",
        "EleutherAI/gpt-neox#1132",
    ),
    "vllm-project/vllm#49242": ("vllm-project/vllm#43023", "vllm-project/vllm#47536"),
    "vllm-project/vllm#53840": ("vllm-project/vllm#53813",),
    "vllm-project/vllm-omni#2024": ("vllm-project/vllm-omni#2025", "vllm-project/vllm-omni#4132"),
    "vllm-project/vllm-omni#3683": ("vllm-project/vllm-omni#2768", "vllm-project/vllm-omni#3725"),
}
# What was found by reading code, where nobody has reported it → the test that holds it.
READ_IN_CODE = {
    "vllm-project/vllm: tests/utils.py": "test_vllm_skip_in_a_child_is_a_skip_with_its_reason",
    "vllm-project/vllm-omni@01eb2298: the nested quotes of Qwen Image Test": "test_omni01eb2298_qwen_image_nested_quotes_"
    "lose_the_marks_and_the_run_level",
    "vllm-project/vllm-omni: row G4 of its skip table": "test_vllm_omni_skip_ci_g4_cuda_ready_and_amd_merge_run_both",
    "vllm-project/vllm-omni: the log of its LoRA step": "test_vllm_omni_lora_an_artifact_written_after_a_cd_is_found",
}
# A report that we know of and do not reproduce → why.
NOT_OURS = {
    "vllm-project/vllm#34994": "named in #53840 and #53813 as the same complaint; its own text was not read, so nothing "
    "is claimed about it",
}


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A test that reproduces a report."""

    report: str
    holds: str
    path: str


def reproduced() -> list[Reproduced]:
    """Return every test that carries a report, by report."""
    return sorted(_reproduced(), key=lambda row: (row.report, row.holds, row.path))


def table() -> tuple[list[str], list[list[str]]]:
    """Return the tests that carry a report, and what else it was reported as."""
    return ["public report", "also reported as", "what our test holds", "test file"], [
        [row.report, ", ".join(REPORTED_TOO.get(row.report, ())) or "–", row.holds, f"`{row.path}`"]
        for row in [*reproduced(), *_read_in_code()]
    ]


def not_ours() -> tuple[list[str], list[list[str]]]:
    """Return the reports that nothing reproduces, with the reason."""
    return ["public report", "why no test carries it"], [[report, why] for report, why in NOT_OURS.items()]


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def _reproduced() -> Iterator[Reproduced]:
    for path, text in _texts():
        for match in REPORT.finditer(text):
            report = f"{TRACKERS[match['repo']]}#{match['number']}"
            yield Reproduced(report, match["what"].replace("_", " "), path)


def _read_in_code() -> Iterator[Reproduced]:
    for path, text in _texts():
        for source, test in READ_IN_CODE.items():
            if re.search(rf"^def {test}\b", text, re.MULTILINE):
                yield Reproduced(source, test.removeprefix("test_").replace("_", " "), path)

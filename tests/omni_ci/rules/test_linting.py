"""A repository loaded as far as it can be, and all rules over it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from omni_ci.configuration import load_configuration
from omni_ci.rules.context import Context
from omni_ci.rules.discovery import rules
from omni_ci.rules.linting import chosen, findings, load_repository
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_hardware.errors import InputError

PRESETS = """\
schema: 1
skus:
  l4:
    {platform: cuda, sku: L4, template: k8s-spec, cards: [1, 2, 4], queue: l4-k8s, resource: nvidia.com/gpu}
  mi300:
    {platform: rocm, sku: MI300, template: k8s-patch, cards: [1], queue: mi300, resource: amd.com/gpu, runner: run.sh}
"""
NAME = ".buildkite/cuda/test-ready.yml"


class Texts:
    """Files in memory."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.root = Path("/nowhere")

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def listed(self, folder: str) -> list[str]:
        return [path for path in self.files if path.rpartition("/")[0] == folder]


def asked_of(text: str, more: dict[str, str]) -> Context:
    files = Texts({NAME: text, ".buildkite/presets.yml": PRESETS, **more})
    return Context(
        files=files,
        names=frozenset(files.files),
        pipelines=(load_pipeline(text, name=NAME),),
        configurations={NAME: load_configuration(files, [NAME])},
        judged={NAME},
    )


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def test_a_step_with_an_unknown_preset_hides_nothing_of_the_others(tmp_path):
    """Two NPU presets that no registry has: the other steps still get their hardware from their marks."""
    steps = (
        "steps:\n- group: G\n  steps:\n"
        "  - {label: A, mirror_hardwares: a5_npu_2, commands: [pytest a]}\n"
        "  - {label: B, commands: [\"pytest b -m 'cuda and L4 and cards_2'\"]}\n"
        "- {label: C, commands: [\"pytest c -m 'cuda and L4'\"]}\n"
    )
    write(tmp_path, {NAME: steps, ".buildkite/presets.yml": PRESETS})
    context = load_repository(tmp_path).context
    assert [job.hardware for job in context.jobs] == ["its machine", "l4_2", "its machine"]
    assert [bool(job.problem) for job in context.jobs] == [True, False, False]
    assert [problem.where.line for problem in context.refused[NAME]] == [6]


def test_every_broken_file_is_told_at_once(tmp_path):
    write(tmp_path, {NAME: "steps: []\n", ".buildkite/amd/test-ready.yml": "step: 1\n"})
    with pytest.raises(LoadError) as caught:
        load_repository(tmp_path)
    assert {problem.where.file for problem in caught.value.problems} == {
        NAME,
        ".buildkite/amd/test-ready.yml",
    }


def test_a_folder_that_is_no_repository_is_walked(tmp_path):
    write(tmp_path, {NAME: "steps:\n- {label: A, commands: [x]}\n", "omni/a.py": "", ".venv/lib/b.py": ""})
    assert load_repository(tmp_path).context.names == {NAME, "omni/a.py"}


def test_codes_are_chosen_whatever_their_case():
    assert [rule.code for rule in chosen(["ci002", "CI001"], [])] == ["CI001", "CI002"]
    assert [rule.code for rule in chosen([], list(rules())[1:])] == ["CI001"]
    with pytest.raises(InputError, match="no rule 'CI01'"):
        chosen(["CI01"], [])


def test_findings_come_by_place_and_each_once(tmp_path):
    steps = (
        "steps:\n- {label: B, commands: [pytest gone.py gone.py]}\n- {label: A, commands: [pytest gone.py]}\n"
    )
    write(tmp_path, {NAME: steps})
    found = findings(load_repository(tmp_path).context, chosen(["CI007", "CI201"], []))
    assert [(one.line, one.code) for one in found] == [(2, "CI007"), (2, "CI201"), (3, "CI007"), (3, "CI201")]


shell = st.lists(
    st.sampled_from(
        [
            "pytest",
            "tests/test_a.py",
            "|",
            "tee",
            "a.log",
            "&&",
            "||",
            ";",
            "&",
            "(",
            ")",
            "{",
            "}",
            "'",
            '"',
            "\\",
            "\n",
            "$(",
            "`",
            "-m",
            "cuda",
            "and",
            "not",
            "--",
            "timeout",
            "5m",
            "-k",
            "bash",
            "-c",
            "export",
            "X=$(f)",
            "X=1",
            "cd",
            "/app",
            "set",
            "+e",
            "set",
            "-e",
            "wait",
            "trap",
            "ERR",
            "exit",
            "0",
            ">",
            ">>",
            "2>&1",
            "$$X",
            "${Y}",
            "--cov",
            "--cov-report=xml:c.xml",
            "scripts/run_cov_split.sh",
            "--model-id",
            "--offline",
            "buildkite-agent",
            "artifact",
            "upload",
            "if",
            "then",
            "fi",
            "<<E",
        ]
    ),
    max_size=14,
).map(" ".join)
some = st.text(max_size=8).filter(lambda text: text.strip())
keys = {
    "commands": st.lists(shell.filter(str.strip), min_size=1, max_size=3),
    "artifact_paths": st.lists(some, max_size=2),
    "plugins": st.sampled_from(
        [[{"docker#v5": None}], [{"docker#v5": {"volumes": [1]}}], [{"kubernetes": {"podSpec": 1}}], ["x"]]
    ),
    "retry": st.sampled_from([{"automatic": [{}]}, {"automatic": {"exit_status": [1]}}, {}]),
    "soft_fail": st.sampled_from([True, [{"exit_status": 1}]]),
    "matrix": st.sampled_from([["a"], {"setup": {"x": ["1"]}}]),
    "parallelism": st.integers(1, 3),
    "env": st.dictionaries(st.sampled_from(["A", "HF_TOKEN"]), st.text(max_size=3)),
    "source_file_dependencies": st.lists(st.sampled_from(["tests/", "omni", "!omni/x", "gone"]), min_size=1),
}
steps = st.fixed_dictionaries(
    {"commands": keys["commands"]}, optional={key: value for key, value in keys.items() if key != "commands"}
)


@given(
    st.lists(steps, min_size=1, max_size=3),
    st.text(max_size=60),
    st.sampled_from([None, "l4_1", "mi300_1", "none_1"]),
)
def test_no_pipeline_breaks_a_rule(made, python, preset):
    for step in made:
        if preset and "plugins" not in step:
            step["mirror_hardwares"] = preset
    text = yaml.safe_dump({"steps": made}, allow_unicode=True)
    try:
        context = asked_of(text, {"tests/test_a.py": python, "pyproject.toml": "tool = 1"})
    except LoadError:
        return
    for finding in findings(context, rules().values()):
        assert finding.message.strip()
        assert finding.line >= 1

from __future__ import annotations

import pytest

from omni_ci.hardware.presets import load_presets
from omni_ci.yaml.loading import LoadError
from omni_hardware.errors import InputError
from omni_hardware.project import extend

BLOCK = {
    "platform": "rocm",
    "sku": "MI300",
    "template": "k8s-patch",
    "cards": "[1, 2, 4, 8]",
    "queue": '"amd_mi300_{cards}"',
    "resource": "amd.com/gpu",
    "image": '"registry.example/omni-rocm:$BUILDKITE_COMMIT"',
}


def block(**changes: str | None) -> str:
    rows = {**BLOCK, **changes}
    body = "".join(f"    {key}: {value}\n" for key, value in rows.items() if value is not None)
    return f"schema: 1\nskus:\n  mi300:\n{body}"


def test_a_block_makes_one_preset_a_card_count() -> None:
    presets = load_presets(block(), name="presets.yml")
    assert list(presets.by_name) == ["mi300_1", "mi300_2", "mi300_4", "mi300_8"]
    found = presets.find("mi300_4", at="x.yml:1")
    assert (found.cards, found.queue, found.platform) == (4, "amd_mi300_4", "rocm")
    assert found.image == "registry.example/omni-rocm:$BUILDKITE_COMMIT"
    assert found.where.line == 3  # where its block's name stands


def test_the_schema_need_not_be_written() -> None:
    text = block().removeprefix("schema: 1\n")
    assert list(load_presets(text, name="p.yml").by_name) == ["mi300_1", "mi300_2", "mi300_4", "mi300_8"]
    with pytest.raises(LoadError, match=r"p\.yml:1:1: schema is 2; it must be 1"):
        load_presets("schema: 2\n" + text, name="p.yml")


def test_a_preset_stands_where_its_name_is_written() -> None:
    text = "skus:\n  one: &one\n    platform: cuda\n    sku: L4\n    template: docker\n    cards: [1]\n    queue: q\n"
    text += "    image: i\n  two: *one\nfragments:\n  three:\n    image: i\n"
    presets = load_presets(text, name="p.yml")
    lines = {name: preset.where.line for name, preset in presets.by_name.items()}
    assert lines == {"one_1": 2, "two_1": 9, "three": 11}
    assert presets.places["two_1"] == "p.yml:9"
    assert presets.places["mi300_1"].startswith("omni_ci/data/presets.yml:")


def test_two_blocks_of_one_sku_have_names_of_their_own() -> None:
    text = (
        block()
        + "  mi300_docker: {platform: rocm, sku: MI300, template: docker, cards: [1], queue: q, image: i}\n"
    )
    assert "mi300_docker_1" in load_presets(text, name="presets.yml").by_name


def test_an_unknown_preset_names_the_place_the_nearest_and_the_file() -> None:
    presets = load_presets(block(), name="presets.yml")
    with pytest.raises(
        InputError, match=r"a\.yml:7: unknown preset 'mi300_3' \(did you mean 'mi300_\d'\?\).*presets\.yml"
    ):
        presets.find("mi300_3", at="a.yml:7")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"platform": "rokm"},
            r"p\.yml:4:5: skus\.mi300\.platform: unknown platform 'rokm' \(did you mean 'rocm'\?\)",
        ),
        (
            {"sku": "MI3000"},
            r"p\.yml:5:5: skus\.mi300\.sku: unknown SKU 'MI3000' of platform 'rocm' \(did you mean 'MI300'",
        ),
        ({"sku": "L4"}, r"unknown SKU 'L4' of platform 'rocm'"),
        (
            {"sku": "RTX6000"},
            r"\(known: MI250, MI300, MI325, MI355\); a SKU of your own goes into \[tool\.omni\.skus\] rocm of pyproject\.toml",
        ),
        ({"platform": "cpu", "sku": "any"}, "unknown platform 'cpu'"),
        ({"cards": "[1, 17]"}, r"p\.yml:7:16: skus\.mi300\.cards: 17 is not among 1…16"),
        ({"cards": "[]"}, "cards is empty"),
        ({"cards": "[2, 2]"}, "a card count stands here twice"),
        ({"cards": "[one]"}, "must be a whole number"),
        ({"queue": '"q_{n}"'}, r"unknown placeholder \{n\}; \{cards\} is the only one"),
        ({"shm": "16GB"}, "'16GB' is no Kubernetes quantity"),
        ({"per_card": "{memory: lots}"}, "'lots' is no Kubernetes quantity"),
        ({"env": "{A: true}"}, "true is a bool here; quote"),
        ({"env": "{VLLM_CI_EXPECTED_GPU_COUNT: 4}"}, "is set by the pod template"),
        ({"env": '{"A B": x}'}, "'A B' is no name of an environment variable"),
        ({"secrets": "{HF_TOKEN: token}"}, "write the secret as `name/key`"),
        ({"env": "{T: x}", "secrets": "{T: a/b}"}, "T is under `env:` and under `secrets:`"),
        ({"resource": None}, "template k8s-patch needs `resource:`"),
        ({"template": "docker", "image": None}, "template docker needs `image:`"),
        ({"agents": '{pool: "p-{card}"}'}, r"unknown placeholder \{card\}"),
        ({"annotations": '{a: "{n}"}'}, r"unknown placeholder \{n\}"),
        ({"hf_cache": '{host: "/m/{n}", mount: /m}'}, r"unknown placeholder \{n\}"),
        ({"node_selector": "{a: on, b: true}"}, "b: true is a bool here; quote"),
        ({"shm": "1Gi", "per_card": "{shm: 1Gi}"}, "shm is given twice"),
        ({"secrets": "{HF_TOKEN: a/b/c}"}, "write the secret as `name/key`"),
        (
            {"env": "{HF_TOKEN: hf_abcdefgh}"},
            "HF_TOKEN is a secret, and this text is uploaded; write `HF_TOKEN: name/key`",
        ),
        ({"job_env": '{HF_TOKEN: "$HF_TOKEN"}'}, "HF_TOKEN is a secret, and this text is uploaded"),
        ({"env": "{A: 1}", "job_env": "{A: 1}"}, "A is under `env:` and under `job_env:`; keep one"),
        ({"job_env": "{T: x}", "secrets": "{T: a/b}"}, "T is under `job_env:` and under `secrets:`"),
        ({"env": "{OMNI_COMMANDS: x}"}, "OMNI_COMMANDS is set from a step's commands"),
        ({"job_env": "{VLLM_CI_DOCKER_DISABLED: 0}"}, "VLLM_CI_DOCKER_DISABLED is set by the pod template"),
        ({"runner": "/bin/run.sh"}, "'/bin/run.sh' is no path of a script from the repository's root"),
        ({"runner": "a/../../run.sh"}, "is no path of a script"),
        ({"runner": '"run.sh; rm"'}, "is no path of a script"),
        ({"test_commands": "true"}, "`test_commands:` is for a `runner:` that reads them"),
        ({"required_env": "[A B]"}, "'A B' is no name of an environment variable"),
        ({"depends_on": '"{image}"'}, r"unknown placeholder \{image\}"),
        ({"priority": "high"}, "must be a whole number"),
        ({"template": "k8s-class"}, "template k8s-class needs `resource_class:`"),
        (
            {"template": "k8s-class", "resource_class": "c", "image": None},
            "template k8s-class needs `image:`",
        ),
        ({"qeue": "x"}, r"unknown key \(did you mean 'queue'\?\)"),
        ({"hf_cache": "{host: mnt, mount: /m}"}, "hf_cache.host"),
    ],
)
def test_a_bad_block_is_refused_at_its_place(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        load_presets(block(**changes), name="p.yml")


def test_numbers_stay_as_they_are_written() -> None:
    changes = dict.fromkeys(("env", "agents"), "{A: 1.10, B: 1e3, C: '1.20', <<: *more}")
    text = "x-more: &more {D: 1.30, A: 9}\n" + block(
        **changes, node_selector="{k8s: 1.30}", annotations="{n: 010}"
    )
    row = load_presets(text, name="p.yml").by_name["mi300_1"].row
    for name in changes:
        assert getattr(row, name) == {"A": "1.10", "B": "1e3", "C": "1.20", "D": "1.30"}
    assert row.node_selector == {"k8s": "1.30"}  # type: ignore[union-attr]
    assert row.annotations == {"n": "010"}  # type: ignore[union-attr]


def test_braces_that_are_no_placeholder_pass() -> None:
    text = block(env="""{J: '{"a": {"b": 1}}', B: '${cards}', T: '{{matrix}}', E: '{}', R: 'a{3}'}""")
    preset = load_presets(text, name="p.yml").by_name["mi300_2"]
    assert preset.filled(preset.row.env) == preset.row.env  # type: ignore[union-attr]


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(LoadError) as refused:
        load_presets(block(platform="rokm", cards="[33]", shm="x", queue='"{n}"'), name="p.yml")
    assert len(refused.value.problems) == 4


def test_a_project_may_add_skus_of_its_own() -> None:
    text = block(platform="cuda", sku="GB300")
    with pytest.raises(LoadError, match="unknown SKU 'GB300'"):
        load_presets(text, name="p.yml")
    vocabulary = extend({"skus": {"cuda": ["GB300"]}}, source="pyproject.toml")
    assert "mi300_1" in load_presets(text, name="p.yml", vocabulary=vocabulary).by_name


def test_an_older_file_loads_as_fragments_and_says_so() -> None:
    text = """
x-retry: &retry {automatic: [{exit_status: -1, limit: 1}]}
mirror_hardwares:
  h100_2: {agents: {queue: pool}, retry: *retry, plugins: [{kubernetes: {podSpec: {}}}]}
  odd: {agents: {queue: pool}, image: x}
"""
    presets = load_presets(text, name="old.yml")
    assert presets.notices == ("old.yml: mirror_hardwares: is read as fragments:",)
    assert presets.by_name["h100_2"].cards == 2
    assert presets.by_name["odd"].cards is None


def test_a_fragment_must_not_take_the_name_of_a_generated_preset() -> None:
    text = block() + "fragments:\n  mi300_2: {image: x}\n"
    with pytest.raises(LoadError, match=r"p\.yml:\d+:\d+: preset 'mi300_2' is already made by line 3"):
        load_presets(text, name="p.yml")


def test_an_unknown_key_of_a_fragment_is_refused() -> None:
    with pytest.raises(LoadError, match=r"unknown key.*did you mean 'plugins'"):
        load_presets("schema: 1\nfragments:\n  a: {plugin: []}\n", name="p.yml")

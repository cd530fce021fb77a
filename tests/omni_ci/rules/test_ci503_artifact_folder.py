from __future__ import annotations

STEP = "- {{label: LoRA, artifact_paths: [{declared}], commands: [{commands}]}}"


def test_vllm_omni_lora_an_artifact_written_after_a_cd_is_found(found):
    commands = "cd /app/vllm-omni, pytest tests 2>&1 | tee lora-server.log"
    assert found("CI503", STEP.format(declared="lora-server.log", commands=commands)) == [
        "step 'LoRA': writes lora-server.log in /app/vllm-omni, and artifact_paths looks for it in the checkout"
    ]


def test_a_cd_of_the_presets_setup_counts(found):
    presets = """\
        schema: 1
        skus:
          mi300: {platform: rocm, sku: MI300, template: k8s-patch, cards: [1], queue: q, resource: amd.com/gpu,
                  runner: run.sh, setup: [cd /app]}
    """
    amd = "steps:\n- {label: A, mirror_hardwares: mi300_1, artifact_paths: '*.log', commands: [pytest a > a.log]}\n"
    files = {".buildkite/presets.yml": presets, ".buildkite/amd/test-ready.yml": amd, "run.sh": "bash -c x\n"}
    assert found("CI503", "", files) == [
        "step 'A': writes a.log in /app, and artifact_paths looks for it in the checkout"
    ]
    assert found("CI503", "", files | {"run.sh": 'exec omni-ci exec "$@"\n'}) == []


def test_a_named_folder_a_subshell_and_a_file_for_the_checkout_are_fine(found):
    for declared, commands in (
        ("tests/r.xml", "cd tests, pytest --junitxml=r.xml"),
        ("r.xml", "(cd tests && make), pytest --junitxml=r.xml"),
        ("r.xml", "cd /app, pytest --junitxml=r.xml, cp r.xml $$BUILDKITE_BUILD_CHECKOUT_PATH/"),
        ("other.xml", "cd /app, pytest --junitxml=r.xml"),
    ):
        assert found("CI503", STEP.format(declared=declared, commands=commands)) == []

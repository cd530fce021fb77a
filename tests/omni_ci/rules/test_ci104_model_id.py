from __future__ import annotations

import pytest

STEPS = '- {{label: A, commands: ["scripts/run_cov_split.sh --model-id {name} --offline tests/a.py"]}}'
FILES = {"omni/models/bagel/x.py": "", "omni/diffusion/models/z_image.py": ""}


def test_a_model_that_is_not_here_is_told_with_the_nearest(found):
    assert found("CI104", STEPS.format(name="bagle"), FILES) == [
        "step 'A': --model-id 'bagle' is no model here (did you mean 'bagel'?)"
    ]


def test_a_name_that_would_be_a_pattern_is_found(found):
    assert found("CI104", STEPS.format(name="Bagel*"), FILES) == [
        "step 'A': --model-id 'Bagel*': only a-z, 0-9 and _"
    ]


def test_the_policys_list_wins_over_the_folders(found):
    policy = {".buildkite/policy.yml": "schema: 1\ncoverage: {model_ids: [z_image]}\n"}
    assert found("CI104", STEPS.format(name="z_image"), policy) == []
    assert found("CI104", STEPS.format(name="zimage"), policy) == [
        "step 'A': --model-id 'zimage' is no model here (did you mean 'z_image'?)"
    ]


@pytest.mark.parametrize("name", ["bagel", "z_image", "$$MODEL"])
def test_a_folder_a_module_and_what_only_run_time_knows_are_fine(found, name):
    assert found("CI104", STEPS.format(name=name), FILES) == []

from __future__ import annotations

FOUR = """\
from pytest_omni import hardware_test

@hardware_test(res={"cuda": "L4"}, num_cards=4)
def test_parallel(): pass

@hardware_test(res={"cuda": "L4"})
def test_single(): pass
"""
RUN = "scripts/run_cov_split.sh --model-id z_image --online tests/test_z.py"


def test_vllm53840_a_test_that_needs_more_cards_than_its_step_has_is_found(asked):
    """A test for four GPUs ran in a job with two: skipped in green, for months."""
    steps = "- {label: TP, mirror_hardwares: l4_2, commands: [pytest tests/test_z.py]}"
    (one,) = asked("CI301", steps, {"tests/test_z.py": FOUR})
    assert one.message == (
        "step 'TP': selects test_parallel of tests/test_z.py, which needs cuda L4×4, and l4_2 has 2: always skipped"
    )
    assert one.key == "tests/test_z.py"


def test_vllm53840_another_projects_way_to_ask_for_cards_is_read_too(found):
    """The decorator and the skipif of the report itself, without this plugin."""
    files = {
        "tests/test_z.py": (
            "import pytest, torch\nfrom .utils import multi_gpu_test\n"
            "@multi_gpu_test(num_gpus=4)\ndef test_a(): pass\n"
            "@pytest.mark.skipif(torch.cuda.device_count() < 4, reason='x')\ndef test_b(): pass\n"
            "@pytest.mark.skipif(torch.cuda.device_count() < 2, reason='x')\ndef test_c(): pass\n"
        )
    }
    steps = "- {label: TP, mirror_hardwares: l4_2, commands: [pytest tests/test_z.py]}"
    assert found("CI301", steps, files) == [
        "step 'TP': selects test_a, test_b of tests/test_z.py, which needs 4 cards, and l4_2 has 2: always skipped"
    ]


def test_vllm_omni5593_a_coverage_step_must_give_the_cards_itself(found):
    """The online half wanted four cards on l4_1: the job was green, and its coverage report empty."""
    steps = f"""
        - {{label: Coverage, mirror_hardwares: l4_1, commands: ["{RUN}"]}}
        - {{label: Plain, mirror_hardwares: l4_4, commands: [pytest tests/test_z.py]}}
    """
    assert found("CI301", steps, {"tests/test_z.py": FOUR}) == [
        (
            "step 'Coverage': selects test_parallel of tests/test_z.py, which needs cuda L4×4, and l4_1 has 1: "
            "always skipped; its coverage report would be empty of them"
        )
    ]


def test_where_another_step_gives_the_cards_or_nothing_selects_the_test_all_is_fine(found):
    steps = """
        - {label: One, mirror_hardwares: l4_1, commands: [pytest tests/test_z.py]}
        - {label: Four, mirror_hardwares: l4_4, commands: [pytest tests/test_z.py]}
    """
    assert found("CI301", steps, {"tests/test_z.py": FOUR}) == []
    steps = "- {label: One, mirror_hardwares: l4_1, commands: [\"pytest tests/test_z.py -m 'not cards_4'\"]}"
    assert found("CI301", steps, {"tests/test_z.py": FOUR}) == []


def test_hardware_that_nobody_knows_is_not_judged(found):
    steps = "- {label: One, agents: {queue: big}, commands: [pytest tests/test_z.py]}"
    assert found("CI301", steps, {"tests/test_z.py": FOUR}) == []


def test_tests_that_two_runs_of_a_step_select_are_told_once(found):
    many = "from pytest_omni import hardware_test\n" + "".join(
        f'\n@hardware_test(res={{"cuda": "L4"}}, num_cards=4)\ndef test_{letter}(): pass\n'
        for letter in "abcd"
    )
    steps = "- {label: TP, mirror_hardwares: l4_2, commands: [pytest tests/test_z.py, pytest tests]}"
    assert found("CI301", steps, {"tests/test_z.py": many}) == [
        (
            "step 'TP': selects test_a, test_b, test_c and 1 more of tests/test_z.py, which needs cuda L4×4, "
            "and l4_2 has 2: always skipped"
        )
    ]

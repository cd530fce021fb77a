"""Which shard of how many: from flags or from Buildkite, and what is said about numbers that cannot be."""

from __future__ import annotations

import pytest

from omni_hardware.errors import InputError
from pytest_omni.options import Settings
from pytest_omni.sharding.asking import asked

AUTO = Settings(shard="auto")


def buildkite(job: str, count: str) -> dict[str, str]:
    return {"BUILDKITE_PARALLEL_JOB": job, "BUILDKITE_PARALLEL_JOB_COUNT": count}


@pytest.mark.parametrize(
    ("flags", "settings", "environ", "expected"),
    [
        ((0, 1), Settings(), {}, (0, 1)),
        ((3, 4), Settings(), {}, (3, 4)),
        pytest.param((0, 1), Settings(), buildkite("1", "4"), (0, 1), id="not asked for auto"),
        pytest.param((0, 1), AUTO, buildkite("3", "4"), (3, 4), id="auto"),
    ],
)
def test_flags_or_buildkite_name_the_shard(
    flags: tuple[int, int], settings: Settings, environ: dict[str, str], expected: tuple[int, int]
) -> None:
    found = asked(*flags, settings, environ)

    assert (found.shard, found.shards) == expected
    assert found.divides == (expected[1] > 1)


@pytest.mark.parametrize(
    ("flags", "settings", "environ", "message"),
    [
        ((4, 4), Settings(), {}, "--shard-id 4 of --num-shards 4: shards are counted from 0, give 0 to 3"),
        ((1, 1), Settings(), {}, "--shard-id 1 of --num-shards 1: shards are counted from 0, give 0 to 0"),
        ((0, 0), Settings(), {}, "--num-shards 0: needs at least 1 shard"),
        ((1, 4), AUTO, buildkite("1", "4"), "leave --shard-id and --num-shards out"),
        (
            (0, 1),
            AUTO,
            {},
            "--shard auto: BUILDKITE_PARALLEL_JOB is not set and BUILDKITE_PARALLEL_JOB_COUNT is not set;",
        ),
        ((0, 1), AUTO, buildkite("x", "4"), "BUILDKITE_PARALLEL_JOB is 'x', not a number;"),
        (
            (0, 1),
            AUTO,
            buildkite("4", "4"),
            "BUILDKITE_PARALLEL_JOB 4 of BUILDKITE_PARALLEL_JOB_COUNT 4: shards are counted from 0, give 0 to 3",
        ),
    ],
)
def test_numbers_that_cannot_be_are_refused_with_the_range(
    flags: tuple[int, int], settings: Settings, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        asked(*flags, settings, environ)

    assert message in str(caught.value)


def test_a_plan_divides_even_into_one() -> None:
    assert asked(0, 1, Settings(shard_plan=True), {}).divides

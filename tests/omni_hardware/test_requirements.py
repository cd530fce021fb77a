from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InputError
from omni_hardware.mark_rules import conflicts
from omni_hardware.project import extend
from omni_hardware.requirement_checks import OPEN, call_problems, problems
from omni_hardware.requirements import Need, Requirement, build, from_marks, marks_on
from omni_hardware.vocabulary import ANY_SKU, DEFAULT

BOTH = build({"cuda": "L4", "rocm": "MI325"})
EVERYWHERE = build({"cpu": "any", "cuda": "L4", "rocm": "MI300"})
CPU = build({"cpu": "any"})


@pytest.mark.parametrize(
    ("need", "text"),
    [
        (Need(platform="cuda", skus=("H100",), cards=2), "cuda H100×2"),
        (Need(platform="cuda", skus=("H100",)), "cuda H100"),
        (
            Need(platform="cuda", skus=("L4", "A100"), min_memory_mib=40960),
            "cuda (L4 or A100) with ≥ 40 GiB",
        ),
        (
            Need(platform="cuda", skus=("L4", "A100"), cards=4, min_memory_mib=81559),
            "cuda (L4 or A100)×4 with ≥ 81559 MiB each",
        ),
        (
            Need(platform="cuda", skus=("H100",), cards=2, min_memory_mib=1024),
            "cuda H100×2 with ≥ 1 GiB each",
        ),
        (Need(platform="xpu"), "xpu"),
        (Need(platform="xpu", cards=2), "xpu×2"),
        (Need(platform="cpu", cards=0), "cpu"),
    ],
)
def test_a_need_reads_as_people_say_it(need, text):
    assert str(need) == text


def test_what_is_declared_is_what_is_required():
    requirement = build(
        {"cuda": ["L4", "A100"], "rocm": "MI300", "npu": "any", "cpu": "any"},
        num_cards={"cuda": 2, "npu": 8},
        min_memory={"cuda": "24GB"},
        expand="platform",
    )
    assert requirement == Requirement(
        (
            Need(platform="cuda", skus=("L4", "A100"), cards=2, min_memory_mib=22889),
            Need(platform="rocm", skus=("MI300",), cards=1),
            Need(platform="npu", skus=(), cards=8),
            Need(platform="cpu", skus=(), cards=0),
        ),
        expand=True,
    )
    assert requirement.platforms == ("cuda", "rocm", "npu", "cpu")
    assert not requirement.is_cpu_only
    assert str(build({"cuda": "L4", "cpu": "any"}, num_cards=2)) == "cuda L4×2 or cpu"


def test_one_number_and_one_size_are_for_every_platform_that_has_cards():
    requirement = build({"cpu": "any", "cuda": "H100", "rocm": "MI300"}, num_cards=4, min_memory="40GiB")
    assert [(need.cards, need.min_memory_mib) for need in requirement.needs] == [
        (0, None),
        (4, 40960),
        (4, 40960),
    ]


@pytest.mark.parametrize(
    ("requirement", "platform", "marks"),
    [
        (BOTH, "cuda", ("cuda", "L4", "gpu", "cards_1")),
        (BOTH, "rocm", ("rocm", "MI325", "gpu", "cards_1")),
        (BOTH, "xpu", ()),
        (BOTH, "cpu", ()),
        (build({"npu": ["A2", "A3"]}, num_cards=16), "npu", ("npu", "A2", "A3", "cards_16")),
        (build({"cuda": "any"}, num_cards=2), "cuda", ("cuda", "gpu", "cards_2")),
        (EVERYWHERE, "cpu", ("cpu",)),
        (EVERYWHERE, "rocm", ("rocm", "MI300", "gpu", "cards_1")),
        (EVERYWHERE, "xpu", ()),
        (CPU, "cpu", ("cpu",)),
        (CPU, "cuda", ("cpu",)),
        (CPU, "musa", ("cpu",)),
    ],
)
def test_the_marks_of_the_asked_platform_and_no_other(requirement, platform, marks):
    assert marks_on(requirement, platform) == marks
    need = requirement.on(platform)
    assert (need is None) == (marks == ())


def test_a_variant_keeps_one_need():
    requirement = build({"cuda": "L4", "rocm": "MI325"}, expand="platform")
    assert requirement.only("rocm") == Requirement((Need(platform="rocm", skus=("MI325",)),))
    assert requirement.only("rocm").on("cuda") is None


def test_a_platform_may_run_the_items_of_another():
    rows = [
        dataclasses.replace(row, runs_items_of=("cuda", "musa")) if row.name == "rocm" else row
        for row in DEFAULT.platforms
    ]
    words = dataclasses.replace(DEFAULT, platforms=tuple(rows))
    cuda = build({"cuda": "H100"}, num_cards=2, min_memory="40GiB")
    # an H100 says nothing about rocm devices; the cards and their memory do
    assert cuda.on("rocm", also=("cuda",)) == Need(platform="rocm", cards=2, min_memory_mib=40960)
    assert marks_on(cuda, "rocm", words) == ("rocm", "cuda", "gpu", "cards_2")
    assert marks_on(cuda, "cuda", words) == ("cuda", "H100", "gpu", "cards_2")
    assert marks_on(BOTH, "rocm", words) == ("rocm", "MI325", "gpu", "cards_1")
    assert marks_on(CPU, "rocm", words) == ("cpu",)
    assert marks_on(cuda, "xpu", words) == ()
    both = build({"musa": "S5000", "cuda": "H100"}, num_cards={"musa": 8})
    assert marks_on(both, "rocm", words) == ("rocm", "cuda", "gpu", "cards_1")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"cuda"}, "cuda"),
        ({"cuda", "gpu", "slow"}, "cuda"),
        ({"cuda", "rocm"}, "cuda or rocm"),
        ({"H100", "cards_2"}, "cuda H100×2"),
        ({"L4", "A100", "cuda", "cards_1"}, "cuda (L4 or A100)"),
        ({"npu", "cards_8"}, "npu×8"),
        ({"gpu"}, "cuda or rocm or xpu or musa"),
        ({"cpu"}, "cpu"),
        ({"cpu", "cards_4"}, "cpu"),
    ],
)
def test_marks_by_hand_are_requirements_too(names, text):
    assert str(from_marks(names)) == text


@pytest.mark.parametrize("names", [(), {"slow", "core_model"}, {"cards_2"}, {"any"}])
def test_without_a_platform_there_is_no_need(names):
    assert from_marks(names) is None


RES = [
    ({}, "res: names no platform (known: cuda, rocm, xpu, npu, musa, cpu)"),
    (None, "res: must map platforms to SKUs, as {'cuda': 'H100'}, not None"),
    ("MI300", "res: must map platforms to SKUs, as {'rocm': 'MI300'}, not a string"),
    (["cuda"], "res: must map platforms to SKUs, as {'cuda': 'H100'}, not a list"),
    ({"cude": "L4"}, "res: unknown platform 'cude' (did you mean 'cuda'?)"),
    ({"zzz": "L4"}, "res: unknown platform 'zzz' (known: cuda, rocm, xpu, npu, musa, cpu)"),
    ({"gpu": "L4"}, "res: 'gpu' is no platform; name each that the test runs on: cuda, rocm, xpu, musa"),
    ({"H100": 1}, "res: 'H100' is a SKU; write {'cuda': 'H100'}"),
    ({3: "L4"}, "res: 3 is a number, not the name of a platform"),
    ({"cuda": []}, "res['cuda']: an empty list; name a SKU, or 'any' for any device"),
    ({"cuda": ()}, "res['cuda']: an empty list; name a SKU, or 'any' for any device"),
    ({"cuda": None}, "res['cuda']: must be a SKU or a list of SKUs, not None"),
    ({"cuda": {"L4"}}, "res['cuda']: must be a SKU or a list of SKUs, not a set"),
    ({"cuda": [4]}, "res['cuda']: 4 is a number, not the name of a SKU"),
    ({"cuda": "H1000"}, "res['cuda']: unknown SKU 'H1000' (did you mean 'H100'?)"),
    ({"cuda": "h100"}, "res['cuda']: unknown SKU 'h100' (did you mean 'H100'?)"),
    ({"cuda": "MI300"}, "res['cuda']: 'MI300' is a SKU of rocm"),
    ({"cuda": "MI3000"}, "res['cuda']: unknown SKU 'MI3000' for cuda (did you mean 'MI300' of rocm?)"),
    ({"xpu": "zzz"}, "res['xpu']: unknown SKU 'zzz' (known: B60, any)"),
    ({"cuda": ["L4", "L4"]}, "res['cuda']: 'L4' is listed twice"),
    ({"cuda": ["L4", "any"]}, "res['cuda']: 'any' is every SKU; leave the others out"),
    ({"cpu": "epyc"}, "res['cpu']: cpu has no SKUs to tell apart; write 'any', not 'epyc'"),
]
CUDA = {"cuda": "L4"}
ARGUMENTS = [
    (CUDA, {"num_cards": True}, "num_cards: must be a whole number, not a boolean (True)"),
    (CUDA, {"num_cards": "2"}, "num_cards: must be a whole number, not a string ('2')"),
    (CUDA, {"num_cards": 1.0}, "num_cards: must be a whole number, not a number (1.0)"),
    (CUDA, {"num_cards": None}, "num_cards: must be a whole number, not None (None)"),
    (CUDA, {"num_cards": 0}, "num_cards: 0 cards; a test that needs no card names cpu"),
    (CUDA, {"num_cards": -1}, "num_cards: -1 cards; a test that needs no card names cpu"),
    (CUDA, {"num_cards": 17}, "num_cards: 17 has no mark cards_17 (known: cards_1 to cards_16)"),
    (CUDA, {"num_cards": {"cuda": 0}}, "num_cards['cuda']: 0 cards; a test that needs no card names cpu"),
    (CUDA, {"num_cards": {"cuda": True}}, "num_cards['cuda']: must be a whole number, not a boolean (True)"),
    (CUDA, {"num_cards": {"rocm": 2}}, "num_cards['rocm']: 'rocm' is not in res (known: cuda)"),
    (CUDA, {"num_cards": {"cude": 2}}, "num_cards['cude']: unknown platform 'cude' (did you mean 'cuda'?)"),
    ({"cpu": "any"}, {"num_cards": 2}, "num_cards: cpu has no cards; leave it out"),
    (
        {"cpu": "any", "cuda": "L4"},
        {"num_cards": {"cpu": 1}},
        "num_cards['cpu']: cpu has no cards; leave it out",
    ),
    (CUDA, {"min_memory": 40}, 'min_memory: 40 is no size of memory; write it as "40GiB"'),
    (
        CUDA,
        {"min_memory": {"cuda": "40"}},
        "min_memory['cuda']: '40' is no size of memory: it has no unit; write it as \"40GiB\"",
    ),
    (CUDA, {"min_memory": {"npu": "1GiB"}}, "min_memory['npu']: 'npu' is not in res (known: cuda)"),
    ({"cpu": "any"}, {"min_memory": "1GiB"}, "min_memory: cpu has no memory of its own; leave it out"),
    (CUDA, {"expand": True}, 'expand: must be "platform" or None, not True'),
    (
        CUDA,
        {"expand": "platforms"},
        "expand: must be \"platform\" or None, not 'platforms' (did you mean 'platform'?)",
    ),
    (CUDA, {"expand": []}, 'expand: must be "platform" or None, not []'),
]


@pytest.mark.parametrize(("res", "message"), RES)
def test_each_mistake_in_res_says_what_to_write(res, message):
    with pytest.raises(InputError) as caught:
        build(res)
    assert str(caught.value) == message


@pytest.mark.parametrize(("res", "more", "message"), ARGUMENTS)
def test_each_mistake_in_the_other_arguments_says_what_to_write(res, more, message):
    with pytest.raises(InputError) as caught:
        build(res, **more)
    assert str(caught.value) == message


def test_all_mistakes_come_at_once():
    with pytest.raises(InputError) as caught:
        build({"cude": "L4", "cuda": ["L5", "L4"]}, num_cards=0, min_memory="40", expand="both")
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "res",
        "res['cuda']",
        "num_cards",
        "min_memory",
        "expand",
    ]


def test_unknown_and_missing_arguments_are_named_beside_the_others():
    assert call_problems({"num_card": 2, "num_cards": 0}) == [
        "num_card: unknown argument (did you mean 'num_cards'?)",
        "res: missing; name a platform and a SKU, as res={'cuda': 'H100'}",
        "num_cards: 0 cards; a test that needs no card names cpu",
    ]


def test_the_projects_own_skus_count():
    words = extend({"skus": {"cuda": ["GB300"]}}, source="pyproject.toml")
    assert build({"cuda": "GB300"}, vocabulary=words).needs[0].skus == ("GB300",)
    with pytest.raises(InputError, match=r"unknown SKU 'GB300'"):
        build({"cuda": "GB300"})


def test_what_only_run_time_knows_is_no_mistake_but_what_stands_around_it_may_be():
    assert problems(OPEN, num_cards=OPEN, min_memory=OPEN, expand=OPEN) == []
    assert problems({OPEN: "L4", "cuda": [OPEN]}, num_cards={OPEN: 1, "rocm": OPEN}) == []
    assert problems({"cuda": OPEN, "cude": OPEN}, num_cards={"cuda": 0}) == [
        "res: unknown platform 'cude' (did you mean 'cuda'?)",
        "num_cards['cuda']: 0 cards; a test that needs no card names cpu",
    ]


@st.composite
def declarations(draw):
    """Arguments that are right."""
    names = draw(st.lists(st.sampled_from([row.name for row in DEFAULT.platforms]), min_size=1, unique=True))
    res = {}
    for name in names:
        skus = DEFAULT.platform(name).skus
        some = st.lists(st.sampled_from(skus), min_size=1, unique=True)
        res[name] = draw(st.one_of(st.just(ANY_SKU), st.sampled_from(skus), some))
    with_cards = [name for name in names if name != "cpu"]
    cards = st.sampled_from(DEFAULT.cards)
    per_platform = st.dictionaries(st.sampled_from(with_cards), cards) if with_cards else st.just(1)
    return res, draw(st.one_of(cards, per_platform)) if with_cards else 1


def in_order(need):
    return dataclasses.replace(need, skus=tuple(sorted(need.skus)))


@given(declarations())
def test_derived_marks_say_the_same_as_the_requirement(declaration):
    res, num_cards = declaration
    requirement = build(res, num_cards=num_cards)
    assert requirement.platforms == tuple(res)
    assert str(requirement)
    for platform in res:
        marks = marks_on(requirement, platform)
        assert set(marks) <= set(DEFAULT.words())
        assert in_order(from_marks(marks).on(platform)) == in_order(requirement.on(platform))
        assert conflicts(marks, None) == [] or ANY_SKU in res[platform]
        assert conflicts(marks, requirement.only(platform)) == []
        others = {name for name in DEFAULT.words() if DEFAULT.platform(name) and name != platform}
        assert not others & set(marks)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 20),
    st.sampled_from(["any", "gpu", "cuda", "L4", "MI300", "40GiB", "x"]),
)
VALUES = st.one_of(
    JUNK, st.lists(JUNK, max_size=3), st.dictionaries(JUNK, st.one_of(JUNK, st.lists(JUNK)), max_size=3)
)
ANY_CALL = st.dictionaries(st.sampled_from(["res", "num_cards", "min_memory", "expand", "rez"]), VALUES)


@given(ANY_CALL)
def test_any_call_is_taken_or_refused_with_a_message_a_line(arguments):
    found = call_problems(arguments)
    assert all(line.strip() == line and "\n" not in line and ": " in line for line in found)
    if not found:
        assert build(**arguments).needs
    elif "rez" not in arguments and "res" in arguments:
        with pytest.raises(InputError) as caught:
            build(**arguments)
        assert str(caught.value).splitlines() == found

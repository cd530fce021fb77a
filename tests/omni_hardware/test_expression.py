from __future__ import annotations

import pytest
from _pytest.mark.expression import Expression as PytestExpression
from hypothesis import example, given
from hypothesis import strategies as st

from omni_hardware.expression import ExpressionError, parse, unknown_names

NAMES = ("cuda", "cpu", "H100", "cards_2", "slow")
ODD_NAMES = (
    "True",
    "None",
    "a.b",
    "a[1-x]",
    ":x",
    "a::b",
    "x+y",
    "-3",
    "a/b",
    "a\\b",
    "orange",
    "and_more",
    "é",
)


@pytest.mark.parametrize(
    ("text", "names", "positive"),
    [
        ("cuda", [("cuda", 1)], {"cuda"}),
        ("core_model and cuda", [("core_model", 1), ("cuda", 16)], {"core_model", "cuda"}),
        ("cuda and not slow", [("cuda", 1), ("slow", 14)], {"cuda"}),
        ("not (not cuda or cpu)", [("cuda", 10), ("cpu", 18)], {"cuda"}),
        ("not not cuda", [("cuda", 9)], {"cuda"}),
        ("not cuda or cuda", [("cuda", 5), ("cuda", 13)], {"cuda"}),
        ("(((H100)))", [("H100", 4)], {"H100"}),
        ("hardware(cards=2, who='me') and cpu", [("hardware", 1), ("cpu", 33)], {"hardware", "cpu"}),
        ("not a(b=None)", [("a", 5)], set()),
        ("\tcuda  or\tcpu", [("cuda", 2), ("cpu", 11)], {"cuda", "cpu"}),
        ("", [], set()),
        ("   ", [], set()),
    ],
)
def test_names_with_their_columns_and_what_is_asked_for(text, names, positive):
    expression = parse(text)
    assert list(expression.names) == names
    assert expression.positive == positive
    assert expression.text == text


@pytest.mark.parametrize(
    ("text", "marks", "selected"),
    [
        ("core_model and cuda", {"core_model", "cuda"}, True),
        ("core_model and cuda", {"core_model"}, False),
        ("cuda or rocm and not slow", {"cuda", "slow"}, True),
        ("(cuda or rocm) and not slow", {"cuda", "slow"}, False),
        ("not cuda", set(), True),
        ("H100(anything=1)", {"H100"}, True),
        ("h100", {"H100"}, False),
        ("", {"cuda"}, False),
    ],
)
def test_what_an_expression_selects(text, marks, selected):
    assert parse(text).matches(marks) is selected


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("cuda and", 9, "expected a marker's name, 'not' or '(', got the end"),
        ("cuda and or cpu", 10, "expected a marker's name, 'not' or '(', got 'or'"),
        ("cuda cpu", 6, "expected 'and', 'or' or the end, got 'cpu'"),
        ("(cuda", 6, "expected 'and', 'or' or ')', got the end"),
        ("cuda)", 5, "expected 'and', 'or' or the end, got ')'"),
        ("()", 2, "expected a marker's name, 'not' or '(', got ')'"),
        ("cuda & cpu", 6, "unexpected character '&'"),
        ("cuda == 1", 6, "expected 'and', 'or' or the end, got '='"),
        ("'cuda'", 1, "expected a marker's name, 'not' or '(', got \"'cuda'\""),
        ("a('b", 3, "the closing ' is missing"),
        ("a(b='c\\d')", 7, "a backslash in a string is not allowed"),
        ("a()", 3, "expected the name of an argument, got ')'"),
        ("a(b)", 4, "expected '=', got ')'"),
        ("a(b=)", 5, "expected a string in quotes, a whole number, True, False or None, got ')'"),
        ("a(b=1.5)", 5, "1.5 is no string in quotes, whole number, True, False or None"),
        ("a(b=-x1)", 5, "-x1 is no string in quotes, whole number, True, False or None"),
        ("a(b=1 c=2)", 7, "expected ',' or ')', got 'c'"),
        ("a(1b=1)", 3, "'1b' cannot be the name of an argument"),
        ("a(for=1)", 3, "'for' cannot be the name of an argument"),
        ("a(b=1, b=2)", 8, "argument 'b' stands twice"),
        ("cuda\nor cpu", 5, "unexpected character '\\n'"),
    ],
)
def test_a_mistake_is_told_with_its_column(text, column, problem):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.column, str(caught.value)) == (column, f"{text!r}: column {column}: {problem}")


@pytest.mark.parametrize("text", ["(" * 5000 + "a" + ")" * 5000, "not " * 5000 + "a"])
def test_a_tower_of_parentheses_is_refused_and_not_a_recursion_error(text):
    with pytest.raises(ExpressionError, match="more than 100 levels") as caught:
        parse(text)
    assert caught.value.column > 100


def test_a_hundred_levels_and_a_very_long_expression_are_fine():
    assert parse("(" * 99 + "a" + ")" * 99).matches({"a"})
    assert parse(" or ".join(f"m{i}" for i in range(20_000))).matches({"m19999"})


def test_unknown_names_come_once_each_in_reading_order_with_the_nearest():
    expression = parse("core_modle and (cudda or core_modle or zzz) and cuda")
    assert unknown_names(expression, ["core_model", "cuda"]) == [
        f"{expression.text!r}: column 1: no marker is called 'core_modle' (did you mean 'core_model'?)",
        f"{expression.text!r}: column 17: no marker is called 'cudda' (did you mean 'cuda'?)",
        f"{expression.text!r}: column 40: no marker is called 'zzz' (known: core_model, cuda)",
    ]
    assert unknown_names(parse("cuda and not core_model"), {"core_model", "cuda"}) == []


def values() -> st.SearchStrategy[str]:
    return st.sampled_from(["1", "-12", "True", "False", "None", "'x y'", '""'])


def texts() -> st.SearchStrategy[str]:
    """Expressions in every form that the grammar has, with more or less space."""
    arguments = st.lists(
        st.tuples(st.sampled_from(["a", "b_2", "c"]), values()), min_size=1, unique_by=lambda x: x[0]
    )
    name = st.sampled_from(NAMES + ODD_NAMES)
    call = st.tuples(name, arguments).map(lambda x: f"{x[0]}({', '.join(f'{k}={v}' for k, v in x[1])})")
    return st.recursive(
        st.one_of(name, call),
        lambda inner: st.one_of(
            inner.map(lambda x: f"not {x}"),
            inner.map(lambda x: f"( {x})"),
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        ),
        max_leaves=12,
    )


def soup() -> st.SearchStrategy[str]:
    """Words of the grammar in any order, and anything else."""
    word = st.sampled_from(
        [*NAMES, *ODD_NAMES, "and", "or", "not", "(", ")", "=", ",", "'x'", '"', "'", "1", "a", "&"]
    )
    return st.one_of(
        st.lists(word, max_size=8).map(" ".join), st.text(st.characters(max_codepoint=127), max_size=12)
    )


def pytests_own(text: str) -> PytestExpression | None:
    try:
        return PytestExpression.compile(text)
    except Exception as error:
        if type(error).__name__ not in {"ParseError", "SyntaxError"}:  # pytest 8 and 9
            raise
        return None


def ours(text):
    try:
        return parse(text)
    except ExpressionError:
        return None


@given(texts(), st.sets(st.sampled_from(NAMES + ODD_NAMES)))
def test_it_selects_what_pytest_selects(text, marks):
    expression = ours(text)
    theirs = pytests_own(text)
    assert expression is not None
    assert theirs is not None
    assert expression.matches(marks) == theirs.evaluate(lambda name, /, **_arguments: name in marks)
    if hasattr(theirs, "idents"):  # pytest 9
        assert {name for name, _ in expression.names} == theirs.idents()
    for name, column in expression.names:
        assert text[column - 1 :].startswith(name)


@given(soup(), st.sets(st.sampled_from(NAMES)))
@example("a(b=1,)", set())
@example("not", set())
@example("a(not=1)", set())
@example("a(True=1)", set())
@example("a (b=1)", {"a"})
@example("a\x0bb", set())
def test_it_refuses_what_pytest_refuses(text, marks):
    expression = ours(text)
    theirs = pytests_own(text)
    assert (expression is None) == (theirs is None)
    if expression is None:
        with pytest.raises(ExpressionError) as caught:
            parse(text)
        assert 1 <= caught.value.column <= len(text) + 1
    elif theirs:
        assert expression.matches(marks) == theirs.evaluate(lambda name, /, **_arguments: name in marks)


def test_a_digit_that_is_no_number_is_no_value():
    """pytest itself ends with an INTERNALERROR here."""
    with pytest.raises(ExpressionError, match="column 5: ² is no string in quotes, whole number"):
        parse("a(b=²)")
    assert parse("a(b=-1)").names == (("a", 1),)


@given(texts(), st.sets(st.sampled_from(NAMES + ODD_NAMES)), st.sampled_from(NAMES + ODD_NAMES))
def test_a_positive_name_is_one_whose_mark_can_only_help(text, marks, name):
    expression = parse(text)
    negative = {
        other for other, _ in parse(f"not ({text})").names if other in parse(f"not ({text})").positive
    }
    if name in negative:
        return  # named both ways, or only under a not
    assert expression.matches(marks | {name}) >= expression.matches(marks - {name})


def test_a_number_of_cards_that_there_is_not_names_the_range():
    known = [f"cards_{count}" for count in (1, 10, 2, 16)]
    (message,) = unknown_names(parse("cards_17"), [*known, "cuda"])
    assert message.endswith("no marker is called 'cards_17' (known: cards_1 to cards_16)")
    (message,) = unknown_names(parse("card_1"), known)
    assert message.endswith("(did you mean 'cards_1'?)")

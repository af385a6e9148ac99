"""Selectors: what can be read, what it means (against an evaluator of the test's own), what is refused and how."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.message import Message, Property
from brokerproof.reference_broker.core.selector import MAX_DEPTH, MAX_LENGTH, BadSelector, parse
from tests.tools import examples

PROPERTIES: dict[str, Property] = {
    "kind": "a",
    "n": 3,
    "x": 2.5,
    "yes": True,
    "no": False,
    "ten": "10",
    "quote": "it's",
}
MESSAGE = Message(
    "id-1",
    "queue://q",
    b"",
    properties=PROPERTIES,
    priority=7,
    persistent=True,
    timestamp_ms=1000,
    jms_type="order",
    group_id="g1",
    group_sequence=2,
)


def selects(text: str, message: Message = MESSAGE) -> bool:
    selector = parse(text)
    assert selector is not None
    return selector.selects(message)


@pytest.mark.parametrize(
    "text",
    [
        "kind = 'a'",
        "kind <> 'b' AND n = 3",
        "n = 3.0 AnD x > 2 aNd 0x10 = 020 and 5L = 5",
        "NOT n = 4",
        "n BETWEEN 3 AND 3 AND NOT x BETWEEN 3 AND 4 AND x NOT BETWEEN 0 AND 1",
        "kind IN ('b', 'a') AND kind NOT IN ('c')",
        "quote = 'it''s'",
        "kind LIKE '_' AND quote LIKE 'i%s' AND quote NOT LIKE 'i_s'",
        "nothing IS NULL AND kind IS NOT NULL",
        "yes AND NOT no AND yes = TRUE AND (yes) <> false",
        "n + 1 * 2 = 5 AND (n + 1) * 2 = 8 AND -n = 0 - 3 AND - -n = 3",
        "7 / 2 = 3 AND -7 / 2 = -3 AND 7 / 2. = 3.5",
        "1. / 0 > 1E300 AND -1. / 0 < 0 AND NOT 0. / 0 = 0",
        "JMSPriority >= 7 AND JMSDeliveryMode = 'PERSISTENT' AND JMSTimestamp = 1000 AND JMSExpiration = 0",
        "JMSType = 'order' AND JMSXGroupID = 'g1' AND JMSXGroupSeq = 2 AND JMSMessageID LIKE 'id-%'",
        "JMSCorrelationID IS NULL AND JMSReplyTo IS NULL AND JMSDestination = 'queue://q'",
        "JMSRedelivered = FALSE AND JMSXDeliveryCount = 1",
        "convert_string_expressions:ten > 9 AND ten = 10.0 AND ten < 11",
        "(((kind = 'a')))",
        "n <> 'a' AND kind <> 1 AND NOT yes = 1",
        ".5 + 7. + 1E1 + 2f = 19.5",
        " * ".join(["9223372036854775807"] * 20) + " * 1.5 > 1E300",
    ],
)
def test_selects(text: str) -> None:
    assert selects(text)


@pytest.mark.parametrize(
    "text",
    [
        "kind = 'A'",
        "Kind = 'a'",
        "nothing = 1",
        "NOT nothing = 1",
        "nothing <> 1",
        "nothing",
        "NOT nothing",
        "nothing LIKE '%'",
        "nothing NOT LIKE 'z'",
        "nothing NOT IN ('z')",
        "kind > n",
        "kind BETWEEN 1 AND 2",
        "kind NOT BETWEEN 1 AND 2",
        "n LIKE '3'",
        "n IN ('3')",
        "n",
        "ten > 9",
        "n / 0 = 1 OR n / 0 <> 1",
        "convert_string_expressions:kind > 9",
        "convert_string_expressions:kind = TRUE",
    ],
)
def test_does_not_select(text: str) -> None:
    assert not selects(text)


@pytest.mark.parametrize(
    ("text", "pattern", "fits"),
    [
        ("abc", "abc", True),
        ("abc", "%", True),
        ("", "%", True),
        ("", "_", False),
        ("abc", "a%c", True),
        ("abcc", "a%c", True),
        ("abcd", "a%c", False),
        ("a.c", "a_c", True),
        ("aXbXc", "%X%X%", True),
        ("a%c", "a!%c", True),
        ("abc", "a!%c", False),
        ("a!c", "a!!c", True),
        ("a" * 3000 + "b", "%a%a%a%a%a%a%a%a%a%c", False),
    ],
)
def test_like(text: str, pattern: str, fits: bool) -> None:
    message = Message("m", "queue://q", b"", properties={"p": text})
    assert selects(f"p LIKE '{pattern}' ESCAPE '!'", message) is fits


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("kind = ", 8, "ends too early"),
        ("= 3", 1, "'=' does not fit"),
        ("and = 3", 1, "'and' does not fit"),
        ("kind = 'a", 8, "means nothing"),
        ("3", 1, "no condition"),
        ("'a'", 1, "no condition"),
        ("n + 1", 1, "no condition"),
        ("n > 'a'", 5, "has no order"),
        ("n < TRUE", 5, "'TRUE' has no order"),
        ("n + 'a' = 3", 5, "no number"),
        ("(n=3)=TRUE", 2, "no value"),
        ("kind LIKE 'a!' ESCAPE '!'", 11, "ends with its escape"),
        ("kind LIKE 'a' ESCAPE 'xx'", 22, "exactly one character"),
        ("3 IN ('a')", 1, "IN wants"),
        ("n = 3 n", 7, "'n' does not fit"),
        ("09 = 1", 1, "octal"),
        ("a # 3", 3, "'#' means nothing"),
        ("9999999999999999999 = 1", 1, "too large"),
        ("(" * (MAX_DEPTH + 1) + "yes" + ")" * (MAX_DEPTH + 1), MAX_DEPTH + 1, "levels of nesting"),
        ("convert_string_expressions:n = ", 32, "ends too early"),
    ],
)
def test_refusals_show_the_place(text: str, place: int, says: str) -> None:
    with pytest.raises(BadSelector) as refusal:
        parse(text)
    assert f"at character {place}: " in str(refusal.value)
    assert says in str(refusal.value)
    assert "write for example: kind = 'a'" in str(refusal.value)


def test_an_empty_correlation_id_is_one() -> None:
    there, missing = (Message("m", "queue://q", b"", correlation_id=found) for found in ("", None))
    assert [selects("JMSCorrelationID = ''", one) for one in (there, missing)] == [True, False]
    assert [selects("JMSCorrelationID IS NULL", one) for one in (there, missing)] == [False, True]


def test_limits_and_emptiness() -> None:
    assert parse("") is None
    assert parse("  ") is None
    long = " OR ".join(["a=1"] * 1100)
    assert len(long) < MAX_LENGTH
    assert parse(long) is not None
    with pytest.raises(BadSelector, match=f"of {MAX_LENGTH + 1} characters is too long; use at most {MAX_LENGTH}"):
        parse("a" * (MAX_LENGTH + 1))


# -- against an evaluator of the test's own: trees are nested tuples, written out and evaluated side by side

NAMES = ("kind", "n", "x", "yes", "no", "nothing", "JMSPriority")
KNOWN: dict[str, Any] = {**PROPERTIES, "JMSPriority": 7, "nothing": None}
UNKNOWN = "unknown"

numbers = st.one_of(
    st.integers(0, 9).map(lambda n: ("number", n)),
    st.sampled_from([0.0, 0.5, 2.5, 10.0]).map(lambda x: ("number", x)),
    st.sampled_from(NAMES).map(lambda name: ("name", name)),
)
sums = st.recursive(
    numbers, lambda inner: st.tuples(st.sampled_from("+-*/"), inner, inner).map(lambda t: ("sum", *t)), max_leaves=5
)
values = st.one_of(
    sums,
    st.sampled_from(["a", "b", "it's", ""]).map(lambda text: ("text", text)),
    st.booleans().map(lambda b: ("bool", b)),
)
tests = st.one_of(
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), values, values),
    st.tuples(st.just("compare"), st.sampled_from(["<", "<=", ">", ">="]), sums, sums),
    st.tuples(st.just("between"), sums, sums, sums, st.booleans()),
    st.tuples(
        st.just("in"), st.sampled_from(NAMES), st.lists(st.sampled_from(["a", "b", "c"]), min_size=1), st.booleans()
    ),
    st.tuples(st.just("null"), st.sampled_from(NAMES), st.booleans()),
    st.sampled_from(["yes", "no", "nothing", "kind"]).map(lambda name: ("flag", name)),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner), inner.map(lambda tree: ("NOT", tree))
    ),
    max_leaves=8,
)


def written(tree: Any) -> str:
    match tree:
        case ("number", number):
            return repr(number)
        case ("name", name) | ("flag", name):
            return str(name)
        case ("text", text):
            return "'" + text.replace("'", "''") + "'"
        case ("bool", value):
            return "tRUE" if value else "False"
        case ("sum", operator, left, right):
            return f"({written(left)}{operator} {written(right)})"
        case ("compare", operator, left, right):
            return f"{written(left)} {operator}{written(right)}"
        case ("between", value, low, high, negated):
            return f"{written(value)} {'NOT ' * negated}BETWEEN {written(low)} AND {written(high)}"
        case ("in", name, choices, negated):
            return f"{name} {'not ' * negated}in ({','.join(repr(choice) for choice in choices)})"
        case ("null", name, negated):
            return f"{name} is {'not ' * negated}null"
        case ("NOT", inner):
            return f"NOT ({written(inner)})"
    word, left, right = tree
    return f"({written(left)}) {word} ({written(right)})"


def kind_of(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def value_of(tree: Any) -> Any:
    match tree:
        case ("name", name):
            return KNOWN[name]
        case ("sum", operator, left, right):
            one, two = value_of(left), value_of(right)
            if kind_of(one) != "number" or kind_of(two) != "number":
                return None
            if operator == "/":
                return quotient(one, two)
            return {"+": one + two, "-": one - two, "*": one * two}[operator]
    return tree[1]


def quotient(one: Any, two: Any) -> Any:
    exact = type(one) is int and type(two) is int
    if two == 0:
        return None if exact else (math.nan if one == 0 or math.isnan(one) else math.inf * (1 if one > 0 else -1))
    return int(one / two) if exact else one / two


def compared(operator: str, one: Any, two: Any) -> str:
    if one is None or two is None:
        return UNKNOWN
    if kind_of(one) != kind_of(two):
        return str(operator == "<>")
    if operator in ("=", "<>"):
        return str((one == two) == (operator == "="))
    if kind_of(one) != "number":
        return "False"
    return str({"<": one < two, "<=": one <= two, ">": one > two, ">=": one >= two}[operator])


NEGATED = {"True": "False", "False": "True", UNKNOWN: UNKNOWN}
RANK = ["False", UNKNOWN, "True"]


def truth(tree: Any) -> str:
    match tree:
        case ("flag", name):
            return UNKNOWN if KNOWN[name] is None else str(KNOWN[name] is True)
        case ("compare", operator, left, right):
            return compared(operator, value_of(left), value_of(right))
        case ("between", value, low, high, negated):
            value, low, high = value_of(value), value_of(low), value_of(high)
            if negated:
                return max(compared("<", value, low), compared(">", value, high), key=RANK.index)
            return min(compared(">=", value, low), compared("<=", value, high), key=RANK.index)
        case ("in", name, choices, negated):
            found = UNKNOWN if KNOWN[name] is None else str(KNOWN[name] in choices)
            return NEGATED[found] if negated else found
        case ("null", name, negated):
            return str((KNOWN[name] is None) != negated)
        case ("NOT", inner):
            return NEGATED[truth(inner)]
    word, left, right = tree
    choose = min if word == "AND" else max
    return choose(truth(left), truth(right), key=RANK.index)


@settings(max_examples=examples(40), deadline=None)
@given(conditions)
def test_means_what_an_evaluator_of_its_own_says(tree: Any) -> None:
    text = written(tree)
    try:
        selector = parse(text)
    except BadSelector as refusal:
        assert "levels of nesting" in str(refusal)  # noqa: PT017 - nothing else may be refused here
        return
    assert selector is not None
    assert selector.selects(MESSAGE) is (truth(tree) == "True"), text


@settings(max_examples=examples(40), deadline=None)
@given(st.text(st.sampled_from("an10.'%()=<>+-*/ \tNOTINLKEBWADRS$_é\"#\x00"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        selector = parse(text)
    except BadSelector as refusal:
        assert "at character" in str(refusal)  # noqa: PT017 - the other outcome is just as good
    else:
        assert selector is None or selector.selects(MESSAGE) in (True, False)

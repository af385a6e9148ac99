"""Guard: a rule yields the outcomes that its requirement declares, no others, and could yield each of them.

Read from the source of the rule and of the functions of its room that it calls. A rule that gives the findings of
others names its own outcome instead; ``REPLACED`` says which words it never passes on.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from typing import Any, Final

import pytest

from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules import areas
from brokerproof.conformance.rules.rule import RULES

ROOM: Final = "brokerproof.conformance.rules."
#: What tells of a finding, and is no helper of a rule.
YIELDS: Final = {"held", "broken"}
REPLACED: Final = {
    "GEN-007": {"survived", "stays-away"},  # both halves are "remembered"
    "GEN-012": {"once"},  # of a helper with two words, this one's is the other
    "GEN-027": {"once-or-never"},
    "INA-008": {"closed", "stays-open"},
    "INA-009": {"broken"},  # a helper's word where its caller gives none
    "INA-018": {"closed", "stays-open"},
    "INA-020": {"closed", "stays-open"},
}


def sources(function: Any, found: dict[Any, ast.AST]) -> dict[Any, ast.AST]:
    """A rule and what it calls in its room, each as a tree."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function) if callable(function) else function
    helper = inspect.isfunction(function) and function.__module__.startswith(ROOM)
    if helper and function not in found and function.__module__ != f"{ROOM}rule":
        found[function] = ast.parse(textwrap.dedent(inspect.getsource(function)))
        for node in ast.walk(found[function]):
            if isinstance(node, ast.Name):
                sources(function.__globals__.get(node.id), found)
    return found


def said(tree: ast.AST) -> set[str]:
    """The outcomes that are written where a finding is made."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in YIELDS:
            words = [word.value for word in node.keywords if word.arg == "outcome"] or node.args[:1]
            found |= {word.value for word in words if isinstance(word, ast.Constant)}
    return {word for word in found if isinstance(word, str)} - {""}


def texts(tree: ast.AST) -> set[object]:
    """All texts in it: an outcome may be an argument of a helper."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def test_a_rule_yields_what_its_requirement_declares() -> None:
    assert areas  # importing the areas registers their rules
    wrong = {}
    for requirement in default_catalogue():
        if (rule := RULES.get(requirement.id)) is not None:
            declared = {outcome.name for outcome in requirement.outcomes}
            trees = sources(rule.judge, {}).values()
            undeclared = set().union(*map(said, trees)) - declared - REPLACED.get(requirement.id, set())
            never = {*declared} - set().union(*map(texts, trees))
            if undeclared or never:
                wrong[requirement.id] = (undeclared, never)
    assert wrong == {}


def test_no_word_is_replaced_that_no_helper_says() -> None:
    for requirement, words in REPLACED.items():
        trees = sources(RULES[requirement].judge, {}).values()
        assert words <= set().union(*map(said, trees)), requirement


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('yield broken("late", send)', {"late"}),
        ('yield held(outcome="kept")', {"kept"}),
        ("yield held()", set()),
        ('yield other("late")', set()),
        ("yield broken(bad)", set()),
    ],
)
def test_what_is_written_is_read(text: str, words: set[str]) -> None:
    assert said(ast.parse(f"def rule():\n    {text}")) == words

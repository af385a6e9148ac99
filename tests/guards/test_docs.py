"""Guard: every command that a page shows exists, with every flag that is shown (``tox -e docs`` checks the links)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.conformance.cli import COMMANDS
from tests.guards.test_flags import TESTS
from tests.guards.tree import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

#: What ends a command within a line of a script.
ENDS = ("|", "||", "&&", "#", ">", "&", ";")


def commands(text: str) -> Iterator[list[str]]:
    """The words after ``brokerproof`` of each command in fenced blocks and in code spans."""
    fences = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in [line for fence in fences for line in fence.splitlines()] + spans:
        words = line.replace("\\", " ").split()
        for place, word in enumerate(words):
            starts = place == 0 or words[place - 1] in {"$", "&&", "run:", "||", "-"}
            if starts and (word == "brokerproof" or word.endswith("/bin/brokerproof")):
                end = next((n for n, other in enumerate(words) if n > place and other in ENDS), len(words))
                yield words[place + 1 : end]


def unknown(words: list[str]) -> str:
    """What is wrong with such a command, "" if nothing."""
    if not words or words[0].startswith("-") or not words[0].isascii() or words[0].isupper():
        return ""
    if words[0] not in COMMANDS:
        return f"there is no command {words[0]!r}"
    if words[:2] == ["agent", "check"]:  # the rest is the agent's own command
        return ""
    flags = [word.partition("=")[0].rstrip(".,;:)") for word in words[1:] if word.startswith("--")]
    known = TESTS.get(" ".join(words[:2]), TESTS[words[0]])
    wrong = [flag for flag in flags if flag not in {*known, "--help"}]
    return f"{words[0]} has no flag {', '.join(wrong)}" if wrong else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_can_be_typed(page: Path) -> None:
    shown = list(commands(page.read_text(encoding="utf-8")))
    assert [f"brokerproof {' '.join(words)}: {unknown(words)}" for words in shown if unknown(words)] == []


def test_the_guard_sees_commands() -> None:
    assert list(commands("a `brokerproof run --x` b\n```sh\n$ brokerproof nothing --y | head\n```\n")) == [
        ["nothing", "--y"],
        ["run", "--x"],
    ]
    assert unknown(["run", "--x"]) == "run has no flag --x"
    assert unknown(["nothing"]) == "there is no command 'nothing'"

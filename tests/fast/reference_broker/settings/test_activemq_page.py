"""docs/activemq.md is executed: each XML block means what the TOML block after it means, and nothing that can be
translated is missing.
"""

from __future__ import annotations

import re
import tomllib

import pytest

from brokerproof.reference_broker.settings import activemq_xml, configuration
from brokerproof.reference_broker.settings.activemq_xml import translate
from brokerproof.reference_broker.settings.configuration import settings_of
from tests.fast.reference_broker.settings.test_settings import flat
from tests.guards.tree import ROOT

PAGE = (ROOT / "docs" / "activemq.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(xml|toml)\n(.*?)```", PAGE, re.DOTALL)
PAIRS = list(zip(BLOCKS[::2], BLOCKS[1::2], strict=True))
HEADINGS = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_both_mean_the_same(number: int) -> None:
    (kind, xml), (other, toml) = PAIRS[number]
    assert (kind, other) == ("xml", "toml")
    whole = xml.startswith("<broker")
    found = translate(xml if whole else f'<broker xmlns="http://activemq.apache.org/schema/core">{xml}</broker>')
    assert found.notes == []
    ours = settings_of(tomllib.loads(toml), "page")
    assert flat(settings_of(found.data, "page")) == flat(ours)
    assert flat(ours) != flat(settings_of({}, "page")), "a pair that changes nothing shows nothing"


def test_every_heading_has_a_pair() -> None:
    assert len(PAIRS) >= len(HEADINGS)


TABLES = [
    name
    for name, value in vars(activemq_xml).items()
    if isinstance(value, dict) and not name.startswith("__") and name not in {"_UNITS", "_KINDS"}
]


@pytest.mark.parametrize("table", TABLES)
def test_everything_that_is_translated_is_shown(table: str) -> None:
    known = set(getattr(activemq_xml, table))
    assert {name for name in known if name in PAGE} == known


def targets(*tables: str) -> set[str]:
    """Our keys that these tables of the translation lead to."""
    found: set[str] = set()
    for table in tables:
        for row in getattr(activemq_xml, table).values():
            found |= {key for key, _ in row.values()} if isinstance(row, dict) else {row[0]}
    return found


@pytest.mark.parametrize(
    ("rows", "tables", "ours_alone"),
    [
        (
            "_DESTINATION",
            ("_POLICY", "_PENDING_LIMITS"),
            {"match", "advisories", "dead_letter", "redelivery", "recovery"},
        ),
        ("_ADVISORIES", ("_ADVISORIES",), {"expired", "dead_letters"}),
        ("_DEAD_LETTER", ("_STRATEGIES",), {"strategy", "dead_letter_queue"}),
        ("_RECOVERY", ("_RECOVERIES",), {"policy"}),
        ("_TIMESTAMPING", ("_TIMESTAMPING",), {"restamp_moved"}),
        ("_VIRTUAL_TOPIC", ("_VIRTUAL_TOPIC",), set()),
        ("_REDELIVERY", ("_REDELIVERY",), {"send_to_dlq_if_max_retries_exceeded"}),
    ],
)
def test_every_key_that_activemq_has_is_translated(rows: str, tables: tuple[str, ...], ours_alone: set[str]) -> None:
    assert set(getattr(configuration, rows)) == targets(*tables) | ours_alone

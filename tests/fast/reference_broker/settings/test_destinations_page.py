"""``docs/destinations.md`` names refusals and options that exist."""

from __future__ import annotations

import re

import pytest

from brokerproof.reference_broker.core import broker, matching
from brokerproof.reference_broker.settings import configuration
from tests.guards.tree import ROOT

PAGE = (ROOT / "docs" / "destinations.md").read_text(encoding="utf-8")


def test_every_refusal_is_one_of_the_brokers() -> None:
    codes = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert len(codes) == 7
    assert [code for code in codes if f"``{code}``" not in (broker.__doc__ or "")] == []


@pytest.mark.parametrize("option", re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PAGE))
def test_every_option_is_one_of_the_brokers(option: str) -> None:
    assert option in {*configuration._BROKER, *configuration._DESTINATION}


@pytest.mark.parametrize("name", ["queue://A,B,topic://C", "queue://A.*", "topic://A.>"])
def test_what_the_table_shows_is_usable(name: str) -> None:
    assert name in PAGE
    assert matching.consumer_fault(name) == ""

"""What a requirement needs: capabilities, of which one of several may be enough."""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.conformance.requirements.catalogue import default_catalogue


@pytest.mark.parametrize(
    ("offered", "lacking"),
    [
        (["nack", "topics"], []),
        (["requeue", "topics"], []),
        (["topics"], ["nack or requeue"]),
        (["nack"], ["topics"]),
        ([], ["nack or requeue", "topics"]),
    ],
)
def test_one_of_several_is_enough(offered: list[str], lacking: list[str]) -> None:
    needing = msgspec.structs.replace(default_catalogue()["GEN-103"], needs=["nack or requeue", "topics"])
    assert needing.lacking(offered) == lacking
    assert needing.words() == {"nack", "requeue", "topics"}


def test_whoever_takes_a_rejection_in_any_way_is_asked_whether_it_does() -> None:
    assert default_catalogue()["GEN-103"].lacking(["requeue"]) == []

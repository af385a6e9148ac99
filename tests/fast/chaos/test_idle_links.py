"""How long a broker had received nothing when it closed a link."""

from __future__ import annotations

import pytest

from brokerproof.chaos.links import longest_silence_ns


@pytest.mark.parametrize(
    ("instants", "silence_ns"),
    [
        ([], None),
        ([2_000], None),
        ([100], 900),
        ([100, 400], 600),
        # What came right before the end may not have been read: the broker had decided.
        ([100, 999], 899),
        ([100, 995, 1_000], 895),
        # Then the silence goes on from there.
        ([100, 899], 101),
        # Bytes that flowed all the time.
        ([100, *range(110, 1_000, 10)], 10),
    ],
)
def test_what_came_in_the_last_moment_ends_no_silence(instants: list[int], silence_ns: int | None) -> None:
    assert longest_silence_ns(instants, 1_000, within_ns=100) == silence_ns

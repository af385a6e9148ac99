"""Scarcity: what is calculated, and what the kernel says of this very process."""

from __future__ import annotations

import os

import pytest

from brokerproof.chaos import scarcity


@pytest.mark.parametrize(
    ("opened", "left", "limit"),
    [([0, 1, 2], 0, 3), ([0, 1, 2], 2, 5), ([0, 1, 2, 5], 1, 4), ([0, 1, 2, 4], 1, 5), ([0, 1, 2, 4], 2, 6)],
)
def test_so_many_numbers_below_the_limit_are_free(opened: list[int], left: int, limit: int) -> None:
    found = scarcity._limit_for(opened, left)
    assert found == limit
    assert len([number for number in range(found) if number not in opened]) == left


@pytest.mark.parametrize(("left", "count"), [(50, 1), (25, 3), (10, 9), (1, 99), (0, 99), (100, 1)])
def test_how_many_neighbours_leave_so_much(left: int, count: int) -> None:
    assert scarcity.neighbours(left) == count


def test_what_the_kernel_says() -> None:
    own = os.getpid()
    before = scarcity.open_descriptors(own)
    with open(os.devnull, "rb") as file:  # noqa: PTH123 - a descriptor is wanted
        assert file.fileno() in scarcity.open_descriptors(own)
    assert before[:3] == [0, 1, 2]
    limit = scarcity.limit_of(own, "Max open files")
    assert limit is None or limit > before[-1]
    gone = 2**22
    assert scarcity.open_descriptors(gone) == []
    assert scarcity.limit_of(gone, "Max open files") is scarcity.waited_us(gone) is None

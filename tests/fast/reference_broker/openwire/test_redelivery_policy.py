"""The client's redelivery policy: how often, how long between, and when a message is given up."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.openwire.redelivery_policy import (
    Delivered,
    PolicyError,
    Redeliveries,
    RedeliveryPolicy,
    policy_from_options,
)


def series(policy: RedeliveryPolicy, rollbacks: int) -> tuple[list[int], int]:
    """The pauses of one message that is always rolled back, and how often it was delivered."""
    redeliveries = Redeliveries(policy)
    pauses = []
    count = 0
    for deliveries in range(1, rollbacks + 1):
        decision = redeliveries.roll_back([Delivered("m", count)])
        if decision.given_up:
            assert not decision.again
            return pauses, deliveries
        pauses.append(decision.pause_ms)
        count = decision.again[0].redelivery_count
    return pauses, 0


@pytest.mark.parametrize(("maximum", "deliveries"), [(6, 7), (0, 1), (1, 2), (-1, 0)])
def test_a_message_is_delivered_once_more_than_it_may_be_redelivered(maximum: int, deliveries: int) -> None:
    assert series(RedeliveryPolicy(maximum_redeliveries=maximum), 20)[1] == deliveries


@pytest.mark.parametrize(
    ("options", "pauses"),
    [
        ({}, [1000] * 6),
        ({"initialRedeliveryDelay": "0"}, [0, 1000, 1000, 1000, 1000, 1000]),
        ({"initialRedeliveryDelay": "10", "redeliveryDelay": "20"}, [10, 20, 20, 20, 20, 20]),
        (
            {"initialRedeliveryDelay": "10", "useExponentialBackOff": "true", "backOffMultiplier": "2"},
            [10, 20, 40, 80, 160, 320],
        ),
        (
            {
                "initialRedeliveryDelay": "100",
                "redeliveryDelay": "100",
                "useExponentialBackOff": "true",
                "maximumRedeliveryDelay": "600",
            },
            [100, 500, 600, 600, 600, 600],
        ),
        # A limit below the redelivery delay gives way to it.
        ({"useExponentialBackOff": "true", "maximumRedeliveryDelay": "10"}, [1000, 1000, 1000, 1000, 1000, 1000]),
        # Nothing to multiply after a pause of 0.
        (
            {"initialRedeliveryDelay": "0", "useExponentialBackOff": "true", "backOffMultiplier": "3"},
            [0, 1000, 3000, 9000, 27000, 81000],
        ),
        ({"useExponentialBackOff": "true", "backOffMultiplier": "0.5"}, [1000] * 6),
    ],
)
def test_the_pauses(options: dict[str, str], pauses: list[int]) -> None:
    assert series(policy_from_options(options), 7) == (pauses, 7)


@pytest.mark.parametrize(("chance", "pause_ms"), [(-1.0, 850), (0.0, 1000), (0.5, 1075), (1.0, 1150)])
def test_collision_avoidance_moves_all_pauses_but_the_first(chance: float, pause_ms: int) -> None:
    redeliveries = Redeliveries(RedeliveryPolicy(use_collision_avoidance=True))
    assert redeliveries.roll_back([Delivered("m", 0)], chance).pause_ms == 1000
    assert redeliveries.roll_back([Delivered("m", 1)], chance).pause_ms == pause_ms


def test_a_commit_ends_the_series() -> None:
    redeliveries = Redeliveries(RedeliveryPolicy(initial_redelivery_delay_ms=5))
    assert [redeliveries.roll_back([Delivered("m", n)]).pause_ms for n in range(2)] == [5, 1000]
    redeliveries.committed()
    assert redeliveries.roll_back([Delivered("n", 0)]).pause_ms == 5


@pytest.mark.parametrize(
    ("by_newest", "given_up", "again"),
    [(False, ["old"], ["fresh"]), (True, [], ["old", "fresh"])],
)
def test_each_message_is_judged_by_its_own_count(by_newest: bool, given_up: list[str], again: list[str]) -> None:
    redeliveries = Redeliveries(RedeliveryPolicy(by_newest=by_newest))
    decision = redeliveries.roll_back([Delivered("old", 6), Delivered("fresh", 0)])
    assert [one.message_id for one in decision.given_up] == given_up
    assert [one.message_id for one in decision.again] == again


def test_the_newest_condemns_its_neighbours_where_activemq_decides() -> None:
    decision = Redeliveries(RedeliveryPolicy(by_newest=True)).roll_back([Delivered("fresh", 0), Delivered("old", 6)])
    assert [one.message_id for one in decision.given_up] == ["fresh", "old"]


@pytest.mark.parametrize(("check", "count", "refused"), [(True, 6, False), (True, 7, True), (False, 7, False)])
def test_what_arrives_worn_out_is_given_up_undelivered(check: bool, count: int, refused: bool) -> None:
    redeliveries = Redeliveries(RedeliveryPolicy(pre_dispatch_check=check))
    assert (redeliveries.refused("m", count) is not None) == refused


def test_the_cause_in_activemqs_words() -> None:
    decision = Redeliveries(RedeliveryPolicy()).roll_back([Delivered("m", 6)])
    assert decision.given_up[0].cause == (
        "Delivery[7] exceeds redelivery policy limit:RedeliveryPolicy {collisionAvoidanceFactor = 0.15, "
        "maximumRedeliveries = 6, maximumRedeliveryDelay = -1, initialRedeliveryDelay = 1000, "
        "useCollisionAvoidance = false, useExponentialBackOff = false, backOffMultiplier = 5.0, "
        "redeliveryDelay = 1000, preDispatchCheck = true}, cause:null"
    )


def test_nothing_delivered_nothing_decided() -> None:
    decision = Redeliveries(RedeliveryPolicy()).roll_back([])
    assert (decision.given_up, decision.again, decision.pause_ms) == ([], [], 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"maximumRedelivery": "1"}, "'maximumRedelivery' is unknown; one of collisionAvoidanceFactor"),
        ({"maximumRedeliveries": "-2"}, "maximumRedeliveries is -2; give -1 or more"),
        ({"maximumRedeliveries": "many"}, "maximumRedeliveries is 'many'; give an integer"),
        ({"initialRedeliveryDelay": "-1"}, "initialRedeliveryDelay is -1; give 0 or more"),
        ({"useExponentialBackOff": "yes"}, "useExponentialBackOff is 'yes'; give true or false"),
        ({"backOffMultiplier": "0"}, "backOffMultiplier is 0.0; give a number above 0"),
        ({"backOffMultiplier": "x"}, "backOffMultiplier is 'x'; give a number"),
        ({"collisionAvoidanceFactor": "1.5"}, "collisionAvoidanceFactor is 1.5; give a number from 0 to 1"),
    ],
)
def test_an_unusable_option_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(PolicyError, match=text):
        policy_from_options(options)

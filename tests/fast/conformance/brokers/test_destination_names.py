"""What destinations are called: by programs, whose names say nothing, and by brokers, whose names do."""

from __future__ import annotations

import pytest

from brokerproof.conformance.brokers.translation import Names
from brokerproof.conformance.experiment.destinations import (
    ALL_QUEUES,
    ALL_TOPICS,
    DEAD_LETTERS,
    Destination,
    Destinations,
    expiries_of,
    is_aside,
    own_dead_letters_of,
    queues,
    topics,
)
from brokerproof.conformance.experiment.wire_names import WireNames
from brokerproof.conformance.worlds.live.names import RunNames

OWN, TOLD = own_dead_letters_of("q0"), expiries_of("q0")
DECLARED = [
    *queues("tasks", "q0", "orders.eu"),
    *topics("prices"),
    Destination("both", "composite", of=[*queues("q0"), *topics("prices")]),
    Destination("news", "virtual", of=queues("sport", "a.b")),
    Destination("answers", "temporary", host="c0"),
]
KNOWN = Destinations(DECLARED)


def test_names_that_only_the_broker_fills() -> None:
    assert (OWN, own_dead_letters_of("t0", topic=True)) == ("ActiveMQ.DLQ.Queue.q0", "ActiveMQ.DLQ.Topic.t0")
    assert TOLD == "ActiveMQ.Advisory.Expired.Queue.q0"
    assert [KNOWN.is_topic(name) for name in (OWN, TOLD)] == [False, True]
    assert [is_aside(name) for name in ("q0", DEAD_LETTERS, OWN, TOLD)] == [False, False, True, True]


def test_a_destination_is_what_it_is_declared_to_be() -> None:
    assert [KNOWN.kind(name) for name in ("tasks", "prices", "both", "news", "answers", "sport", "t9")] == [
        "queue",
        "topic",
        "composite",
        "virtual",
        "temporary",
        "queue",
        "queue",
    ]
    assert [KNOWN.pattern(name) for name in ("tasks", "prices", "news")] == [ALL_QUEUES, ALL_TOPICS, ALL_TOPICS]
    assert [KNOWN.virtual_topic(name) for name in ("news", "sport", "q0")] == ["news", "news", ""]
    assert KNOWN.parts("both") == ["q0", "prices"]
    assert (KNOWN.owner("answers"), KNOWN.owner("q0"), KNOWN.temporary_of("c0")) == ("c0", "", "answers")


def test_a_temporary_queue_that_nobody_named_gets_a_name() -> None:
    known = Destinations(queues("q0"))
    assert known.temporary_of("c1") == "~c1"
    assert known.declared[-1] == Destination("~c1", "temporary", host="c1")
    assert known.temporary_of("c1") == "~c1"
    assert len(known.declared) == 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tasks", "queue://tasks"),
        ("orders.eu", "queue://orders.eu"),
        ("prices", "topic://prices"),
        ("both", "queue://q0,topic://prices"),
        ("news", "topic://VirtualTopic.news"),
        ("sport", "queue://Consumer.sport.VirtualTopic.news"),
        ("a.b", "queue://Consumer.a-b.VirtualTopic.news"),
        (OWN, f"queue://{OWN}"),
        (TOLD, f"topic://{TOLD}"),
        (DEAD_LETTERS, "queue://ActiveMQ.DLQ"),
    ],
)
def test_names_are_translated_and_back(name: str, meant: str) -> None:
    names = Names(Destinations([*DECLARED, *queues("sport", "a.b")]))
    assert names.physical(name) == meant
    assert names.logical(meant) == name


def test_a_broker_that_takes_no_dots_is_told_none() -> None:
    names = Names(Destinations([*DECLARED, *queues("sport", "a.b")]), ".r1", "_")
    told = {name: names.physical(name) for name in ("q0", "orders.eu", "both", "a.b", OWN, DEAD_LETTERS)}
    assert told == {
        "q0": "queue://q0_r1",
        "orders.eu": "queue://orders_eu_r1",
        "both": "queue://q0_r1,topic://prices_r1",
        "a.b": "queue://Consumer_a-b_VirtualTopic_news_r1",
        OWN: "queue://ActiveMQ.DLQ.Queue.q0_r1",  # names.X.dead_letters, if each has its own
        DEAD_LETTERS: "queue://ActiveMQ.DLQ",  # names.X.dead_letters is what it is called
    }
    assert [names.logical(physical) for physical in told.values()] == list(told)
    assert names.logical("queue://others_r1") == "others"
    letters = WireNames(dead_letters="/queue/{name}_dead")
    assert letters.address(told[OWN]) == "/queue/q0_r1_dead"
    run = RunNames(Destinations(queues("q0")), separator="_")
    assert run.physical("q0") == f"queue://q0_{run.run}"


def test_names_of_one_run_have_its_suffix_and_are_recognised() -> None:
    names = Names(KNOWN, ".r1")
    assert names.physical("both") == "queue://q0.r1,topic://prices.r1"
    assert names.logical("queue://q0.r1,topic://prices.r1") == "both"
    assert names.physical(DEAD_LETTERS) == "queue://ActiveMQ.DLQ"
    assert names.logical("queue://others") == "others"
    assert [names.physical(pattern) for pattern in (ALL_QUEUES, ALL_TOPICS)] == ["queue://*.r1", "topic://*.r1"]


@pytest.mark.parametrize(("names", "pattern"), [(["t0"], ">"), (["t0", "t1"], "*"), (["t0.x"], "*")])
def test_where_names_are_paths_they_begin_with_the_run_and_a_pattern_ends_them(names: list[str], pattern: str) -> None:
    run = RunNames(Destinations(topics(*names)), separator="/")
    told = f"topic://{run.run}/{names[0].replace('.', '/')}"
    assert run.physical(names[0]) == told
    assert run.logical(told) == names[0]
    assert run.physical(ALL_TOPICS) == f"topic://{run.run}/{pattern}"

"""The time-stamping plug-in: every row of its edge table, then its place in the way of a message."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, TimeStamping
from brokerproof.reference_broker.core.events import Move
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.timestamping import ClassicStamping, Stamping, wrap_int64
from tests.fast.reference_broker.core.driver import DLQ, START_MS, Driver, config_of

N = 1_000_000  # the broker's time
LONG_MAX = 2**63 - 1

PLAIN = TimeStamping()
FUTURE = TimeStamping(future_only=True)
OVERRIDE = TimeStamping(zero_expiration_override_ms=700)
CAPPED_OVERRIDE = TimeStamping(zero_expiration_override_ms=700, ttl_ceiling_ms=300)
ROOMY_OVERRIDE = TimeStamping(zero_expiration_override_ms=700, ttl_ceiling_ms=700)
CEILING = TimeStamping(ttl_ceiling_ms=300)
FUTURE_CEILING = TimeStamping(future_only=True, ttl_ceiling_ms=300)
FUTURE_OVERRIDE = TimeStamping(future_only=True, zero_expiration_override_ms=700)
NEGATIVE = TimeStamping(zero_expiration_override_ms=-5, ttl_ceiling_ms=-5)

ROWS = [
    # settings, timestamp, expiration -> timestamp, expiration
    ("no timestamp", PLAIN, 0, N + 50, 0, N + 50),
    ("negative timestamp", OVERRIDE, -1, 0, -1, 0),
    ("no expiration", PLAIN, N - 9, 0, N, 0),
    ("no expiration, future only, clock behind: backwards", FUTURE, N + 3_600_000, 0, N, 0),
    ("no expiration, override", OVERRIDE, N - 9, 0, N, N + 700),
    ("no expiration, override above the ceiling", CAPPED_OVERRIDE, N - 9, 0, N, N + 300),
    ("no expiration, override at the ceiling", ROOMY_OVERRIDE, N - 9, 0, N, N + 700),
    ("no expiration, override, future only", FUTURE_OVERRIDE, N + 9, 0, N, N + 700),
    ("negative expiration", PLAIN, N - 9, -7, N, -7),
    ("negative expiration, override", OVERRIDE, N - 9, -7, N, N + 700),
    ("negative expiration, future only", FUTURE, N + 9, -7, N, -7),
    ("negative settings are off", NEGATIVE, N - 9, 0, N, 0),
    ("negative ceiling is off", NEGATIVE, N - 9, N + 991, N, N + 1000),
    ("time to live is kept, client behind", PLAIN, N - 300_000, N - 180_000, N, N + 120_000),
    ("time to live is kept, client ahead", PLAIN, N + 300_000, N + 420_000, N, N + 120_000),
    ("time to live of 1", PLAIN, N - 5, N - 4, N, N + 1),
    ("above the ceiling", CEILING, N, N + 301, N, N + 300),
    ("at the ceiling", CEILING, N - 9, N + 291, N, N + 300),
    ("below the ceiling", CEILING, N - 9, N + 290, N, N + 299),
    ("expiration equals timestamp", PLAIN, N - 9, N - 9, N, N - 9),
    ("expiration before timestamp", PLAIN, N + 9, N + 8, N, N + 8),
    ("expiration before timestamp, override does not help", OVERRIDE, N + 9, N + 8, N, N + 8),
    ("future only, broker behind", FUTURE, N + 1, N + 121, N + 1, N + 121),
    ("future only, seed 000 scenario 2", FUTURE, N + 300_000, N + 420_000, N + 300_000, N + 420_000),
    ("future only, same time: strictly later is needed", FUTURE, N, N + 120, N, N + 120),
    ("future only, broker ahead", FUTURE, N - 1, N + 119, N, N + 120),
    ("future only, ceiling would lower: ignored", FUTURE_CEILING, N - 700, N + 300, N - 700, N + 300),
    ("future only, ceiling far below: ignored", FUTURE_CEILING, N, N + 3000, N, N + 3000),
    ("future only, capped and still later", FUTURE_CEILING, N - 701, N + 299, N, N + 300),
    ("future only, expired for its producer and later than n", FUTURE, N + 9, N + 8, N + 9, N + 8),
    ("future only, expired for its producer, n later", FUTURE, N - 8, N - 9, N, N - 9),
    ("overflow", PLAIN, 1, LONG_MAX, N, LONG_MAX),
    ("largest that does not overflow", PLAIN, N, LONG_MAX, N, LONG_MAX),
    ("overflow by one", PLAIN, N - 1, LONG_MAX, N, LONG_MAX),
    ("overflow, future only", FUTURE, 1, LONG_MAX, 1, LONG_MAX),
    ("overflow, capped first", CEILING, 1, LONG_MAX, N, N + 300),
]


#: Where generation ``documented`` differs from ``ROWS``, by the row's name.
DOCUMENTED = {
    "no expiration, future only, clock behind: backwards": (N + 3_600_000, 0),
    "no expiration, override, future only": (N + 9, N + 700),
    "negative expiration, future only": (N + 9, -7),
    "future only, ceiling would lower: ignored": (N, N + 300),
    "future only, ceiling far below: ignored": (N, N + 300),
    "future only, expired for its producer and later than n": (N + 9, N + 8),
}


@pytest.mark.parametrize(
    ("name", "settings", "timestamp", "expiration", "stamped", "expires"), ROWS, ids=[r[0] for r in ROWS]
)
def test_edge_table(
    name: str, settings: TimeStamping, timestamp: int, expiration: int, stamped: int, expires: int
) -> None:
    for policy, row in ((ClassicStamping, (stamped, expires)), (Stamping, DOCUMENTED.get(name, (stamped, expires)))):
        message = Message("m", "queue://q", b"", timestamp_ms=timestamp, expiration_ms=expiration)
        policy(settings).stamp(message, N, network=False)
        assert (message.timestamp_ms, message.expiration_ms) == row


@pytest.mark.parametrize("sent", [N - 500, N - 1, N, N + 1, N + 500])
@pytest.mark.parametrize("ttl", [-3, 0, 1, 299, 300, 301, 5000])
@pytest.mark.parametrize("settings", [FUTURE, FUTURE_CEILING, FUTURE_OVERRIDE])
def test_documented_future_only_moves_nothing_back_but_by_the_ceiling(
    settings: TimeStamping, sent: int, ttl: int
) -> None:
    for expiration in (0, sent + ttl):
        message = Message("m", "queue://q", b"", timestamp_ms=sent, expiration_ms=expiration)
        Stamping(settings).stamp(message, N, network=False)
        assert message.timestamp_ms >= sent
        ceiling = settings.ttl_ceiling_ms
        least = expiration if ceiling <= 0 else min(expiration, sent + ceiling)
        assert message.expiration_ms >= least
        if ceiling > 0:
            assert message.expiration_ms <= max(sent, N) + ceiling


def test_the_generation_chooses() -> None:
    for generation, stamped in (("classic", START_MS), ("documented", START_MS + 9000)):
        d = Driver(config_of(timestamping=FUTURE, generation={"timestamping": generation}))
        assert d.send(timestamp_ms=START_MS + 9000).timestamp_ms == stamped


@pytest.mark.parametrize(
    ("installed", "process", "network", "acts"),
    [(False, False, False, False), (True, False, False, True), (True, False, True, False), (True, True, True, True)],
)
def test_network_messages(installed: bool, process: bool, network: bool, acts: bool) -> None:
    settings = TimeStamping(process_network_messages=process) if installed else None
    d = Driver(config_of(timestamping=settings))
    message = d.send(timestamp_ms=START_MS - 500, expiration_ms=START_MS + 100, network=network)
    assert message.timestamp_ms == (START_MS if acts else START_MS - 500)
    assert message.expiration_ms == START_MS + (600 if acts else 100)
    assert d.logged(f"Set message m1 timestamp from {START_MS - 500} to {START_MS}") == acts


@pytest.mark.parametrize(
    ("value", "wrapped"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64, 0), (-(2**63) - 1, 2**63 - 1)]
)
def test_wrap(value: int, wrapped: int) -> None:
    assert wrap_int64(value) == wrapped


FIVE, TWO = 300_000, 120_000  # minutes


@pytest.mark.parametrize(
    ("settings", "client_ahead_ms", "arrives", "expires_in_ms"),
    [
        (None, -FIVE, False, 0),  # scenario 1: expired on arrival
        (PLAIN, -FIVE, True, TWO),
        (FUTURE, -FIVE, True, TWO),
        (None, FIVE, True, FIVE + TWO),  # scenario 2: lives seven minutes
        (PLAIN, FIVE, True, TWO),
        (FUTURE, FIVE, True, FIVE + TWO),
    ],
)
def test_seed_000_stamping_precedes_the_arrival_check(
    settings: TimeStamping | None, client_ahead_ms: int, arrives: bool, expires_in_ms: int
) -> None:
    d = Driver(config_of(timestamping=settings))
    d.subscribe()
    stamp = START_MS + client_ahead_ms
    message = d.send(timestamp_ms=stamp, expiration_ms=stamp + TWO)
    assert d.got() == (["m1"] if arrives else [])
    assert d.counter("size", DLQ) == (0 if arrives else 1)
    if arrives:
        assert message.expiration_ms == START_MS + expires_in_ms


def test_a_dead_letter_copy_is_not_stamped_but_a_direct_send_is() -> None:
    d = Driver(config_of(timestamping=TimeStamping(zero_expiration_override_ms=60_000)))
    d.send(timestamp_ms=START_MS - 9, expiration_ms=START_MS - 10)
    d.advance(1000)
    d.send(DLQ, timestamp_ms=START_MS - 9)
    copy, direct = d.dead_letters()
    assert (copy.timestamp_ms, copy.expiration_ms) == (START_MS, 0)
    assert (direct.timestamp_ms, direct.expiration_ms) == (START_MS + 1000, START_MS + 61_000)


@pytest.mark.parametrize("restamp", [False, True])
def test_a_move_restarts_a_life_only_if_it_is_told_to(restamp: bool) -> None:
    d = Driver(BrokerConfig(timestamping=TimeStamping(restamp_moved=restamp)))
    d.send("queue://a", timestamp_ms=START_MS - 5, expiration_ms=START_MS + 995)
    d.wall_ms += 400
    d.handle(Move("queue://a", "queue://b", request=d.request()))
    moved = d.broker.browse("queue://b")
    assert moved is not None
    since_ms = START_MS + (400 if restamp else 0)
    assert [(message.timestamp_ms, message.expiration_ms) for message in moved] == [(since_ms, since_ms + 1000)]
    d.broker.check()

"""Document 000: clocks that differ. Broker, producer and consumer each have one; a message lives two minutes."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, TimeStampingSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Leave, Subscribe, Take
from brokerproof.conformance.experiment.steps.fault import Clock
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Advance, Settle
from brokerproof.conformance.stories.story import DAY, HOUR, MINUTE, SECOND, SURE, VAIN, Half, Story, client, plot

LIFE = 2 * MINUTE
SKEW = 5 * MINUTE
PLUGIN = TimeStampingSpec()
FUTURE = TimeStampingSpec(future_only=True)
#: How many messages a story of many has.
TEN = 10
Via = Literal["stomp", "jms"]


def one(
    ahead: tuple[int, int, int],
    plugin: TimeStampingSpec | None = None,
    *,
    ttl: int = LIFE,
    vias: tuple[Via, Via] = ("jms", "jms"),
    check: bool = True,
    count: int = 1,
) -> Program:
    """Messages from p0 to c0 while the clocks of broker, producer and consumer are ahead by so much."""
    hosts = (client("p0", ahead[1], vias[0]), client("c0", ahead[2], vias[1], check=check))
    taken: list[AnyStep] = [Take(deadline_ms=VAIN, count=count), Ack(upto=count - 1), Settle()]
    sent = [Subscribe(host=1, prefetch=100), Send(host=0, ttl_ms=ttl, count=count), *taken]
    return plot(sent, hosts=hosts, ahead=ahead[0], broker=spec(plugin))


def _in_zones(program: Program) -> Program:
    """The same where the broker's local time is nine hours ahead, and its clients' three and eight behind."""
    clocks = [replace(host.clock, zone_hours=hours) for host, hours in zip(program.hosts, (9, -3, -8), strict=True)]
    hosts = [replace(host, clock=clock) for host, clock in zip(program.hosts, clocks, strict=True)]
    return replace(program, hosts=hosts)


def spec(plugin: TimeStampingSpec | None) -> BrokerSpec:
    """Dead letters also of messages that are not persistent, so that none is out of sight."""
    return BrokerSpec(timestamping=plugin, dead_letter_non_persistent=True)


def all_of(word: str, count: int = 1, *requirements: str) -> dict[str, object]:
    """Every message has this end."""
    rest = {other: 0 for other in ("consumed", "dead", "drained", "gone") if other != word}
    return {word: count, **rest, **dict.fromkeys(requirements, "satisfied")}


def thrown(count: int = 1, consumed: int = 0) -> dict[str, object]:
    """So many are thrown away by their consumer's library: since 5.14 the broker believes it (a dead letter)."""
    kept = {"drained": {"expiry=documented": count, "": 0}, "dead": {"expiry=documented": 0, "": count}}
    return {"consumed": consumed, "gone": 0, **kept, "EXP-008": "satisfied"}


def _life(plugin: TimeStampingSpec | None, alive: int) -> Program:
    """Two messages of a producer that is ahead by five minutes; one is asked for two seconds before its life of
    ``alive`` is over by the broker's clock, the other two seconds later than that.
    """
    watch: list[AnyStep] = [Send(ttl_ms=LIFE), Send(ttl_ms=LIFE), Settle(), Clock(host=0, jump_ms=alive - 4 * SECOND)]
    first: list[AnyStep] = [Subscribe(host=1), Take(deadline_ms=SURE), Ack(), Leave(), Settle()]
    then: list[AnyStep] = [Clock(host=0, jump_ms=8 * SECOND), Advance(ms=1500), Settle()]
    return plot(watch, first, then, hosts=(client("p0", SKEW), client("c0")), broker=spec(plugin))


def _answer(plugin: TimeStampingSpec) -> Program:
    """A request with 20 s to live and its answer, over a broker that is 30 s behind both clients."""
    asked: list[AnyStep] = [
        Subscribe(host=1, dest=0, prefetch=10),
        Send(host=0, dest=0, ttl_ms=20 * SECOND),
        Take(deadline_ms=VAIN),
        Ack(),
    ]
    # The answer is sent if the request was taken: to a consumer that was given nothing ``live`` says so.
    answered: list[AnyStep] = [Leave(), Subscribe(host=0, dest=1, prefetch=10)]
    reply: list[AnyStep] = [Send(host=1, dest=1, ttl_ms=20 * SECOND)] if plugin.future_only else []
    hosts = (client("p0", 0, "jms"), client("c0", 0, "jms"))
    taken: list[AnyStep] = [Take(deadline_ms=VAIN), Ack(), Settle()]
    return plot(
        asked, answered, reply, taken, hosts=hosts, ahead=-30 * SECOND, broker=spec(plugin), dests=queues("q0", "q1")
    )


def _reply(ahead: int, ttl: int) -> Program:
    """The requester is ahead of broker and responder: the request is taken, the answer thrown away."""
    hosts = (client("p0", ahead, "jms"), client("c0", 0, "jms"))
    steps: list[AnyStep] = [
        Send(host=0, dest=0, ttl_ms=LIFE),
        Subscribe(host=1, dest=0, prefetch=10),
        Take(deadline_ms=SURE),
        Ack(),
        Send(host=1, dest=1, ttl_ms=ttl),
        Leave(),
        Subscribe(host=0, dest=1, prefetch=10),
        Take(deadline_ms=VAIN),
        Ack(),
        Settle(),
    ]
    return plot(steps, hosts=hosts, broker=spec(None), dests=queues("q0", "q1"))


def _two(*, check: bool) -> Program:
    """Ten messages for two JMS consumers of one queue, one of them an hour ahead."""
    hosts: tuple[HostSpec, ...] = (client("p0"), client("c0", HOUR, "jms", check=check), client("c1", 0, "jms"))
    both: list[AnyStep] = [Subscribe(host=1, prefetch=TEN), Subscribe(host=2, prefetch=TEN), Settle()]
    take: list[AnyStep] = [Take(consumer=0, host=host, deadline_ms=VAIN, count=TEN // 2) for host in (0, 1)]
    ends: list[AnyStep] = [Ack(host=0, upto=TEN), Ack(host=1, upto=TEN), Settle()]
    return plot(both, Send(ttl_ms=LIFE, count=TEN), take, ends, hosts=hosts, broker=spec(None))


def _capped(ceiling: int) -> Program:
    """A day to live, asked by a client; a minute and a half passes by the broker's clock."""
    steps: list[AnyStep] = [Send(ttl_ms=DAY), Settle(), Clock(host=0, jump_ms=90 * SECOND), Advance(ms=1500), Settle()]
    return plot(steps, broker=spec(TimeStampingSpec(ttl_ceiling_ms=ceiling)))


DEAD, CONSUMED = all_of("dead", 1, "EXP-007"), all_of("consumed", 1, "EXP-007")


def _broker() -> list[Story]:
    """The broker's clock against the producer's."""
    return [
        Story(
            "000-broker-ahead",
            "the broker is five minutes ahead, messages live two: dead on arrival",
            "clocks",
            Half(one((SKEW, 0, 0)), {**DEAD, "EXP-001": "satisfied"}),
            Half(one((SKEW, 0, 0), PLUGIN), {**CONSUMED, "TSP-002": "satisfied"}),
            "let the broker stamp by its own clock: TimeStampingBrokerPlugin",
            "JMSTimestamp is no longer the producer's time of sending",
            "expiry-never",
        ),
        Story(
            "000-broker-behind",
            "the broker is five minutes behind the producer: two minutes of life become seven",
            "clocks",
            Half(_life(None, SKEW + LIFE), {"consumed": 1, "dead": 1, "EXP-007": "satisfied"}),
            Half(_life(PLUGIN, LIFE), {"consumed": 1, "dead": 1, "EXP-007": "satisfied"}),
            "the plug-in gives back the two minutes, by the broker's clock",
            "a JMS consumer whose clock is ahead of the broker's throws such messages away (000-discarded)",
            "stamp-extends-life",
        ),
        Story(
            "000-discarded",
            "plug-in on a broker that is behind: message and consumer are there, nothing is consumed",
            "clocks",
            Half(one((-SKEW, 0, 0), PLUGIN), thrown()),
            Half(one((-SKEW, 0, 0), FUTURE), {**CONSUMED, "TSP-003": "satisfied"}),
            'futureOnly="true": the broker never lowers an expiration',
            "a message may then live as much longer as its producer is ahead of the broker",
            "stamp-future-only-ignored",
        ),
    ]


def _consumers() -> list[Story]:
    """The consumer's clock."""
    return [
        Story(
            "000-consumer-ahead-an-hour",
            "a consumer an hour ahead: JMS throws ten of ten away, STOMP takes ten of ten",
            "clocks",
            Half(one((0, 0, HOUR), count=TEN), thrown(TEN)),
            Half(one((0, 0, HOUR), count=TEN, vias=("jms", "stomp")), all_of("consumed", TEN, "EXP-007")),
            "consume over a protocol whose clients do not check (STOMP), as AMQ-5406 advises",
            "an application may work on what has expired by its own clock",
            "expired-ack-opposite",
        ),
        Story(
            "000-consumer-ahead-plug-in",
            "only the consumer is ahead: the plug-in does not help, not checking does",
            "clocks",
            Half(one((0, 0, SKEW), PLUGIN), thrown()),
            Half(one((0, 0, SKEW), PLUGIN, check=False), CONSUMED),
            "consumerExpiryCheckEnabled=false on the consumer (since 5.11, AMQ-5406)",
            "only the broker decides what has expired; what waits in the prefetch may be older",
            "expiry=documented",
        ),
        Story(
            "000-camel-request-reply",
            "a broker 30 s behind with the plug-in: a request that lives 20 s is never answered",
            "clocks",
            Half(_answer(PLUGIN), thrown()),
            Half(_answer(FUTURE), all_of("consumed", 2, "EXP-007")),
            'futureOnly="true", or a requestTimeout beyond the difference',
            "a request may be answered after its caller has given up",
            "stamp-future-only-ignored",
        ),
        Story(
            "000-reply-thrown-away",
            "the requester is five minutes ahead: its request is answered, the answer thrown away",
            "clocks",
            Half(_reply(SKEW, LIFE), thrown(1, 1)),
            Half(_reply(SKEW, LIFE + SKEW), all_of("consumed", 2, "EXP-007")),
            "the answer's time to live includes the difference: 2 min + 5 min",
            "nobody else's clock is ahead, so for them it lives seven minutes",
            "expired-ack-opposite",
        ),
    ]


def _lives() -> list[Story]:
    """How long messages live."""
    return [
        Story(
            "000-longer-life",
            "clocks that cannot be synchronised: a time to live of 2 min + the difference + a margin",
            "clocks",
            Half(one((SKEW, 0, 0)), {**DEAD, "EXP-001": "satisfied"}),
            Half(one((SKEW, 0, 0), ttl=SKEW + LIFE + 10 * SECOND), CONSUMED),
            "add the known difference and the time to work to the time to live",
            "when the clocks agree again messages live seven minutes, not two",
            "expiry-never",
        ),
        Story(
            "000-two-consumers",
            "two JMS consumers with different clocks on one queue: half of the messages vanish",
            "clocks",
            Half(_two(check=True), thrown(TEN // 2, TEN // 2)),
            Half(_two(check=False), all_of("consumed", TEN)),
            "synchronise, or switch the check off where the clock is wrong",
            "as 000-consumer-ahead-plug-in",
            "expired-ack-opposite",
        ),
        Story(
            "000-a-day",
            "a full day of skew: nothing with less than a day to live arrives, and stamping alone cures it",
            "clocks",
            Half(one((DAY, 0, 0), ttl=DAY - MINUTE), {**DEAD, "EXP-001": "satisfied"}),
            Half(one((DAY, 0, DAY), PLUGIN, ttl=LIFE), {**CONSUMED, "TSP-002": "satisfied"}),
            "the plug-in, if consumers and broker agree",
            "JMSTimestamp is a day off the producer's",
            "stamp-leaves-dead",
        ),
        Story(
            "000-time-zone",
            "a wrong time zone: the wall clock set by the zone's offset is skew, the zone itself is nothing",
            "clocks",
            Half(one((2 * HOUR, 0, 0)), {**DEAD, "EXP-001": "satisfied"}),
            Half(_in_zones(one((0, 0, 0))), {**CONSUMED, "EXP-029": "satisfied"}),
            "set the zone, not the clock: an expiration is counted since the epoch, so zones do not matter",
            "none",
            "clock-in-local-time",
        ),
        Story(
            "000-ceiling",
            "a client asks for a day: the message is still there after a minute and a half, a ceiling ends it",
            "clocks",
            Half(_capped(0), all_of("drained", 1)),
            Half(_capped(MINUTE), all_of("dead", 1, "EXP-009")),
            "ttlCeiling: the broker has the last word on how long a message lives",
            "producers are not told",
            "stamp-no-ceiling",
        ),
    ]


def stories() -> list[Story]:
    """Of document 000."""
    return [*_broker(), *_consumers(), *_lives()]

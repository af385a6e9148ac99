"""Document 004: messages that wait for their delivery time."""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import BrokerSpec
from brokerproof.conformance.experiment.destinations import Destination, queues, topics
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Leave, Subscribe, Take, Unsubscribe
from brokerproof.conformance.experiment.steps.fault import Clock
from brokerproof.conformance.experiment.steps.operation import Restart
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.transaction import Begin, Commit, Rollback
from brokerproof.conformance.experiment.steps.waiting import Advance, Settle
from brokerproof.conformance.stories.story import HOUR, SECOND, SURE, Expects, Half, Story, client, plot

DELAY = 20 * SECOND
KEPT = {"delay=activemq": "violated", "": "satisfied"}
LONG = DELAY + SURE


def jms(value: int, classic: int) -> dict[str, int]:
    """What JMS promises, and what ActiveMQ's scheduler does."""
    return {"": value, "delay=activemq": classic}


def waits(ttl: int, *between: AnyStep, delay: int = DELAY, count: int = 1, spec: BrokerSpec | None = None) -> Program:
    """A delayed message for a consumer that is there; something may happen meanwhile."""
    taken: list[AnyStep] = [Take(deadline_ms=LONG, count=count), Ack(upto=count - 1), Settle()]
    hosts = (client("p0", 0, "jms"), client("c0", 0, "jms"))
    return plot(
        Subscribe(host=1, prefetch=10), Send(delay_ms=delay, ttl_ms=ttl), list(between), taken, hosts=hosts, broker=spec
    )


def _stepped(jump: int) -> Program:
    """The broker's clock jumps while a message waits and before another one is sent."""
    return waits(0, Clock(host=0, jump_ms=jump), Send(delay_ms=DELAY), count=2)


def _published(*, early: bool, removed: bool = False) -> Program:
    """A delayed publication and a durable subscription that begins before or after it, and may be removed."""
    come: list[AnyStep] = [Subscribe(host=1, durable="d1", prefetch=10)]
    end: list[AnyStep] = [Leave(), Unsubscribe()] if removed else []
    said: list[AnyStep] = [Send(delay_ms=DELAY)]
    first = [*come, *said, *end] if early else [*said, *come]
    late: list[AnyStep] = [Subscribe(host=1, durable="d1", prefetch=10)] if removed else []
    return plot(
        first, late, Take(deadline_ms=LONG), Ack(), Settle(), dests=topics("t0"), broker=BrokerSpec(persistent=True)
    )


def _down(*, persistent: bool) -> Program:
    """The broker is stopped while a message waits."""
    steps: list[AnyStep] = [
        Send(delay_ms=DELAY, persistent=persistent),
        Advance(ms=5 * SECOND),
        Restart(),
        Subscribe(host=1),
        Take(deadline_ms=LONG),
        Ack(),
        Settle(),
    ]
    return plot(steps, broker=BrokerSpec(persistent=True))


def _told(*, stays: bool) -> Program:
    """A delayed message to a temporary queue of which its owner has told; it ``stays``, or goes meanwhile."""
    ask: list[AnyStep] = [Subscribe(host=1, dest=1, prefetch=10), Subscribe(host=0, dest=0, prefetch=10)]
    ask += [Send(host=1, dest=0, reply=True), Take(host=0, deadline_ms=SURE), Ack(host=0)]
    ask += [Send(host=0, dest=1, delay_ms=DELAY)]
    end: list[AnyStep] = [Take(host=1, deadline_ms=LONG), Ack(host=1)] if stays else [Leave(host=1, how="drop")]
    dests = [*queues("q0"), Destination("~c0", "temporary", host="c0")]
    return plot(ask, end, Advance(ms=DELAY + 5 * SECOND), Settle(), dests=dests)


def _unit(*, commit: bool) -> Program:
    """A delayed message in a transaction that ends before the delay does."""
    end: AnyStep = Commit() if commit else Rollback()
    begin: list[AnyStep] = [Subscribe(host=1, prefetch=10), Begin(), Send(delay_ms=DELAY), Advance(ms=DELAY // 2)]
    return plot(begin, end, Take(deadline_ms=LONG), Ack(), Settle())


ON_TIME: Expects = {"taken": 1, "waited-ms": (DELAY, DELAY + 2 * SECOND), "DLY-001": "satisfied"}
#: ActiveMQ's scheduler goes by the wall clock: a step forward releases at once, a step back strands, which is no loss.
FORWARD: Expects = {"taken": 2, "waited-ms": {"": ON_TIME["waited-ms"]}, "DLY-001": KEPT, "DLY-008": KEPT}
BACK: Expects = {"taken": jms(2, 1), "DLY-008": KEPT}


def _waiting() -> list[Story]:
    """Delays by themselves."""
    return [
        Story(
            "004-delay",
            "a delay of 20 s: no application gets the message before",
            "clocks",
            Half(waits(0), ON_TIME),
            Half(waits(0, delay=0), {"taken": 1, "waited-ms": (0, 2 * SECOND)}),
            "send without a delay",
            "none",
            "delay-ignored",
        ),
        Story(
            "004-shorter-life",
            "20 s of delay and 10 s to live: dead before it is due; 30 s to live: taken",
            "clocks",
            Half(waits(10 * SECOND), {"dead": jms(1, 0), "consumed": jms(0, 1), "DLY-006": KEPT}),
            Half(waits(30 * SECOND), {**ON_TIME, "DLY-006": KEPT}),
            "a time to live that includes the delay",
            "IBM MQ refuses the shorter one at the send (MQRC_EXPIRY_ERROR), ActiveMQ begins the life at the release",
            "delay-restarts-life",
        ),
        Story(
            "004-clock-step",
            "the broker's clock is set forward, or back, by an hour while messages wait: they still wait",
            "clocks",
            Half(_stepped(HOUR), FORWARD),
            Half(_stepped(-HOUR), BACK),
            "none is needed: a delay runs on elapsed time",
            "none",
            "delay-by-wall-clock",
            beyond=True,
        ),
        Story(
            "004-target-gone",
            "the target is gone when the delay is over, a temporary queue whose owner has left: so is the message",
            "clocks",
            Half(_told(stays=False), {"taken": 1, "gone": 1, "drained": 0, "dead": 0}),
            Half(_told(stays=True), {"taken": 2, "gone": 0, "DLY-001": "satisfied"}),
            "a queue that outlives its consumer's connection",
            "somebody must remove it",
            "delay-ignored",
            beyond=True,
        ),
    ]


def _audience() -> list[Story]:
    """Who gets a message, and when it is there."""
    return [
        Story(
            "004-late-subscriber",
            "subscriptions are matched when a publication is sent: who comes later gets nothing",
            "clocks",
            Half(_published(early=False), {"taken": jms(0, 1), "DLY-020": {"delay=activemq": "violated"}}),
            Half(_published(early=True), {"taken": 1, "DLY-020": "satisfied"}),
            "subscribe before the publication is sent",
            "a durable subscription must be ended by somebody",
            "delay-audience-at-release",
        ),
        Story(
            "004-removed-subscription",
            "a subscription is removed while a publication waits: its copy is discarded",
            "clocks",
            Half(_published(early=True, removed=True), {"taken": jms(0, 1), "DLY-022": KEPT}),
            Half(_published(early=True), {"taken": 1}),
            "keep the subscription until the delay is over",
            "it also gets everything else",
            "delay-audience-at-release",
        ),
        Story(
            "004-restart",
            "the processor is stopped and started while messages wait: persistent ones come when they are due",
            "clocks",
            Half(_down(persistent=False), {"taken": (0, 1), "DLY-025": "satisfied"}),
            Half(_down(persistent=True), {"taken": 1, "DLY-023": "satisfied"}),
            "persistent messages",
            "a write to the disk for each",
            "delay-restart-again",
        ),
        Story(
            "004-unit-of-work",
            "in a unit of work nothing waits before the commit, and a rollback removes it",
            "clocks",
            Half(_unit(commit=False), {"taken": 0, "gone": 1, "DLY-019": "satisfied"}),
            Half(_unit(commit=True), {"taken": 1, "DLY-019": "satisfied"}),
            "commit",
            "none",
            "delay-outside-transaction",
        ),
        Story(
            "004-not-supported",
            "a broker that knows no delays refuses them; it does not deliver at once",
            "clocks",
            Half(
                waits(0, spec=BrokerSpec(delay_support=False)),
                {"refused": jms(1, 0), "taken": jms(0, 1), "DLY-031": KEPT},
            ),
            Half(waits(0), ON_TIME),
            "a broker that supports delivery delay (IBM MQ since 8.0, MQRC_FUNCTION_NOT_SUPPORTED before)",
            "none",
            "delay-unsupported-taken",
        ),
        Story(
            "004-deferred-queue",
            "a message without a delay does not wait behind one that has to",
            "clocks",
            Half(waits(0, Send(delay_ms=DELAY // 2), count=2), {"taken": 2, "DLY-007": "satisfied"}),
            Half(waits(0, Send(), count=2), {"taken": 2, "DLY-004": "satisfied"}),
            "none is needed",
            "none",
            "delay-holds-plain",
        ),
    ]


def stories() -> list[Story]:
    """Of document 004."""
    return [*_waiting(), *_audience()]

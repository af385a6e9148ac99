"""Networks of two brokers (documents 000 and 004 over a hop): producer, near broker, bridge, far broker and consumer
have a clock each, and "every broker will honour this time" only if theirs agree.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, TimeStampingSpec
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Subscribe, Take
from brokerproof.conformance.experiment.steps.fault import Cut, Resume, Stall
from brokerproof.conformance.experiment.steps.operation import Restart
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Advance, Settle
from brokerproof.conformance.stories.clocks import LIFE, PLUGIN, SKEW, all_of
from brokerproof.conformance.stories.delays import DELAY
from brokerproof.conformance.stories.story import MINUTE, SECOND, VAIN, Half, Story, client, plot

#: Until a bridge, or an ActiveMQ's network connector, is there.
THERE = Advance(ms=1500)
CONSUMED, DEAD = all_of("consumed", 1, "GEN-172"), all_of("dead", 1, "GEN-172")
EVERYWHERE = TimeStampingSpec(process_network_messages=True)


def over(
    *steps: AnyStep | list[AnyStep],
    far: int = 0,
    plugin: TimeStampingSpec | None = None,
    persistent: bool = False,
) -> Program:
    """A queue from broker b, where p0 sends, over the bridge n0 to b2, where c0 consumes; b2's clock is ahead by
    so many milliseconds.
    """
    there = HostSpec("b2", "broker", clock=ClockSpec(far))
    consumer = HostSpec("c0", "client", "jms", at="b2")
    hosts = (there, client("p0", 0, "jms"), consumer, HostSpec("n0", "bridge", to="b2"))
    broker = BrokerSpec(timestamping=plugin, dead_letter_non_persistent=True, persistent=persistent)
    return plot([Subscribe(host=1, prefetch=10), THERE], *steps, hosts=hosts, broker=broker)


def one(far: int, plugin: TimeStampingSpec | None = None, *, send: Send | None = None) -> Program:
    """One message, with two minutes to live if ``send`` does not say otherwise."""
    sent = send or Send(ttl_ms=LIFE)
    taken: list[AnyStep] = [Take(deadline_ms=sent.delay_ms + 2 * VAIN), Ack(), Settle()]
    return over(sent, taken, far=far, plugin=plugin)


def waiting(*, persistent: bool) -> Program:
    """Three messages wait for a bridge that is gone, and the near broker is killed."""
    lost: list[AnyStep] = [Cut(how="kill"), Send(count=3, persistent=persistent), Restart(how="kill")]
    taken: list[AnyStep] = [Advance(ms=5 * SECOND), Take(deadline_ms=2 * VAIN, count=3), Ack(upto=2), Settle()]
    return over(lost, taken, persistent=True)


def held_up(*, ttl_ms: int) -> Program:
    """The way to the far broker stands still for ten seconds while three messages are to cross."""
    waits: list[AnyStep] = [Stall(toward="broker"), Send(count=3, ttl_ms=ttl_ms), Advance(ms=10 * SECOND), Resume()]
    return over(waits, [Advance(ms=2 * SECOND), Take(deadline_ms=2 * VAIN, count=3), Ack(upto=2), Settle()])


def sent_again(*, forgets: bool) -> Program:
    """What the far broker answers reaches the bridge no more, so it sends three messages again that were consumed; the
    far broker's audit knows them, unless it was killed in between.
    """
    unheard: list[AnyStep] = [Stall(toward="client"), Send(count=3), Take(deadline_ms=2 * VAIN, count=3), Ack(upto=2)]
    killed: list[AnyStep] = [Restart(how="kill", broker=1)] if forgets else []
    return over(unheard, [Advance(ms=SECOND), Cut(), *killed, Resume(), Advance(ms=5 * SECOND)], persistent=True)


def _lives() -> list[Story]:
    """What life remains where clocks differ."""
    return [
        Story(
            "000-network-honours",
            "every broker is to honour an expiration; one on the way is five minutes ahead, and the message dies there",
            "clocks",
            Half(one(SKEW), DEAD),
            Half(one(0), CONSUMED),
            "synchronise the brokers of a network",
            "none",
            "bridge-1ms-longer",
            beyond=True,
        ),
        Story(
            "000-network-plug-in",
            "the plug-in on every broker: it passes over what came from another one, until it is told not to",
            "clocks",
            Half(one(SKEW, PLUGIN), DEAD),
            Half(one(SKEW, EVERYWHERE), all_of("consumed")),
            "processNetworkMessages: every broker stamps by its own clock",
            "every hop begins the time to live again",
            "stamp-bridged",
            beyond=True,
        ),
        Story(
            "000-network-relative",
            "a life that is counted by each broker's own clock survives a broker that is five minutes ahead",
            "clocks",
            Half(one(SKEW), DEAD),
            Half(one(SKEW, send=Send(life_ms=LIFE)), all_of("consumed")),
            "a relative time to live, where the broker has one",
            "every hop begins it again",
            "bridge-1ms-longer",
            beyond=True,
        ),
        Story(
            "004-network-delay",
            "a delay ends before the hop: 30 s of life after it are too few for a broker that is a minute ahead",
            "clocks",
            Half(one(MINUTE, send=Send(delay_ms=DELAY, ttl_ms=DELAY + MINUTE // 2)), DEAD),
            Half(one(MINUTE, send=Send(delay_ms=DELAY, ttl_ms=DELAY + 2 * MINUTE)), CONSUMED),
            "a time to live that includes the delay and the difference of the clocks",
            "when they agree again messages live longer",
            "bridge-delays-again",
            beyond=True,
        ),
    ]


def _ways() -> list[Story]:
    """What a bridge loses and doubles."""
    return [
        Story(
            "000-network-stalled",
            "the way between two brokers stands still for longer than messages live: they die at the far one",
            "links",
            Half(held_up(ttl_ms=5 * SECOND), {"consumed": 0, "dead": 3}),
            Half(held_up(ttl_ms=LIFE), {"consumed": 3, "dead": 0, "GEN-174": "satisfied"}),
            "a time to live beyond the longest stall; a monitor on the bridge's connection ends it earlier",
            "messages that nobody wants any more are carried, too",
            "bridge-hoards",
            beyond=True,
        ),
        Story(
            "000-network-audit",
            "a bridge sends again what was not confirmed, and a far broker that was killed has forgotten its audit",
            "links",
            Half(sent_again(forgets=True), {"consumed": 3, "drained": 3}),
            Half(sent_again(forgets=False), {"consumed": 3, "drained": 0, "GEN-170": "satisfied"}),
            "restart a broker when the bridges to it have nothing unconfirmed",
            "none; it may die all the same, so consumers must know what they have had",
            "crossing-taken-again",
            beyond=True,
        ),
        Story(
            "000-network-cut",
            "a bridge dies, and the near broker is killed: what waited for it and was not persistent is gone",
            "links",
            Half(waiting(persistent=False), {"consumed": 0, "gone": 3}),
            Half(waiting(persistent=True), {"consumed": 3, "gone": 0, "GEN-080": "satisfied"}),
            "persistent messages: they cross when broker and bridge are back",
            "each is written to the store of either broker",
            "journal-forgets-message",
            beyond=True,
        ),
    ]


def stories() -> list[Story]:
    """Of networks of brokers."""
    return [*_lives(), *_ways()]

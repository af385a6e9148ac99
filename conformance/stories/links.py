"""Document 001: the inactivity monitors at both ends of a link."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.experiment.configuration import BrokerSpec, ConnectorSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Subscribe, Take
from brokerproof.conformance.experiment.steps.fault import Resume, Stall
from brokerproof.conformance.experiment.steps.probe import Probe
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Advance, Settle
from brokerproof.conformance.stories.story import HOUR, SECOND, SURE, Half, Story, client, plot

#: As shipped: wireFormat.maxInactivityDuration and wireFormat.maxInactivityDurationInitalDelay.
SHIPPED = MonitorSpec(30 * SECOND, 10 * SECOND)
SHORT = MonitorSpec(2 * SECOND, SECOND)
OFF = MonitorSpec(0, 0)
JMS = (client("p0", 0, "jms"), client("c0", 0, "jms"))


def silent(
    monitor: MonitorSpec, toward: str, ms: int, *, offer: MonitorSpec | None = None, held: bool = False
) -> Program:
    """A link that works, and then carries nothing more ``toward`` one end for so long; "": it is only idle."""
    begin: list[AnyStep] = [Send(), Subscribe(host=1, prefetch=1), Take(deadline_ms=SURE)]
    begin += [Settle()] if held else [Ack(), Settle()]
    fault: list[AnyStep] = [Stall(link=1, toward=toward)] if toward else []  # type: ignore[arg-type]  # "" is no stall
    after: list[AnyStep] = [Subscribe(host=0, prefetch=1), Take(host=1, deadline_ms=SURE), Ack(host=1)] if held else []
    end: list[AnyStep] = [Resume(), Settle()] if toward else [Settle()]
    broker = BrokerSpec(monitor_offer=offer)
    return plot(begin, fault, Advance(ms=ms), after, end, hosts=JMS, links={"c0": monitor}, broker=broker)


def peers(connector: ConnectorSpec | None, ms: int, offer: MonitorSpec = SHORT, **options: Any) -> Program:
    """Raw peers over OpenWire that say hello and then nothing, or what ``options`` say, for so long."""
    asked = {"via": "openwire", "offer_ms": (offer.read_ms, offer.initial_delay_ms), **options}
    return plot(Probe(ms=ms, **asked), Settle(), broker=BrokerSpec(connector=connector))


def _large(monitor: MonitorSpec, connector: ConnectorSpec | None = None) -> Program:
    """A megabyte on a link of 100 kB/s, which hangs for five seconds in the middle of it."""
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=1),
        Send(size=1_000_000),
        Advance(ms=2 * SECOND),
        Stall(link=1, toward="client"),
        Advance(ms=5 * SECOND),
        Resume(),
        Take(deadline_ms=30 * SECOND),
        Ack(),
        Settle(),
    ]
    slow = LinkSpec("c0", monitor=monitor, bytes_per_second=100_000)
    return plot(steps, hosts=JMS, links={"c0": slow}, broker=BrokerSpec(connector=connector))


SEEN = {"broker-closed": 1, "INA-001": "satisfied"}
QUIET = {"broker-closed": 0, "client-closed": 0}
#: Documented: within R to 1.1 R, and D more at the beginning; as the code does it: within 2R to 3R.
NOTICED = {"monitor=classic": (60 * SECOND, 91 * SECOND), "": (30 * SECOND, 44 * SECOND)}
SOON = {"monitor=classic": (4 * SECOND, 7 * SECOND), "": (2 * SECOND, 4 * SECOND)}


def _silence() -> list[Story]:
    """Silence and idleness."""
    return [
        Story(
            "001-defaults",
            "30,000 and 10,000 ms as shipped: a link from which nothing comes is closed, an idle one is not",
            "links",
            Half(silent(SHIPPED, "broker", 100 * SECOND), {**SEEN, "silent-ms": NOTICED}),
            Half(silent(SHIPPED, "", 100 * SECOND), {**QUIET, "INA-002": "satisfied"}),
            "none is needed for most uses: keep-alives tell an idle link from a dead one",
            "a keep-alive each 10 s and direction",
            "monitor-twice-as-patient",
        ),
        Story(
            "001-client-notices",
            "each end has a monitor: the client notices a broker from which nothing comes",
            "links",
            Half(silent(SHORT, "client", 10 * SECOND), {"client-closed": 1, "INA-006": "satisfied"}),
            Half(silent(SHORT, "", 10 * SECOND), {**QUIET, "INA-002": "satisfied"}),
            "let the client reconnect (failover:)",
            "what it held is delivered again",
            "client-monitor-asleep",
        ),
        Story(
            "001-shorter-offer-of-the-client",
            "the broker offers 30 s, the client 2 s: the shorter is taken",
            "links",
            Half(silent(SHORT, "broker", 10 * SECOND), {**SEEN, "silent-ms": SOON}),
            Half(silent(SHIPPED, "broker", 10 * SECOND), QUIET),
            "offer the longer period at both ends",
            "a dead peer is noticed later",
            "monitor-own-offer",
        ),
        Story(
            "001-shorter-offer-of-the-broker",
            "the client offers 30 s, the broker 2 s: the shorter is taken",
            "links",
            Half(silent(SHIPPED, "broker", 10 * SECOND, offer=SHORT), {**SEEN, "silent-ms": SOON}),
            Half(silent(SHIPPED, "broker", 10 * SECOND), QUIET),
            "offer the longer period at both ends",
            "a dead peer is noticed later",
            "monitor-twice-as-patient",
        ),
    ]


def _switches() -> list[Story]:
    """What is switched off."""
    return [
        Story(
            "001-switched-off-by-zero",
            "maxInactivityDuration=0: a link that carries nothing for an hour is not closed",
            "links",
            Half(silent(SHORT, "broker", 10 * SECOND), SEEN),
            Half(silent(OFF, "broker", HOUR), {**QUIET, "INA-003": "satisfied"}),
            "wireFormat.maxInactivityDuration=0 at either end",
            "a dead peer is never noticed, and keeps what it holds",
            "monitor-uninvited",
        ),
        Story(
            "001-switched-off",
            "useInactivityMonitor=false at the broker: a silent peer stays for an hour",
            "links",
            Half(peers(None, 10 * SECOND), {"hung-up": 1}),
            Half(peers(ConnectorSpec(use_monitor=False), HOUR), {"hung-up": 0}),
            "transport.useInactivityMonitor=false",
            "a dead peer is never noticed; peers with a monitor of their own hear no keep-alives",
            "monitor-uninvited",
        ),
        Story(
            "001-no-keep-alives",
            "useKeepAlive=false at the broker: it says nothing to an idle peer, and still closes silent ones",
            "links",
            Half(peers(ConnectorSpec(use_keep_alive=False), 10 * SECOND), {"hung-up": 1, "beats": 0}),
            Half(
                peers(None, 10 * SECOND, says="beats", every_ms=500, talk_ms=10 * SECOND),
                {"hung-up": 0, "beats": (4, 40)},
            ),
            "leave keep-alives on at both ends",
            "a few bytes each third of the period",
            "monitor-mute",
        ),
    ]


def _slow() -> list[Story]:
    """A slow network."""
    return [
        Story(
            "001-large-message",
            "a large message over a slow network that hangs for five seconds: dropped in the middle",
            "links",
            Half(_large(SHORT), {"client-closed": 1, "taken": 0}),
            Half(_large(SHIPPED), {**QUIET, "taken": 1}),
            "a longer maxInactivityDuration",
            "a dead peer is noticed later",
            "client-monitor-asleep",
        ),
        Story(
            "001-large-message-unwatched",
            "the same message where no monitor watches, and a write timeout finds the peers that take nothing at all",
            "links",
            Half(_large(SHORT), {"client-closed": 1, "taken": 0}),
            Half(
                _large(OFF, ConnectorSpec(write_timeout_ms=60 * SECOND)), {**QUIET, "taken": 1, "INA-003": "satisfied"}
            ),
            "maxInactivityDuration=0 and transport.soWriteTimeout, longer than the message takes, the hang included",
            "an idle peer that has died is not noticed",
            "client-monitor-asleep",
        ),
    ]


def _peers() -> list[Story]:
    """Peers of other kinds."""
    return [
        Story(
            "001-deaf-peer",
            "a peer that sends but does not read: no monitor sees it, a write timeout does",
            "links",
            Half(
                peers(None, 20 * SECOND, via="stomp", deaf=True, says="beats", every_ms=500, talk_ms=20 * SECOND),
                {"hung-up": 0},
            ),
            Half(
                peers(
                    ConnectorSpec(write_timeout_ms=3000),
                    20 * SECOND,
                    via="stomp",
                    deaf=True,
                    says="beats",
                    every_ms=500,
                    talk_ms=20 * SECOND,
                ),
                {"hung-up": 1, "INA-016": "satisfied"},
            ),
            "transport.soWriteTimeout",
            "a peer that is only slow may be cut off",
            "write-timeout-ignored",
            beyond=True,
        ),
        Story(
            "001-initial-delay",
            "200 connections at once of which nothing comes for six seconds: the initial delay keeps them",
            "links",
            Half(peers(None, 6 * SECOND, MonitorSpec(1000, 0), times=200), {"hung-up": (100, 200)}),
            Half(peers(None, 6 * SECOND, MonitorSpec(1000, 10_000), times=200), {"hung-up": 0}),
            "wireFormat.maxInactivityDurationInitalDelay",
            "a peer that is dead from the start is noticed later by as much",
            "monitor-late-start",
        ),
        Story(
            "001-held-by-a-dead-link",
            "what the consumer of a dead link holds comes to another one when the link is closed",
            "links",
            Half(silent(OFF, "broker", 10 * SECOND, held=True), {**QUIET, "INA-003": "satisfied"}),
            Half(silent(SHORT, "broker", 10 * SECOND, held=True), {**SEEN, "INA-005": "satisfied"}),
            "keep the monitor on",
            "a consumer that is only slow to answer may see its messages given to others",
            "returns-lost",
            beyond=True,
        ),
    ]


def stories() -> list[Story]:
    """Of document 001."""
    return [*_silence(), *_switches(), *_slow(), *_peers()]

"""Scenario templates of settings, and of features that meet: what needs several steps in their order to show at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerproof.conformance.experiment.policies import UNASKED
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    AnyStep,
    Begin,
    Commit,
    Leave,
    Operate,
    Probe,
    Restart,
    Resume,
    Send,
    Settle,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.generate.choices import looked_at, picked
from brokerproof.conformance.generate.templates import Template, dest_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.steps import Shape


def _host(chooser: Chooser, shape: Shape) -> int:
    return chooser.below(shape.clients)


def _other(chooser: Chooser, shape: Shape, dest: int) -> int:
    """Another destination, if there is one."""
    others = [one for one in shape.open_to if one in shape.consumable and one != dest]
    return others[chooser.below(len(others))] if others else dest


def _topic(chooser: Chooser, shape: Shape) -> int:
    return shape.topics[chooser.below(len(shape.topics))] if shape.topics else 0


def late_commit(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """What is sent in a transaction becomes due, or dies, around the commit."""
    who, dest, ms = _host(chooser, shape), dest_of(chooser, shape), 2 + shape.draw_ms(chooser)
    mortal: dict[str, Any] = {"ttl_ms": ms} if chooser.flag(50) else {"delay_ms": ms}
    return [
        Subscribe(host=_host(chooser, shape), dest=dest, prefetch=10),
        Begin(host=who),
        Send(host=who, dest=dest, **mortal),
        Send(host=who, dest=dest),
        Advance(ms=max(1, (ms // 2, ms + 1, ms + 500)[chooser.below(3)])),
        Commit(host=who),
        Advance(ms=ms),
        Settle(),
    ]


def due_while_down(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A delay ends while the broker is down, or soon after."""
    dest, ms = dest_of(chooser, shape), 12 + shape.draw_ms(chooser)
    return [
        Send(host=_host(chooser, shape), dest=dest, delay_ms=ms, count=1 + chooser.below(2)),
        Advance(ms=max(1, ms - (10, 1, ms // 2)[chooser.below(3)])),
        Restart(how="kill" if chooser.flag(60) else "stop"),
        Subscribe(host=_host(chooser, shape), dest=dest, prefetch=10),
        Advance(ms=ms + 1500),
        Settle(),
    ]


def deep_delays(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Many messages wait for long, one for a short time."""
    dest, who = dest_of(chooser, shape), _host(chooser, shape)
    return [
        Subscribe(host=_host(chooser, shape), dest=dest, prefetch=10),
        Send(host=who, dest=dest, count=100 + chooser.below(20), delay_ms=600_000, size=0),
        Send(host=who, dest=dest, delay_ms=1 + shape.draw_ms(chooser) % 2000),
        Advance(ms=3500),
        Settle(),
    ]


def beside_a_full_queue(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Releases to one destination find no room; another one has some."""
    dest = dest_of(chooser, shape)
    other = _other(chooser, shape, dest)
    return [
        Subscribe(host=_host(chooser, shape), dest=other, prefetch=10),
        Send(host=_host(chooser, shape), dest=dest, count=12 + chooser.below(8), delay_ms=500, size=4096),
        Send(host=_host(chooser, shape), dest=other, delay_ms=(600, 500, 1500)[chooser.below(3)]),
        Advance(ms=3000),
        Settle(),
    ]


def quiet_death(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """One message dies, and nothing else happens."""
    dest, ms = dest_of(chooser, shape), 1 + shape.draw_ms(chooser) % 5000
    return [
        Send(host=_host(chooser, shape), dest=dest, ttl_ms=ms, count=1 + chooser.below(2)),
        Settle(),
        Advance(ms=ms + (1500, 31_000)[chooser.below(2)]),
        Settle(),
    ]


def shared_death(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Several durable subscriptions, perhaps away, share messages of which some die."""
    topic, ms = _topic(chooser, shape), 1 + shape.draw_ms(chooser) % 5000
    subscribers = [Subscribe(host=host, dest=topic, durable="d1", prefetch=10) for host in range(min(2, shape.clients))]
    steps: list[AnyStep] = [*subscribers]
    if chooser.flag(70):
        steps += [Leave(host=one.host) for one in subscribers]
    late: dict[str, Any] = {"delay_ms": ms} if chooser.flag(30) else {"ttl_ms": ms}
    steps += [Send(host=_host(chooser, shape), dest=topic, **late), Send(host=_host(chooser, shape), dest=topic)]
    steps += [Advance(ms=ms + (1500, 1, 0)[chooser.below(3)]), *subscribers]
    for one in subscribers:
        steps += [Take(host=one.host, deadline_ms=50, count=2), Ack(host=one.host)]
    return [*steps, Settle()]


def listening(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Somebody listens to what the broker tells; messages die, consumers come and go."""
    told = [dest for dest in shape.consumable if dest not in shape.open_to]
    ms = 1 + shape.draw_ms(chooser) % 3000
    steps: list[AnyStep] = [
        Subscribe(host=_host(chooser, shape), dest=dest, prefetch=1000, ack="auto") for dest in told[-1:]
    ]
    other = _host(chooser, shape)
    steps += [Settle(), Send(host=_host(chooser, shape), dest=0, ttl_ms=ms, count=1 + chooser.below(2)), Settle()]
    steps += [Advance(ms=ms + 1500), Settle(), Subscribe(host=other, dest=0, prefetch=10), Settle()]
    return [*steps, Leave(host=other), Settle(), Advance(ms=10)]


def deaf_neighbour(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Two equal consumers share what comes; perhaps one of them hears nothing of it."""
    dest, one = dest_of(chooser, shape), _host(chooser, shape)
    other = (one + 1) % shape.clients
    ack = ("client", "auto")[chooser.below(2)]
    consumer = Subscribe(host=one, dest=dest, prefetch=1000, ack=ack)  # type: ignore[arg-type]  # indexing a tuple of literals
    steps: list[AnyStep] = [consumer]
    if other != one:
        steps.append(Subscribe(host=other, dest=dest, prefetch=1000, ack=consumer.ack))
    steps.append(Settle())
    if "stalls" in shape.features:
        steps.append(Stall(link=other, toward="client"))
    steps.append(Send(host=one, dest=dest, count=20 + chooser.below(40), size=(64, 1024)[chooser.below(2)]))
    if "stalls" in shape.features:
        steps += [Advance(ms=(100, 5000)[chooser.below(2)]), Resume()]
    return [*steps, Settle()]


def slow_message(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A large message needs longer than a monitor waits."""
    dest, who = dest_of(chooser, shape), _host(chooser, shape)
    return [
        Subscribe(host=_host(chooser, shape), dest=dest, prefetch=10),
        Send(host=who, dest=dest, size=(50_000, 200_000)[chooser.below(2)], persistent=chooser.flag(50)),
        Advance(ms=10_000),
        Take(host=who, deadline_ms=1000),
        Settle(),
    ]


def deaf_peer(chooser: Chooser, shape: Shape) -> list[AnyStep]:  # noqa: ARG001 - a raw peer needs nobody
    """A raw peer that is sent much and reads nothing, or that nobody keeps alive."""
    period_ms = (1000, 300, 500)[chooser.below(3)]
    if chooser.flag(50):
        via = ("stomp", "openwire")[chooser.below(2)]
        says = ("nothing", "beats")[chooser.below(2)]
        offer = (period_ms, (period_ms, 100)[chooser.below(2)])
        return [Probe(via=via, offer_ms=offer, says=says, talk_ms=1000, ms=5000)]  # type: ignore[arg-type]  # as above
    talk_ms = (9000, 500)[chooser.below(2)]
    return [Probe(offer_ms=(period_ms, 0), says="beats", every_ms=200, talk_ms=talk_ms, deaf=True, ms=10_000)]


def wild_topic(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A consumer of all topics, with a small window, round after round."""
    who, topic = _host(chooser, shape), _topic(chooser, shape)
    steps: list[AnyStep] = [Subscribe(host=who, dest=topic, prefetch=2 + chooser.below(3), wild=True)]
    for _ in range(3):
        sends = [Send(host=_host(chooser, shape), dest=_topic(chooser, shape), count=2) for _ in range(2)]
        steps += [*sends, Settle(), Take(host=who, deadline_ms=5, count=4), Ack(host=who, upto=3), Settle()]
    return steps


def fast_beside_slow(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A backlog nobody takes, beside a queue whose consumer takes at once."""
    dest, who = dest_of(chooser, shape), _host(chooser, shape)
    backlog = Send(host=_host(chooser, shape), dest=_other(chooser, shape, dest), count=8 + chooser.below(6), size=1024)
    steps: list[AnyStep] = [backlog, Subscribe(host=who, dest=dest, prefetch=10), Settle()]
    for _ in range(2):
        steps += [Send(host=_host(chooser, shape), dest=dest, size=1024), Advance(ms=5000)]
        steps += [Take(host=who, deadline_ms=200), Ack(host=who)]
    return [*steps, Settle()]


def relief(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Whoever holds the memory is purged, or takes; then the others go on."""
    dest, who = dest_of(chooser, shape), _host(chooser, shape)
    other = _other(chooser, shape, dest)
    steps: list[AnyStep] = [
        Send(host=_host(chooser, shape), dest=other, count=4 + chooser.below(4), size=1024),
        Subscribe(host=_host(chooser, shape), dest=other, prefetch=4),
        Settle(),
        Send(host=_host(chooser, shape), dest=dest, count=3, size=1024),
        Subscribe(host=who, dest=dest, prefetch=10),
        Settle(),
    ]
    return [*steps, Operate(dest=other), Settle(), Take(host=who, deadline_ms=200, count=3), Ack(host=who, upto=2)]


def page_by_page(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """A backlog is loaded from the store, for a consumer with a small window."""
    dest = dest_of(chooser, shape)
    return [
        Send(host=_host(chooser, shape), dest=dest, count=20 + chooser.below(20), size=1024),
        Restart(how="kill" if chooser.flag(60) else "stop"),
        Settle(),
        Subscribe(host=_host(chooser, shape), dest=dest, prefetch=1 + chooser.below(3)),
        Settle(),
    ]


def full_disk(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """One kind of message fills its room; the other kind and later ones of its own are sent, too."""
    dest, who, persistent = dest_of(chooser, shape), _host(chooser, shape), chooser.flag(50)
    others, count = (who + 1) % shape.clients, 2 + chooser.below(4)
    if "limits" in shape.features and chooser.flag(60):
        count += 4 + chooser.below(12)  # files are asked for what memory has no room for
    return [
        Send(host=who, dest=dest, count=count, size=4096, persistent=persistent),
        Send(host=others, dest=dest, size=1024, persistent=not persistent),
        Settle(),
        Subscribe(host=others, dest=dest, prefetch=10),
        Take(host=others, deadline_ms=200, count=3),
        Ack(host=others, upto=2),
        Settle(),
    ]


def default_window(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Who asks for no window gets that of its kind, and no more messages."""
    who = _host(chooser, shape)
    kind = chooser.below(3)
    dest = _topic(chooser, shape) if kind and shape.topics else dest_of(chooser, shape)
    consumer = Subscribe(
        host=who, dest=dest, prefetch=UNASKED, ack="individual", durable="d1" if kind == 1 else "", browser=kind == 2
    )
    return [consumer, Send(host=_host(chooser, shape), dest=dest, count=103 + chooser.below(5), size=0), Settle()]


def moved(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """What an operator moves has part of its life behind it."""
    ms = 5000 + shape.draw_ms(chooser)
    return [
        Send(host=_host(chooser, shape), dest=0, ttl_ms=ms + 60_000, count=1 + chooser.below(3)),
        Advance(ms=5000),
        Operate(op="move"),
        Subscribe(host=_host(chooser, shape), dest=1 % shape.dests, prefetch=10),
        Settle(),
    ]


#: Feature -> templates that it may be told by.
SCENARIOS: dict[str, tuple[Template, ...]] = {
    "transactions": (late_commit,),
    "selectors": (looked_at, picked),
    "browsers": (looked_at,),
    "restarts": (due_while_down, page_by_page),
    "delays": (deep_delays, beside_a_full_queue),
    "ttls": (quiet_death,),
    "durables": (shared_death,),
    "advisories": (listening,),
    "stalls": (deaf_neighbour,),
    "several-clients": (deaf_neighbour,),
    "slow-links": (slow_message,),
    "raw-peers": (deaf_peer,),
    "connectors": (deaf_peer,),
    "wildcards": (wild_topic,),
    "limits": (fast_beside_slow, relief, beside_a_full_queue),
    "paging": (page_by_page,),
    "disk": (full_disk,),
    "windows": (default_window,),
    "operator": (moved,),
}

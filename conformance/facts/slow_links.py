"""Slow links: when a link of limited bandwidth was busy for so long that what followed was late: a part of the
recording pass.

Upwards what a client sent goes one after the other; downwards an arrival had occupied the link just before it.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import Arrive, Browse, History, Leave, Send, Subscribe
from brokerproof.conformance.facts.rows import Client, Destination
from brokerproof.conformance.facts.spans import NS_PER_MS, Span
from brokerproof.conformance.facts.tables import Tables

#: What a frame has beside its body, roughly; a short pause between two of them is none.
FRAME_BYTES: Final = 512
#: The most that a message of nobody's own may have: the letter of what a raw peer that never reads sent to itself.
FOREIGN_BYTES: Final = 1 << 18
#: How long a real proxy that limits a rate may wait between two pieces, on a busy machine.
PROXY_NS: Final = 250 * NS_PER_MS
#: The part of the declared lateness that a link may be busy without making anything late.
PART: Final = 8


def mark_slow_links(tables: Tables, history: History) -> None:
    """Note when links were busy."""
    if not any(rate > 0 for rate in tables.declared.bytes_per_second.values()):
        return
    sends = [event for event in history.events if isinstance(event, Send)]
    arrivals = [event for event in history.events if isinstance(event, Arrive)]
    browses = [event for event in history.events if isinstance(event, Browse)]
    for host, rate in tables.declared.bytes_per_second.items():
        if rate > 0:
            client = tables.client(host)
            heard = [(event.message, event.t1) for event in arrivals if event.host == host]
            heard += [(name, event.t1) for event in browses if event.host == host for name in event.messages]
            upwards = _upwards(sends, host, rate)
            downwards = _downwards(sends, heard, rate) + _in_vain(history, sends, arrivals, host, rate)
            client.busy, client.uploads = _long(tables, upwards + downwards, rate), _long(tables, upwards, rate)


def _upwards(sends: list[Send], host: str, rate: int) -> list[Span]:
    found: list[Span] = []
    free_ns = 0
    for event in sends:
        if event.host == host:
            times = 2 if event.again else 1
            free_ns = max(free_ns, event.t0) + times * _takes_ns(event.size, rate)
            found.append((event.t0, max(free_ns, event.t1)))
    return found


def _downwards(sends: list[Send], heard: list[tuple[str, int]], rate: int) -> list[Span]:
    sizes = {event.message: event.size for event in sends}
    return [(at_ns - _takes_ns(sizes.get(message, FOREIGN_BYTES), rate), at_ns) for message, at_ns in heard]


def _in_vain(history: History, sends: list[Send], arrivals: list[Arrive], host: str, rate: int) -> list[Span]:
    """What may have been on its way to a consumer when it left, and that nobody saw arrive."""
    found: list[Span] = []
    open_now: dict[str, Subscribe] = {}
    for event in history.events:
        if event.host != host:
            continue
        if isinstance(event, Subscribe) and event.result != "fail":
            open_now[event.consumer] = event
        elif isinstance(event, Leave):
            left = [event.consumer] if event.consumer is not None else list(open_now)
            gone = [one for name in left if (one := open_now.pop(name, None)) is not None]
            took_ns = sum(_unseen_ns(sends, arrivals, one, event.t1, rate) for one in gone)
            found.append((event.t0 - took_ns, event.t1 + took_ns))
    return found


def _unseen_ns(sends: list[Send], arrivals: list[Arrive], subscribe: Subscribe, until_ns: int, rate: int) -> int:
    if not subscribe.prefetch:
        return 0
    seen = {event.message for event in arrivals if event.consumer == subscribe.consumer}
    sizes = [event.size for event in sends if event.t0 <= until_ns and event.dest == subscribe.dest
             and event.message not in seen]  # fmt: skip
    return sum(_takes_ns(size, rate) for size in sorted(sizes)[-subscribe.prefetch :])


def longest_ns(tables: Tables, client: Client, dest: Destination) -> int:
    """How long the largest message of a destination is on its way to a client; it may be an answer."""
    rate = tables.declared.bytes_per_second.get(client.name, 0)
    return _takes_ns(max((send.event.size for send in dest.sends), default=0), rate) if rate > 0 else 0


def _takes_ns(size: int, rate: int) -> int:
    return (size + FRAME_BYTES) * 1_000_000_000 // rate


def _long(tables: Tables, spans: list[Span], rate: int) -> list[Span]:
    """What is left of spans that follow each other closely: the long ones, until what was on its way has passed."""
    pause_ns, joined = _takes_ns(0, rate), list[Span]()
    if not tables.simulated:
        pause_ns = max(pause_ns, PROXY_NS)
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + pause_ns:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    least_ns = tables.declared.lateness_ms * NS_PER_MS // PART
    return [(low, high + pause_ns) for low, high in joined if high - low > least_ns]

"""Staged: how many delayed messages a queue manager can count on a destination, by what its operator was shown.

What is counted is on the staging queue, once for each subscriber, or was published when nobody was there. So what was
taken off in all its copies is counted no more.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.facts.managed import cancels, commands
from brokerproof.conformance.facts.rows import Destination, Reading, Send
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


def most_staged(tables: Tables, dest: Destination, reading: Reading) -> int:
    """The greatest number at a reading; ``NEVER``: nobody had looked before."""
    listing = _listing(tables, reading)
    if listing is None:
        return NEVER
    left = sum(line.startswith("STAGED MSGID") for line in listing.shown)
    left -= sum(one.result == "ok" and listing.seq < one.seq < reading.event.seq for one in cancels(tables))
    # A name may lead elsewhere, so what came since may be counted anywhere.
    later = sum(not send.refused and not _was_before(send, listing) for send in tables.delayed)
    alone = [send for send in dest.sends if dest.topic and send.delayed and _was_before(send, listing)]
    return max(0, left) + later + sum(not _had_audience(send, reading) for send in alone)


def _was_before(send: Send, listing: Operate) -> bool:
    """Whether a message had been taken over when its operator looked, for certain."""
    return send.accepted[1] <= listing.t0 and send.event.seq < listing.seq


def _listing(tables: Tables, reading: Reading) -> Operate | None:
    """The last command before a reading that showed all that was staged."""
    asked = [one for one in commands(tables) if one.result == "ok" and one.seq < reading.event.seq]
    shown = [one for one in asked if (one.command or "").split()[:2] == ["DISPLAY", "STAGED"]]
    return shown[-1] if shown and shown[-1].t1 <= reading.event.t0 else None


def _had_audience(send: Send, reading: Reading) -> bool:
    """Whether a subscriber who is still there was there when something was published, for certain."""
    return any(
        session.known
        and not (session.wild or session.durable() or session.uncertain)
        and session.event is not None
        and session.event.seq < send.event.seq
        and session.opened[1] <= send.accepted[0]
        and session.lost_ns > reading.event.t1
        and surely_wants(session, send)
        for session in send.dest.sessions
    )

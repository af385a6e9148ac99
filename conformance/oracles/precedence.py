"""Precedence: a queue is first in, first out, so what was served shows what was not there any more. Part of the expiry
oracle (EXP-003).

The moment at which a waiting message dies is not observed. But if a later message of the same producer reaches the
only consumer of the queue while the earlier one, by every reading of the broker's clock, is still alive, then the
earlier one was gone already: it would have been assigned first, over the same link. If it turns up among the dead
letters in the end, it died early.

Sound only if

* nobody else can have had it: every other consumer of the queue had certainly gone before this one came, or came
  after that arrival;
* both were sent with the same persistence and priority and without delay, one after the other, and the later one was
  never delivered before;
* memory limits play no part.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Arrive, Event, Send
    from brokerproof.conformance.oracles.fate import Fate, Mortality
    from brokerproof.conformance.oracles.life import Life, Visit
    from brokerproof.conformance.oracles.scene import Scene

#: How many arrivals of a consumer are looked at.
LOOK_AHEAD = 16


def passed_over(scene: Scene, mortality: Mortality, fate: Fate) -> Arrive | None:
    """The arrival that shows that this message, which nobody received, was gone while it lived; None if there is
    none.
    """
    life = fate.life
    send = life.send
    if life.arrivals or send.result != "ok" or scene.tight or is_topic(send.dest) or send.dest == DEAD_LETTERS:
        return None
    if scene.lens.picky(send.dest):
        return None
    visits = scene.visits.get(send.dest, [])
    for visit in visits:
        arrivals = visit.arrivals
        first = bisect_right(arrivals, send.t1, key=_end)
        for arrival in arrivals[first : first + LOOK_AHEAD]:
            if not mortality.alive(fate, send.t0, arrival.t1, send.seq, arrival.seq):
                break
            other = scene.lives.get(arrival.message)
            if other is not None and _comes_after(send, other, arrival) and _served_alone(visits, visit, arrival):
                return arrival
    return None


def _end(event: Event) -> int:
    return event.t1


def _comes_after(send: Send, other: Life, arrival: Arrive) -> bool:
    later = other.send
    return (
        later.t0 >= send.t1
        and later.host == send.host
        and later.persistent == send.persistent
        and later.priority == send.priority
        and not (later.delay_ms or send.delay_ms or later.deliver_at_ms or send.deliver_at_ms)
        and not arrival.redelivered
        and other.arrivals[0] is arrival
    )


def _served_alone(visits: list[Visit], visit: Visit, arrival: Arrive) -> bool:
    """Nobody but this consumer can have been given anything that waited when it came."""
    for other in visits:
        if other is visit:
            continue
        before = other.gone_ns <= visit.subscribe.t0 and not other.uncertain
        if not before and other.subscribe.t0 <= arrival.t1:
            return False
    return True

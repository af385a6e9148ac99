"""Widening: by how much a consumer has widened its window with acknowledgements of type DELIVERED.

A window of prefetch p has p + e slots. A DELIVERED acknowledgement of c messages that were not reported before adds c
to e; settlements take off again one for each message, or one in all for a range that is poison or expired; e is never
below 0. After a second report, an unknown result or a transaction nobody knows it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from brokerproof.conformance.experiment.history import Ack, Acknowledge, Discard, Nack
from brokerproof.conformance.facts.rows import Session
from brokerproof.conformance.facts.tables import Tables

#: Settlements that take one off, whatever their number.
BY_ONE: Final = ("poison", "expired")


class Widening(NamedTuple):
    """As it is from event ``seq`` on. ``extension`` None: not known. ``discarded``: messages that it has called
    expired, which may wait, but not for this consumer.
    """

    seq: int
    extension: int | None
    discarded: int


def widenings(tables: Tables, session: Session) -> list[Widening]:
    """How it changed, in order."""
    settlements = {event.seq: event for delivery in session.deliveries for event in delivery.settlements}
    acts = {event.seq: event for event in tables.acknowledges if event.consumer == session.name}
    extension: int | None = 0
    discarded, act = 0, None
    reported: dict[str, bool] = {}
    found: list[Widening] = []
    for seq in sorted([*settlements, *acts]):
        if seq in acts:
            act = acts[seq]
            extension = _reported(act, extension, reported)
        else:
            event = settlements[seq]
            discarded += isinstance(event, Discard)
            sure = isinstance(event, Discard) or (event.result == "ok" and event.tx is None)
            extension = max(0, extension - _narrowing(event, act)) if extension is not None and sure else None
        found.append(Widening(seq, extension, discarded))
    return found


def _reported(act: Acknowledge, extension: int | None, reported: dict[str, bool]) -> int | None:
    """The extension after an acknowledgement, before what it settles is taken off."""
    if act.type != "delivered" or act.wrong_end or act.result == "fail":
        return extension
    again = act.result == "unknown" or any(message in reported for message in act.messages)
    reported.update(dict.fromkeys(act.messages, True))
    return None if again or extension is None else extension + len(act.messages)


def _narrowing(event: Ack | Nack | Discard, act: Acknowledge | None) -> int:
    """What a settlement takes off."""
    if act is not None and act.type in BY_ONE and (act.t0, act.t1) == (event.t0, event.t1):
        return 0 if isinstance(event, Discard) and event.message != act.messages[0] else 1
    return 1 if isinstance(event, Discard) else len(event.messages)

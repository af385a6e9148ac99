"""Requests: what was asked of the broker and what it answered: a part of the recording pass.

Of requests that were granted one is kept for each kind and each situation, to say what was met; those that were refused
or not answered are all kept, with what was so when they were made. What may have forbidden a request, or may have kept
its answer back, is in ``permission.py``.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import is_pattern
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Acknowledge,
    Begin,
    Commit,
    Connect,
    Event,
    Nack,
    Operate,
    Send,
    Subscribe,
)
from brokerproof.conformance.experiment.operations import is_unasked
from brokerproof.conformance.facts.asked import Asked, Request
from brokerproof.conformance.facts.rows import HELD, Client, Delivery, Session
from brokerproof.conformance.facts.settling import settled_by
from brokerproof.conformance.facts.tables import Tables


class Requests:
    """Feed it events in order, before anything else has heard of them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        #: Kinds with all that was special; kinds with one thing of that, each of which has its row.
        self._met: dict[tuple[object, ...], bool] = {}
        self._kept: dict[tuple[type[Asked], str], bool] = {}
        #: Transactions that began for certain; host -> its connection on which one was rolled back.
        self._begun: dict[str, bool] = {}
        self._rolled_back: dict[str, int] = {}
        #: The last acknowledgement past the library: what it settles follows, and was never asked for by itself.
        self._past: Acknowledge | None = None

    def note(self, event: Asked | Acknowledge) -> None:
        """Something was asked."""
        if isinstance(event, Acknowledge):
            self._past = event
            if event.result == "unknown":
                self.tables.asked.append(self._request(event, self.tables.client(event.host)))
            return
        if is_unasked(event.refusal):
            return
        past = self._past
        if past is not None and isinstance(event, Ack | Nack) and (past.t0, past.t1) == (event.t0, event.t1):
            return
        client = None if isinstance(event, Operate) else self.tables.client(event.host)
        if event.result == "ok":
            self._granted(event, client)
        elif not isinstance(event, Ack) or event.mode != "auto":  # that is no request
            self.tables.asked.append(self._request(event, client))

    def _granted(self, event: Asked, client: Client | None) -> None:
        kind = type(event)
        situations = [*self._options(event), self._after(client)]
        if (met := (kind, *situations)) not in self._met:
            self._met[met] = True
            for situation in situations:
                if (kind, situation) not in self._kept:
                    self._kept[kind, situation] = True
                    self.tables.asked.append(Request(event, client, situation))
        if isinstance(event, Begin):
            self._begun[event.tx] = True
        elif isinstance(event, Abort) and client is not None:
            self._rolled_back[client.name] = client.connection

    def _after(self, client: Client | None) -> str:
        if self.tables.restarts:
            return "after a restart"
        if client is None:
            return ""
        if self._rolled_back.get(client.name) == client.connection:
            return "after a rollback"
        return "over a new connection" if len(client.connects) > 1 else ""

    def _options(self, event: Asked) -> list[str]:
        if isinstance(event, Send):
            asked = {
                "in a transaction": event.tx is not None,
                "with an expiration": event.mortal(),
                "with a delay": event.delay_ms > 0 or event.deliver_at_ms is not None,
                "of a group": event.group != "",
                "to a topic": self.tables.names.is_topic(event.dest),
            }
        elif isinstance(event, Subscribe):
            asked = {
                "with a selector": event.selector != "",
                "durable": event.durable != "",
                "exclusive": event.exclusive,
                "a browser": event.browser,
                "of a wildcard": is_pattern(event.dest),
                "without a prefetch": event.prefetch == 0,
                "without messages of its own": event.no_local,
            }
        elif isinstance(event, Ack):
            asked = {"in a transaction": event.tx is not None, "of one message": event.mode == "individual"}
        elif isinstance(event, Begin | Commit | Abort | Operate):
            word = event.op if isinstance(event, Operate) else str(event.__struct_config__.tag)
            asked = {word: True}
        else:
            asked = {}
        return [option for option, is_so in asked.items() if is_so]

    def _request(self, event: Asked | Acknowledge, client: Client | None) -> Request:
        request = Request(event, client, "")
        if client is None:
            return request
        request.connected = isinstance(event, Connect) or _is_connected(client, event)
        tx = getattr(event, "tx", None)
        current = client.transaction.name if client.transaction is not None else None
        if isinstance(event, Begin):
            request.clear = current is None
        elif tx is not None:
            request.begun = tx in self._begun and tx == current
        if isinstance(event, Subscribe):
            request.clear = event.consumer not in self.tables.sessions
        elif isinstance(event, Ack | Nack):
            request.held = _held(self.tables.sessions.get(event.consumer), event)
        return request


def _is_connected(client: Client, event: Event) -> bool:
    """Whether it had a connection when it began to ask; what closed it may be the answer."""
    if client.connects and client.connects[-1].result != "ok":
        return False
    return client.connected or (bool(client.closes) and client.closes[-1].t1 >= event.t0)


def _held(session: Session | None, event: Ack | Nack) -> list[Delivery]:
    """The deliveries that it was to settle; none if its consumer may not have held them all."""
    if session is None or not session.known or session.end or session.ack == "auto" or not event.messages:
        return []
    found: list[Delivery] = []
    for message in event.messages:
        delivery = settled_by(session, message, event)
        if delivery is None or delivery.state != HELD or delivery.event.t1 > event.t0:
            return []
        if session.resent or (delivery.undone_ns <= event.t0 and session.held > session.prefetch):
            return []  # after the rollback it was taken back, and waits for room
        found.append(delivery)
    return found

"""Asked: one request, as a row; ``requests.py`` makes them."""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Acknowledge,
    Begin,
    Commit,
    Connect,
    Nack,
    Operate,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.facts.rows import Client, Delivery

Asked = Connect | Subscribe | Unsubscribe | Send | Ack | Nack | Begin | Commit | Abort | Operate
#: What is noted.
NOTED: Final = {Acknowledge, Connect, Subscribe, Unsubscribe, Send, Ack, Nack, Begin, Commit, Abort, Operate}


class Request:
    """One of them. ``situation``: what was special about it. What follows is known of those that were not granted.

    ``connected``: its client had a connection, as far as anybody saw; ``begun``: its transaction was open, for certain;
    ``held``: the deliveries that it was to settle, if its consumer held all of them for certain; ``clear``: nothing of
    the name that it asks for was there before.
    """

    __slots__ = ("begun", "clear", "client", "connected", "event", "held", "marks", "situation")

    def __init__(self, event: Asked | Acknowledge, client: Client | None, situation: str) -> None:
        self.event = event
        self.client = client
        self.situation = situation
        self.connected = True
        self.begun = True
        self.held: list[Delivery] = []
        self.clear = True
        self.marks = 0

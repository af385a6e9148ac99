"""The door of a guarded broker: nobody's frames are worked on before it is known who he is, and then only what he may
do.

Rules
* The frame that brings name and password waits, and everything after it, until ``Node.admit`` brings the answer; the
  edge does not read meanwhile. Frames before it (a WireFormatInfo, a keep-alive) pass.
* No protocol is known here: a session finds the credentials in a frame (``Session.credentials``) and says no in its own
  words (``Session.turn_away``).
* What may not be done is refused like anything that the core refuses, and does not reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.effects import Refused
from brokerproof.reference_broker.security.authenticator import NOT_AUTHENTICATED
from brokerproof.reference_broker.security.authority import NOT_AUTHORIZED, Authority, Rights
from brokerproof.reference_broker.session.actions import Action, Authenticate, Throttle

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.events import Event
    from brokerproof.reference_broker.security.identity import Identity
    from brokerproof.reference_broker.session.connection_state import Link


class Door:
    """What all connections of one broker have to pass. ``authority`` None: who is inside may do everything."""

    __slots__ = ("_authority", "_exists")

    def __init__(self, authority: Authority | None, exists: Callable[[str], bool]) -> None:
        self._authority = authority
        self._exists = exists

    def stops(self, link: Link, frame: object, actions: list[Action]) -> bool:
        """Whether a stranger's frame must wait until it is known who he is."""
        if link.held:
            return False  # it waits behind the one that has been stopped
        credentials = link.session.credentials(frame)
        if credentials is None:
            return False
        link.held.append(frame)
        actions.append(Throttle(link.number, True))
        # Last: an edge that knows the answer may give it at once.
        actions.append(Authenticate(link.number, credentials))
        return True

    def answer(self, link: Link, identity: Identity | None, text: str, actions: list[Action]) -> None:
        """Now it is known, or is refused with a text."""
        actions.append(Throttle(link.number, False))
        if identity is not None:
            link.admitted = True
            link.identity = identity
            if self._authority is not None:
                link.rights = Rights(identity, self._authority, self._exists)
        elif link.held:
            frame = link.held.popleft()
            link.held.clear()
            link.session.turn_away(frame, text, NOT_AUTHENTICATED)


def objection(link: Link, event: Event) -> Refused | None:
    """Why an event of this connection must not reach the core."""
    text = "" if link.rights is None else link.rights.objection(event)
    if not text:
        return None
    request, transaction = getattr(event, "request", 0), getattr(event, "transaction", "")
    return Refused(link.number, request, NOT_AUTHORIZED, text, transaction)

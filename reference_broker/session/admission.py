"""Admission: where users are configured, no frame is processed before its sender is authenticated, then what he is
authorised for.

* The frame that brings name and password waits, and everything after it, until ``Node.admit`` brings the answer; the
  edge does not read meanwhile. Frames before it (a WireFormatInfo, a keep-alive) pass.
* No protocol is known here: a session finds the credentials in a frame (``Session.credentials``) and answers in its own
  protocol (``Session.reject``).
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
    from brokerproof.reference_broker.session.connection_state import ConnectionState


class Admission:
    """What all connections of one broker have to pass. ``authority`` None: who is inside may do everything."""

    __slots__ = ("_authority", "_exists")

    def __init__(self, authority: Authority | None, exists: Callable[[str], bool]) -> None:
        self._authority = authority
        self._exists = exists

    def holds_back(self, state: ConnectionState, frame: object, actions: list[Action]) -> bool:
        """Whether the frame of an unauthenticated peer must wait."""
        if state.held:
            return False  # it waits behind the one that has been stopped
        credentials = state.session.credentials(frame)
        if credentials is None:
            return False
        state.held.append(frame)
        actions.append(Throttle(state.number, True))
        # Last: an edge that knows the answer may give it at once.
        actions.append(Authenticate(state.number, credentials))
        return True

    def answer(self, state: ConnectionState, identity: Identity | None, text: str, actions: list[Action]) -> None:
        """Now it is known, or is refused with a text."""
        actions.append(Throttle(state.number, False))
        if identity is not None:
            state.admitted = True
            state.identity = identity
            if self._authority is not None:
                state.rights = Rights(identity, self._authority, self._exists)
        elif state.held:
            frame = state.held.popleft()
            state.held.clear()
            state.session.reject(frame, text, NOT_AUTHENTICATED)


def objection(state: ConnectionState, event: Event) -> Refused | None:
    """Why an event of this connection must not reach the core."""
    text = "" if state.rights is None else state.rights.objection(event)
    if not text:
        return None
    request, transaction = getattr(event, "request", 0), getattr(event, "transaction", "")
    return Refused(state.number, request, NOT_AUTHORIZED, text, transaction)

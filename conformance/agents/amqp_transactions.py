"""Local transactions over AMQP 1.0 (its part 4): a link to the broker's coordinator, and the states that name one."""

from __future__ import annotations

from typing import Any, Final

from proton import Condition, Data, Delivery, Described, Link, Sender, Session, Terminus, symbol, ulong

from brokerproof.conformance.agents.library import RefusedError

#: The delivery states of that part.
DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34
_VALUE, _DECLARE, _DISCHARGE = 0x77, 0x31, 0x32
_OUTCOMES: Final = {
    "amqp:accepted:list": Delivery.ACCEPTED,
    "amqp:rejected:list": Delivery.REJECTED,
    "amqp:released:list": Delivery.RELEASED,
    "amqp:modified:list": Delivery.MODIFIED,
}


class Coordinator:
    """The transactions of one session. Its link is made when there is need of one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._link: Sender | None = None
        self._count = 0
        #: Tag of a declaration -> the suite's name of the transaction.
        self._declared: dict[str, str] = {}
        #: That name -> the broker's.
        self._ids: dict[str, bytes] = {}

    def declare(self, tx: str) -> str:
        """Ask for one; the tag of the request."""
        tag = self._ask(Described(ulong(_DECLARE), []))
        self._declared[tag] = tx
        return tag

    def discharge(self, tx: str, *, fails: bool) -> str:
        """Ask for its end; the tag of the request. Raises ``RefusedError``."""
        tag = self._ask(Described(ulong(_DISCHARGE), [self.id_of(tx), fails]))
        del self._ids[tx]
        return tag

    def begun(self, tag: str, tx_id: bytes) -> None:
        """The broker has declared one, and calls it so."""
        self._ids[self._declared.pop(tag)] = bytes(tx_id)

    def id_of(self, tx: str) -> bytes:
        """What the broker calls it. Raises ``RefusedError``."""
        if tx not in self._ids:  # behind a stalled link the broker has not been heard of one
            raise RefusedError("unknown-transaction", f"there is no open transaction {tx!r}")
        return self._ids[tx]

    def lost(self, link: Link) -> None:
        """A link is gone, and if it was the coordinator's, so is all that was begun there."""
        if link == self._link:
            self._link = None
            self._ids.clear()

    def _ask(self, body: Described) -> str:
        if self._link is None:
            self._link = self._session.sender(f"transactions-{self._count}")
            self._link.target.type = Terminus.COORDINATOR
            self._link.target.capabilities.put_object(symbol("amqp:local-transactions"))
            self._link.open()
        self._count += 1
        tag = f"{self._link.name}#{self._count}"
        # Nothing but the body: a message would say more about itself.
        data = Data()
        data.put_object(Described(ulong(_VALUE), body))
        self._link.delivery(tag)
        self._link.stream(data.encode())
        self._link.advance()
        return tag


def settled_in(tx_id: bytes, outcome: int, *, failed: bool) -> list[Any]:
    """The state of a received delivery that a transaction settles so."""
    return [tx_id, Described(ulong(int(outcome)), [True] if failed and outcome == Delivery.MODIFIED else [])]


def outcome_in(state: Any) -> tuple[int, Condition | None]:
    """What a transactional state says of a delivery that was sent: its outcome, 0 for none yet, and why."""
    outcome: Any = state[1] if state and len(state) > 1 else None
    if outcome is None:
        return 0, None
    code, said = _OUTCOMES.get(str(outcome.descriptor), outcome.descriptor), list(outcome.value or ())
    error: Any = said[0].value if said and isinstance(said[0], Described) else []
    return int(code), Condition(str(error[0]), str(error[1] or "") if error[1:] else "") if error else None


__all__ = ["DECLARED", "TRANSACTIONAL", "Coordinator", "outcome_in", "settled_in"]

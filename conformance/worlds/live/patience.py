"""How long a broker's answers are waited for in a live run.

Rules
* Who reads no further answers nothing: behind a request that went unanswered the next one waits less than anybody is
  judged by, and other connections to a broker that was silent for long wait less than at first. One that left a send
  waiting, perhaps for room, is silent to sends alone; and a slow link was silent itself.
* A kind of request that a broker did not answer in one run (go-stomp gives no receipt for SUBSCRIBE) costs later runs
  next to nothing, until one of that kind is answered. Sends are not of these: they may wait for room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.agents.kinds import JMS
from brokerproof.conformance.experiment import operations as ops

if TYPE_CHECKING:
    from brokerproof.chaos.rates import Rate
    from brokerproof.conformance.agents.protocol import AnyOperation
    from brokerproof.conformance.experiment.state import ClientState

#: On a stalled link, as in the simulation, and behind a request that was not answered there, where no answer can pass.
STALLED_MS: Final = 1000
STUCK_MS: Final = 50
#: On an open link, as slow machines need.
OPEN_MS: Final = 10_000
#: To a first greeting of a JMS client, whose machine loads its library meanwhile: ten that did so at once on two busy
#: cores took more than 10 s.
LOADING_MS: Final = 30_000
#: Behind a request that went unanswered.
BEHIND_MS: Final = 500
#: On another connection to a broker that left one on an open link unanswered for ``OPEN_MS``.
MUTE_MS: Final = 2000


class Patience:
    """One run's. ``never``: kinds of requests that its broker did not answer in this run or earlier ones."""

    def __init__(self, rate: Rate, never: set[str]) -> None:
        self._rate = rate
        self._never = never
        #: Clients whose last request on their connection was not answered.
        self._unanswered: set[str] = set()
        #: Brokers that left one unanswered for ``OPEN_MS``, and whether it was a send.
        self._mute: set[tuple[str, bool]] = set()

    def connects(self, client: str) -> None:
        """A client opens a connection: what it asked on the last one does not matter."""
        self._unanswered.discard(client)

    def ms(self, client: ClientState, broker: str, operation: AnyOperation) -> int:
        """How long the broker's answer to a client may take, in milliseconds of the program."""
        if client.stalled:
            return STUCK_MS if client.name in self._unanswered else STALLED_MS
        if client.name in self._unanswered or _kind(operation) in self._never:
            return BEHIND_MS * self._rate.times
        mute = (broker, False) in self._mute or (broker, isinstance(operation, ops.Send)) in self._mute
        if mute:
            return MUTE_MS * self._rate.times
        loads = isinstance(operation, ops.Connect) and client.via == JMS
        return (LOADING_MS if loads else OPEN_MS) * self._rate.times

    def answered(self, client: str, operation: AnyOperation) -> None:
        """A broker has answered, or refused."""
        self._unanswered.discard(client)
        self._never.discard(_kind(operation))

    def unanswered(self, client: ClientState, broker: str, operation: AnyOperation, waited_ms: int) -> None:
        """A broker has not answered a client in so many milliseconds of the program."""
        if _kind(operation) in self._never:
            return  # its connection may be as good as any
        self._unanswered.add(client.name)
        if waited_ms >= OPEN_MS * self._rate.times and not client.link.bytes_per_second:
            self._mute.add((broker, isinstance(operation, ops.Send)))
            if not isinstance(operation, (ops.Connect, ops.Send)):
                self._never.add(_kind(operation))


def _kind(operation: AnyOperation) -> str:
    return type(operation).__name__

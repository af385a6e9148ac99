"""The STOMP agent with one lie, named by its only argument: what ``brokerproof agent check`` must see through."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from brokerproof.conformance.agents.answers import Answers
from brokerproof.conformance.agents.protocol import Arrive, Closed, Reply
from brokerproof.conformance.agents.stomp_agent import StompAgent
from brokerproof.conformance.agents.stomp_library import StompLibrary
from brokerproof.conformance.experiment import operations as ops

_arrivals = itertools.count(1)
replace = msgspec.structs.replace


def swallowed(what: Any) -> list[Any]:
    return [] if isinstance(what, Arrive) and next(_arrivals) % 7 == 0 else [what]


def moved(what: Any) -> Any:
    """Everything happened a second ago."""
    return (
        [replace(what, t0=max(0, what.t0 - 10**9), t1=max(0, what.t1 - 10**9))] if isinstance(what, Reply) else [what]
    )


def early(what: Any) -> Any:
    return [replace(what, t0=1, t1=2)] if isinstance(what, Arrive) else [what]


def stamped(what: Any) -> Any:
    return [replace(what, timestamp_ms=what.timestamp_ms + 1)] if isinstance(what, Arrive) else [what]


def sent_stamp(what: Any) -> Any:
    if isinstance(what, Reply) and what.ok and "expiration_ms" in what.ok:
        return [replace(what, ok={**what.ok, "expiration_ms": what.ok["expiration_ms"] + 7})]
    return [what]


def agreed(what: Any) -> Any:
    """Whatever was refused is said to be done."""
    return [replace(what, fail=None, ok={})] if isinstance(what, Reply) and what.fail else [what]


def agreed_sends(what: Any) -> Any:
    return agreed(what) if isinstance(what, Reply) and what.fail and what.fail.code == "no-space" else [what]


def ended(what: Any) -> Any:
    return [] if isinstance(what, Closed) else [what]


def doubled(what: Any) -> Any:
    return [what, what] if isinstance(what, Arrive) else [what]


def real_clock(what: Any) -> Any:
    """The host's clock, as if nobody had set it."""
    wrong = isinstance(what, Reply) and what.wall_ms > 0
    return [replace(what, wall_ms=what.wall_ms - 3_600_000)] if wrong else [what]


LIES: dict[str, Callable[[Any], list[Any]]] = {
    "swallows": swallowed,
    "moves-times": moved,
    "arrives-early": early,
    "invents-timestamps": stamped,
    "invents-expirations": sent_stamp,
    "hides-refusals": agreed,
    "hides-refused-sends": agreed_sends,
    "hides-the-end": ended,
    "tells-twice": doubled,
    "tells-another-clock": real_clock,
}


class LyingAnswers(Answers):
    """``lie``: what becomes of each line."""

    __slots__ = ("_lie",)

    def __init__(self, fd: int, lie: Callable[[Any], list[Any]]) -> None:
        super().__init__(fd)
        self._lie = lie

    def say(self, what: Any) -> None:
        for one in self._lie(what):
            super().say(one)


class SettlingLibrary(StompLibrary):
    """The broker settles what it writes, whatever was asked for."""

    def subscribe(self, operation: ops.Subscribe) -> str:
        return super().subscribe(replace(operation, ack="auto"))

    def settle(self, operation: ops.Ack | ops.Nack | ops.Acknowledge) -> str:
        return self._stomp.begin("nothing", receipt=True)


class ForgettingLibrary(StompLibrary):
    """Acknowledgements are never sent."""

    def settle(self, operation: ops.Ack | ops.Nack | ops.Acknowledge) -> str:
        return self._stomp.begin("nothing", receipt=True)


LIBRARIES = {"settles": SettlingLibrary, "forgets-acknowledgements": ForgettingLibrary}


class LyingAgent(StompAgent):
    library: type[StompLibrary] = StompLibrary

    def open(self, request: ops.Connect, sock: Any, address: str) -> Any:
        wire = super().open(request, sock, address)
        wire.library = self.library(wire.library.session)  # type: ignore[arg-type]
        return wire


def main(lie: str) -> None:
    agent = LyingAgent(sys.stdin.fileno(), sys.stdout.fileno())
    if lie in LIES:
        agent.answers = LyingAnswers(sys.stdout.fileno(), LIES[lie])
    else:
        agent.library = LIBRARIES[lie]
    agent.run()


if __name__ == "__main__":
    main(sys.argv[1])

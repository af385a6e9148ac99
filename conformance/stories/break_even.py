"""The break-even skew: from which difference of clocks on a message is lost, by bisection, against what theory says.

Theory: with a time to live of T, a broker that is ahead of the producer by T takes the message for dead, unless it
stamps by its own clock; a consumer that checks, and is ahead by T of the clock that the expiration was counted from,
throws it away. Nothing else loses one. The time on the way counts as skew, so it is part of the uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.stories.clocks import FUTURE, LIFE, PLUGIN, one

#: The widest skew that is tried.
WIDEST: Final = 2 * LIFE
Moves = Literal["broker ahead", "broker behind", "consumer ahead"]


@dataclass(frozen=True)
class Policy:
    """How broker and consumer are set up, whose clock moves, and where the theory sees the break (None: nowhere)."""

    name: str
    moves: Moves
    theory_ms: int | None
    plugin: TimeStampingSpec | None = None
    via: Literal["jms", "stomp"] = "jms"
    check: bool = True

    def program(self, skew_ms: int) -> Program:
        """One message that lives two minutes, at this skew."""
        broker = {"broker ahead": skew_ms, "broker behind": -skew_ms, "consumer ahead": 0}[self.moves]
        consumer = skew_ms if self.moves == "consumer ahead" else 0
        return one((broker, 0, consumer), self.plugin, vias=(self.via, self.via), check=self.check)


POLICIES: Final = (
    Policy("no plug-in", "broker ahead", LIFE),
    Policy("no plug-in", "broker behind", None),
    Policy("no plug-in", "consumer ahead", LIFE),
    Policy("no plug-in, consumer does not check", "consumer ahead", None, check=False),
    Policy("no plug-in, STOMP", "broker ahead", LIFE, via="stomp"),
    Policy("plug-in", "broker ahead", None, PLUGIN),
    Policy("plug-in", "broker behind", LIFE, PLUGIN),
    Policy("plug-in", "consumer ahead", LIFE, PLUGIN),
    Policy("plug-in, STOMP", "broker behind", None, PLUGIN, via="stomp"),
    Policy("plug-in, futureOnly", "broker ahead", None, FUTURE),
    Policy("plug-in, futureOnly", "broker behind", None, FUTURE),
    Policy("plug-in, futureOnly", "consumer ahead", LIFE, FUTURE),
)


@dataclass(frozen=True)
class BreakEven:
    """The widest skew that was borne and the smallest that was not (None: all were borne), in milliseconds."""

    policy: Policy
    borne_ms: int
    broken_ms: int | None
    #: How long a message was on its way, at most.
    way_ms: float

    @property
    def agrees(self) -> bool:
        """Whether it is where theory has it, within the uncertainty."""
        theory = self.policy.theory_ms
        if theory is None or self.broken_ms is None:
            return theory is None and self.broken_ms is None
        return self.borne_ms <= theory + 1 and self.broken_ms >= theory - self.way_ms

    @property
    def resolution_ms(self) -> int:
        """Between what was borne and what was not."""
        return 0 if self.broken_ms is None else self.broken_ms - self.borne_ms

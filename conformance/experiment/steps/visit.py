"""``visit``, ``pause``: a stranger comes to the broker; the broker's process stands still for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import MS_MAX, Shape, Step
from brokerproof.conformance.experiment.steps.send import Duration, Ordinal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import WorldState

#: A period as a peer may write it, sensible or not.
Period = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
#: Things said in one visit, at most.
SAID_MAX = 2000
PERIODS_MS = (1000, 0, 600, 2000, 90, 3, 2**40)
HELLOS = ("good", "none", "half", "early", "bad")
SAYINGS = ("nothing", "beats", "asks", "part")


class Visit(Step, frozen=True, tag="visit"):
    """A stranger with a bare socket says ``hello``, then every ``every_ms`` for ``talk_ms`` what ``says`` says, then
    nothing, until ``ms`` have passed or the broker hangs up. Nothing else happens meanwhile.

    ``hello``: as it should be, nothing, half of it, something ``early`` instead of it, or one that must be refused
    (``fault`` chooses). ``offer_ms``: STOMP's heart-beat header, or OpenWire's maxInactivityDuration and initial delay.
    ``says``: keep-alives; ``asks``, which want an answer; ``part`` of a frame that is never finished. ``deaf`` (STOMP):
    it sends itself many messages and reads none. ``times`` strangers do so at once; the first one is looked at.
    """

    weight = 0
    via: Literal["stomp", "openwire"] = "stomp"
    hello: Literal["good", "none", "half", "early", "bad"] = "good"
    fault: Ordinal = 0
    offer_ms: tuple[Period, Period] = (0, 0)
    says: Literal["nothing", "beats", "asks", "part"] = "nothing"
    every_ms: Annotated[int, msgspec.Meta(ge=1, le=MS_MAX)] = 100
    talk_ms: Duration = 0
    deaf: bool = False
    ms: Duration = 1000
    times: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 1

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Visit:
        hello = HELLOS[chooser.below(len(HELLOS))] if chooser.flag(30) else "good"
        return cls(
            via=("stomp", "openwire")[chooser.below(2)],
            hello=hello,  # type: ignore[arg-type]  # indexing a tuple of literals
            fault=chooser.below(5),
            offer_ms=(PERIODS_MS[chooser.below(len(PERIODS_MS))], PERIODS_MS[chooser.below(len(PERIODS_MS))]),
            says=SAYINGS[chooser.below(len(SAYINGS))],  # type: ignore[arg-type]  # likewise
            every_ms=1 + chooser.below(1500),
            talk_ms=shape.draw_ms(chooser) % 8000,
            ms=1000 + shape.draw_ms(chooser) % 12_000,
        )

    def normalise(self, state: WorldState) -> Visit | None:  # noqa: ARG002 - a stranger needs nobody
        if self.ms == 0:
            return None
        talk_ms = 0 if self.says == "nothing" else min(self.talk_ms, self.ms)
        deaf = self.deaf and self.via == "stomp" and self.hello == "good"
        every_ms = max(self.every_ms, talk_ms // SAID_MAX)
        return msgspec.structs.replace(self, talk_ms=talk_ms, deaf=deaf, every_ms=every_ms)

    def resolve(self, state: WorldState) -> ops.Probe:  # noqa: ARG002 - as above
        return ops.Probe(**ops.shared(self, ops.Probe))


class Pause(Step, frozen=True, tag="pause"):
    """The broker's process stands still for ``ms``, as under SIGSTOP, and then goes on."""

    weight = 0
    ms: Duration = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Pause:
        return cls(ms=shape.draw_ms(chooser))

    def normalise(self, state: WorldState) -> Pause | None:  # noqa: ARG002 - possible in any state
        return None if self.ms == 0 else self

    def resolve(self, state: WorldState) -> ops.Pause:  # noqa: ARG002 - there is one broker
        return ops.Pause(ms=self.ms)

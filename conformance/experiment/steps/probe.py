"""``probe``, ``pause``: a raw peer comes to the broker; the broker's process stands still for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.dialogues import VERSIONS, choices, dialogues
from brokerproof.conformance.experiment.steps.base import Step

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape

#: Things said in one probe, at most.
SAID_MAX = 2000
#: The longest pause that is drawn.
PAUSE_MS = 20_000
PERIODS_MS = (1000, 0, 600, 2000, 90, 3, 2**40)
HELLOS = ("good", "none", "half", "early", "bad")
SAYINGS = ("nothing", "beats", "asks", "part")


class Probe(ops.ProbeOptions, Step, frozen=True, tag="probe"):
    """Raw peers come to the broker and go; nothing else happens meanwhile."""

    weight = 2
    feature = "raw-peers"

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Probe:
        if chooser.flag(60):
            return _draw_dialogues(chooser)
        hello = HELLOS[chooser.below(len(HELLOS))] if chooser.flag(30) else "good"
        return cls(
            via=("stomp", "openwire")[chooser.below(2)],
            hello=hello,  # type: ignore[arg-type]  # indexing a tuple of literals
            fault=chooser.below(5),
            offer_ms=(PERIODS_MS[chooser.below(len(PERIODS_MS))], PERIODS_MS[chooser.below(len(PERIODS_MS))]),
            says=SAYINGS[chooser.below(len(SAYINGS))],  # type: ignore[arg-type]  # likewise
            every_ms=1 + chooser.below(1500),
            talk_ms=shape.draw_ms(chooser) % 8000,
            deaf=chooser.flag(10),
            ms=1000 + shape.draw_ms(chooser) % 12_000,
            times=1 + chooser.below(8) if chooser.flag(10) else 1,
        )

    def normalise(self, state: WorldState) -> Probe | None:
        if self.ms == 0:
            return None
        if self.dialogues:
            known = dialogues(self.via)
            if not all(name in known and self.version in known[name].versions for name in self.dialogues):
                return None
            # No dialogue of OpenWire names who speaks.
            wanted = any("logins" in known[name].needs for name in self.dialogues)
            if wanted > state.logins or (state.logins and self.via != "stomp"):
                return None
            return Probe(via=self.via, ms=self.ms, version=self.version, dialogues=self.dialogues)
        talk_ms = 0 if self.says == "nothing" else min(self.talk_ms, self.ms)
        deaf = self.deaf and self.via == "stomp" and self.hello == "good"
        every_ms = max(self.every_ms, talk_ms // SAID_MAX)
        return msgspec.structs.replace(self, talk_ms=talk_ms, deaf=deaf, every_ms=every_ms)

    def resolve(self, state: WorldState) -> ops.Probe:  # noqa: ARG002 - as above
        return ops.Probe(**ops.shared(self, ops.Probe))


def _draw_dialogues(chooser: Chooser) -> Probe:
    via = ("stomp", "openwire")[chooser.below(2)]
    version = VERSIONS[chooser.below(len(VERSIONS))] if via == "stomp" else VERSIONS[0]
    greetings, others = choices(via, version, greets=True), choices(via, version, greets=False)
    names = [others[chooser.below(len(others))] for _ in range(1 + chooser.below(4))]
    if greetings and chooser.flag(25):
        names.insert(0, greetings[chooser.below(len(greetings))])
    return Probe(via=via, version=version, dialogues=tuple(names), ms=10_000)  # type: ignore[arg-type]  # literals


class Pause(Step, frozen=True, tag="pause"):
    """The broker's process stands still for ``ms``, as under SIGSTOP, and then goes on."""

    weight = 2
    feature = "pauses"
    ms: ops.Duration = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Pause:
        return cls(ms=1 + shape.draw_ms(chooser) % PAUSE_MS)

    def normalise(self, state: WorldState) -> Pause | None:  # noqa: ARG002 - possible in any state
        return None if self.ms == 0 else self

    def resolve(self, state: WorldState) -> ops.Pause:  # noqa: ARG002 - there is one broker
        return ops.Pause(ms=self.ms)

"""Stage: keeps the events of one run for the oracles of expiry and delay, and makes the scene of them, once for all.

Rules:

* An event is kept once, however many oracles offer it (``keep`` looks at ``seq``).
* The scene is made when the first oracle asks for it, which most never do. Nobody changes it.

What must change together: ``scene.py`` (``KINDS``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from brokerproof.conformance.experiment.history import Event, Header
from brokerproof.conformance.oracles.base import Oracle, Shared
from brokerproof.conformance.oracles.scene import KINDS, Scene
from brokerproof.conformance.oracles.wall import WallClocks


class Stage:
    """One run's. ``start``, ``keep`` every event of the kinds ``KINDS`` in order, then ask for the ``scene``."""

    __slots__ = ("_header", "_scene", "_seq", "events")

    def __init__(self, clocks: WallClocks) -> None:  # noqa: ARG002 - who shares it is known by them
        self.events: list[Event] = []
        self._header = Header("", "")
        self._scene: Scene | None = None
        self._seq = -1

    def start(self, header: Header) -> None:
        """A run begins."""
        self._header = header

    def keep(self, event: Event) -> None:
        """Keep one event; the same event again changes nothing."""
        if event.seq > self._seq:
            self._seq = event.seq
            self.events.append(event)

    def scene(self) -> Scene:
        """What the whole history shows."""
        if self._scene is None:
            self._scene = Scene(self._header)
            self._scene.add_all(self.events)
            self._scene.finish()
        return self._scene


_STAGES: Final = Shared(Stage)


class SceneOracle(Oracle):
    """An oracle that judges from the scene, in ``conclude``. One that wants to see events itself as they come extends
    ``feed``, and names their kinds in ``looks``.
    """

    kinds: ClassVar[tuple[str, ...]] = KINDS
    faults: ClassVar[tuple[str, ...]] = ("clock", "stall")
    #: Kinds of events that ``feed`` does more with than keep them.
    looks: ClassVar[tuple[type[Event], ...]] = ()

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._header = Header("", "")
        self._stage = _STAGES.of(clocks)

    def start(self, header: Header) -> None:
        self._header = header
        self._stage.start(header)

    def feed(self, event: Event) -> None:
        self._stage.keep(event)

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind in self.looks else self._stage.keep

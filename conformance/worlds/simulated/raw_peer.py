"""Raw peers in the simulation: no way between them and the broker, so what they say arrives as they say it.

The bytes of a dialogue are read by the framings of the server: for every second peer behind a port that guesses the
protocol, and every second turn of it arrives in pieces.

What the broker writes costs its writer ``WRITE_NS`` as ever. A deaf one's link takes as many frames as any stalled link
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.agents.dialogue import WayIn
from brokerproof.conformance.agents.raw_peer import Broken, Part, RawPeer, Words
from brokerproof.conformance.experiment.configuration import LinkSpec
from brokerproof.conformance.worlds.simulated.agenda import Action, Agenda, Party
from brokerproof.conformance.worlds.simulated.link import FRAMES_MAX, Link
from brokerproof.reference_broker.openwire.framing import OpenWireFraming
from brokerproof.reference_broker.session.detection import AUTO, Detector
from brokerproof.reference_broker.session.framing import FramingError, Limits
from brokerproof.reference_broker.stomp.framing import StompFraming

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.operations import Probe
    from brokerproof.conformance.worlds.simulated.broker import BrokerHost
    from brokerproof.reference_broker.session.framing import Framing


_LIMITS: Final = Limits()
#: Into how many pieces a turn is cut, about: a short one into its bytes.
PIECES: Final = 64


class Speak(Action):
    """A peer wants to say something."""

    __slots__ = ("_link",)

    def __init__(self, link: PeerLink) -> None:
        self._link = link

    def happen(self) -> None:
        self._link.speak()

    def party(self) -> Party:
        return self._link.broker


class PeerLink(Link):
    """A raw peer and its link. The broker's writer knows it as a link."""

    #: What a raw peer saw tells enough.
    is_told = False

    def __init__(self, agenda: Agenda, broker: BrokerHost, probe: Probe, name: str, connection: int) -> None:
        super().__init__(agenda, broker, name, LinkSpec(name, 0))
        self.broker = broker
        login, passcode = broker.login or ("", "")
        self.peer = RawPeer(probe, WayIn(login=login, passcode=passcode))
        self.connection = connection
        self._detector = Detector() if probe.dialogues and connection % 2 else None
        #: The broker's end, of who controls every byte.
        self._framing: Framing = StompFraming(_LIMITS) if probe.via == "stomp" else OpenWireFraming(_LIMITS)

    # -- toward the broker

    def arrive(self) -> None:
        """Connect, and say hello."""
        now_ns = self.agenda.now_ns
        self.broker.accept(self.connection, self, self.peer.probe.via if self._detector is None else AUTO)
        self._say(self.peer.start(now_ns), hello=True)
        self._plan()

    def speak(self) -> None:
        """Say what is due."""
        due_ns = self.peer.next_due_ns()
        if due_ns is not None and due_ns <= self.agenda.now_ns:
            self._say(self.peer.speak(self.agenda.now_ns))
            self._plan()

    def _plan(self) -> None:
        due_ns = self.peer.next_due_ns()
        if due_ns is not None:
            self.agenda.plan(due_ns, Speak(self))

    def _say(self, items: list[object], *, hello: bool = False) -> None:
        broker = self.broker
        for item in items:
            now_ns = self.agenda.now_ns
            self.peer.wrote(now_ns, now_ns, hello=hello)
            if isinstance(item, Part):
                broker.bytes_arrived(self.connection)
            elif isinstance(item, Words):
                self._read(item.data)
            elif isinstance(item, Broken):
                broker.broken(self.connection, item.text)
            else:
                broker.receive(self.connection, item)

    def _read(self, data: bytes) -> None:
        broker, connection = self.broker, self.connection
        if self._detector is not None:
            protocol = self._detector.feed(data)
            assert protocol == self.peer.probe.via, f"{data[:9]!r} was taken for {protocol}"
            self._detector = None
            broker.node.protocol_detected(connection, protocol, broker.now())
        assert self.peer.conversation is not None
        pieces = PIECES if connection % 2 and len(self.peer.conversation.spoken) % 2 else 1
        size = len(data) // pieces or 1
        for start in range(0, len(data), size):
            try:
                frames = self._framing.feed(data[start : start + size])
            except FramingError as error:
                for frame in error.frames:
                    broker.receive(connection, frame)
                broker.broken(connection, error.text, error.receipt)
                return
            for frame in frames:
                broker.receive(connection, frame)

    def leave(self) -> None:
        """Hang up."""
        if self.peer.ended_ns is None:
            self.broker.lose(self.connection)

    # -- from the broker: it hears at once, unless it does not read

    def is_full(self) -> bool:
        return self.down >= FRAMES_MAX

    def to_client(self, connection: int, frame: object) -> None:  # noqa: ARG002 - it has but one
        peer = self.peer
        if peer.conversation is not None:
            self._say(peer.hear_bytes(self._framing.encode(frame), self.agenda.now_ns))
            self._plan()
            return
        if peer.probe.deaf and peer.welcome_ns is not None:
            self.down += 1
            return
        now_ns = self.agenda.now_ns
        spoke = peer.welcome_ns is not None
        self._say(peer.hear(frame, now_ns))
        if not self.broker.is_unread(self.connection):
            peer.flooded_ns = peer.flooded_ns or self.agenda.now_ns
        if not spoke:
            self._plan()

    def end_to_client(self, connection: int, reason: str) -> None:  # noqa: ARG002 - nobody tells it why
        self.peer.end(self.agenda.now_ns)

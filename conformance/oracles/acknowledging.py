"""Oracle: what OpenWire's acknowledgement types do to counters and windows. Judges INF-009, INF-015, INF-017, PRE-005.

Model. ``EFFECTS`` is the table: what a type takes off its consumer's list, and how that counts. Nothing else happens
between two reads at rest than one acknowledgement (and what is dispatched because of it), so the difference of the
counters is its effect: removed from the lists = dispatched - in flight. A window of prefetch p has p + e slots; a
DELIVERED acknowledgement of c messages that were not reported before adds c to e, settlements take off again what the
table says, and e is never below 0.

Events: ``acknowledge`` and what it settled, ``counters``, ``subscribe``, ``arrive``, ``send``; anything else that
changes something spoils the pair of reads in between.

Analyses:

1. INF-009: the counters differ by what the table says.
2. INF-015: the same for an INDIVIDUAL acknowledgement without a first id, on a topic, with something before it.
3. INF-017: an acknowledgement whose last message does not exist is refused, and the counters do not differ.
4. PRE-005: at rest a consumer that has reported messages DELIVERED holds exactly p + e, or fewer if nothing waits.

Not checked: EXPIRED where the broker need not believe the client; destinations whose messages may expire meanwhile,
wildcards; windows after a message was reported twice (ActiveMQ counts it twice), in transactions, of consumers that
choose, beyond a page (200), and while memory may be scarce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.experiment.destinations import is_pattern, is_topic
from brokerproof.conformance.experiment.history import (
    Ack,
    Acknowledge,
    Arrive,
    Connect,
    Counters,
    Discard,
    Event,
    Header,
    Nack,
    Send,
    Subscribe,
)
from brokerproof.conformance.oracles.base import NS_PER_MS, Oracle
from brokerproof.conformance.oracles.lens import is_choosy, surely_believes_client
from brokerproof.conformance.oracles.prefetch import PAGE
from brokerproof.conformance.oracles.scene import OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.oracles.wall import WallClocks

#: Type -> (does it take its messages off the list, and do they count as dequeued; as expired).
EFFECTS: Final[dict[str, tuple[bool, bool]]] = {
    "delivered": (False, False),
    "poison": (True, False),
    "standard": (True, False),
    "redelivered": (False, False),
    "individual": (True, False),
    "unmatched": (False, False),
    "expired": (True, True),
}
#: Settlements that take one off the extension, whatever their number.
BY_ONE: Final = ("poison", "expired")


class Window:
    """One consumer's window. ``extension`` None: no longer known."""

    __slots__ = ("discarded", "extension", "held", "reported", "subscribe")

    def __init__(self, subscribe: Subscribe) -> None:
        self.subscribe = subscribe
        self.held: dict[str, bool] = {}
        #: What it has reported DELIVERED, ever.
        self.reported: dict[str, bool] = {}
        #: How many it has called expired: they may wait, but not for this consumer.
        self.discarded = 0
        self.extension: int | None = 0

    def settle(self, messages: list[str], narrowing: int) -> None:
        """They are no longer held."""
        for message in messages:
            self.held.pop(message, None)
        if self.extension is not None:
            self.extension = max(0, self.extension - narrowing)


class Place:
    """What is known of one destination: the last read at rest, and the acknowledgement since."""

    __slots__ = ("act", "before", "spoilt")

    def __init__(self) -> None:
        self.before: Counters | None = None
        self.act: Acknowledge | None = None
        self.spoilt = False


class AcknowledgingOracle(Oracle):
    """See the module's header."""

    name = "acknowledging"
    requirements = ("INF-009", "INF-015", "INF-017", "PRE-005")
    # fmt: off
    kinds = (
        "subscribe", "unsubscribe", "leave", "send", "arrive", "ack", "nack", "discard", "acknowledge", "begin",
        "commit", "abort", "operate", "counters", "closed", "start", "stop", "kill", "pause", "fault", "connect",
    )
    # fmt: on

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._header = Header("", "")
        self._events: list[Event] = []
        self._acted = False
        self._windows: dict[str, Window] = {}
        self._places: dict[str, Place] = {}
        self._earliest_ms: dict[str, int] = {}
        self._bytes = 0

    def start(self, header: Header) -> None:
        self._header = header

    def feed(self, event: Event) -> None:
        self._events.append(event)
        self._acted = self._acted or isinstance(event, Acknowledge)

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind is Acknowledge else self._events.append

    def conclude(self) -> None:
        if not self._acted:
            return
        for event in self._events:
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Counters):
            if event.dest is not None and event.at_rest:
                self._read(event, event.dest)
        elif isinstance(event, Arrive):
            window = self._windows.get(event.consumer)
            if window is not None:
                window.held[event.message] = True
        elif isinstance(event, Acknowledge):
            self._acknowledge(event)
        elif isinstance(event, Ack | Nack | Discard):
            self._settle(event)
        else:
            self._spoil()
            self._rare(event)

    def _spoil(self) -> None:
        for place in self._places.values():
            place.spoilt = True

    def _rare(self, event: Event) -> None:
        if isinstance(event, Subscribe):
            if event.result != "fail":
                self._windows[event.consumer] = Window(event)
                self._places.setdefault(event.dest, Place())
        elif isinstance(event, Send):
            self._bytes += event.size + OVERHEAD_BYTES
            if event.mortal():
                earliest_ms = min(self._earliest_ms.get(event.dest, event.expiration_ms), event.expiration_ms)
                self._earliest_ms[event.dest] = 0 if event.life_ms else earliest_ms
        elif not isinstance(event, Connect):
            for window in self._windows.values():
                if window.subscribe.host == event.host or not event.host:
                    window.extension = None

    def _place_of(self, consumer: str) -> Place | None:
        window = self._windows.get(consumer)
        return None if window is None else self._places[window.subscribe.dest]

    def _acknowledge(self, event: Acknowledge) -> None:
        place = self._place_of(event.consumer)
        for other in self._places.values():
            other.spoilt = other.spoilt or other is not place or other.act is not None
        if place is not None:
            place.act = event
        window = self._windows.get(event.consumer)
        if window is None or event.type != "delivered" or event.wrong_end or event.result == "fail":
            return
        if event.result == "unknown" or any(message in window.reported for message in event.messages):
            window.extension = None
        elif window.extension is not None:
            window.extension += len(event.messages)
        for message in event.messages:
            window.reported[message] = True

    def _settle(self, event: Ack | Nack | Discard) -> None:
        window = self._windows.get(event.consumer)
        place = self._place_of(event.consumer)
        act = None if place is None else place.act
        messages = [event.message] if isinstance(event, Discard) else event.messages
        own = act is not None and (act.t0, act.t1, act.consumer) == (event.t0, event.t1, event.consumer)
        if not own:
            self._spoil()
        if window is None:
            return
        sure = isinstance(event, Discard) or (event.result == "ok" and event.tx is None)
        narrowing = len(messages)
        if own and act is not None and act.type in BY_ONE:
            narrowing = 0 if isinstance(event, Discard) and event.message != act.messages[0] else 1
        window.settle(messages, narrowing)
        window.discarded += isinstance(event, Discard)
        if not sure:
            window.extension = None

    # -- reads

    def _read(self, event: Counters, dest: str) -> None:
        place = self._places.setdefault(dest, Place())
        before, act, spoilt = place.before, place.act, place.spoilt
        place.before, place.act, place.spoilt = event, None, False
        if before is not None and act is not None and not spoilt and self._calm(dest, event):
            self._judge(before, act, event, dest)
        for window in self._windows.values():
            if window.subscribe.dest == dest and window.reported:
                self._judge_window(window, event)

    def _calm(self, dest: str, event: Counters) -> bool:
        """Whether nothing there can have expired by then."""
        earliest_ms = self._earliest_ms.get(dest)
        if is_pattern(dest) or (earliest_ms is not None and not self.clocks.known(self._header.broker_host)):
            return False
        if earliest_ms is None:
            return True
        return self.clocks.bounds_ns(self._header.broker_host, event.t0, event.t1)[1] < earliest_ms * NS_PER_MS

    def _judge(self, before: Counters, act: Acknowledge, after: Counters, dest: str) -> None:
        known = (before.dispatched, before.in_flight, before.dequeued, before.expired)
        figures = (after.dispatched, after.in_flight, after.dequeued, after.expired)
        if None in known or None in figures or act.result == "unknown":
            return
        differences = [int(b or 0) - int(a or 0) for a, b in zip(known, figures, strict=True)]
        removed, dequeued, expired = differences[0] - differences[1], differences[2], differences[3]
        takes, expires = EFFECTS[act.type]
        if act.type == "expired" and not surely_believes_client(self._header) and not act.wrong_end:
            return
        count = len(act.messages) if takes and not act.wrong_end else 0
        wanted = (count, count, count if expires else 0)
        single = act.type == "individual" and act.open_start and is_topic(dest)
        requirement = "INF-017" if act.wrong_end else "INF-015" if single else "INF-009"
        claim = self.claims[requirement]
        text = (
            f"{act.type.upper()} of {len(act.messages)} by {act.consumer} on {dest}"
            f"{' with a last message that does not exist' if act.wrong_end else ''} ({act.result}): removed {removed}, "
            f"dequeued {dequeued}, expired {expired}; wanted {wanted[0]}, {wanted[1]}, {wanted[2]}"
        )
        if (removed, dequeued, expired) != wanted or (act.wrong_end and act.result == "ok"):
            claim.fail(text, [before.seq, act.seq, after.seq], outcome="otherwise")
        elif act.result == "ok" or act.wrong_end:
            situation = (
                f"{act.type}{' of a range' if len(act.messages) > 1 else ''}" if requirement == "INF-009" else ""
            )
            claim.hold(situation, outcome="no-effect" if act.wrong_end else "as-defined")

    def _judge_window(self, window: Window, event: Counters) -> None:
        subscribe = window.subscribe
        extension, held = window.extension, len(window.held)
        if extension is None or subscribe.result != "ok" or not subscribe.prefetch or held >= PAGE:
            return
        limits = [entry.memory_limit_bytes for entry in self._header.declared.destinations if entry.memory_limit_bytes]
        if is_topic(subscribe.dest) or is_choosy(subscribe) or subscribe.browser or is_pattern(subscribe.dest):
            return
        if (
            limits
            or self._bytes * 2 > self._header.declared.memory_limit_bytes > 0
            or not self._calm(subscribe.dest, event)
        ):
            return
        claim = self.claims["PRE-005"]
        slots = subscribe.prefetch + extension
        text = (
            f"at rest {subscribe.consumer} (prefetch {subscribe.prefetch}, widened by {extension}) holds {held} "
            f"messages of {subscribe.dest}"
        )
        waits = (
            event.size is not None and event.in_flight is not None and event.size > event.in_flight + window.discarded
        )
        if held > slots:
            claim.fail(text, [event.seq], outcome="too-many")
        elif held < slots and waits and not event.scheduled:
            claim.fail(f"{text}, and others wait", [event.seq], outcome="too-few")
        elif held == slots:
            claim.hold("it was widened" if extension else "it was widened, and is no longer", outcome="exact")

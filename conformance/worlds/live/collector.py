"""Who takes dead letters where several runs use a broker at once: their queue is everybody's.

Rules
* One consumer for all runs stays at the queue of all dead letters, and hands each run its own: by the run's name, which
  begins the name of each of its messages. What is no run's of ours stays unacknowledged, and so the broker's.
* A letter that came before its run asked for dead letters lay in the queue until then, as far as that run can see: its
  interval begins when the run asked, and ends when it was handed over.
* A letter is acknowledged at once; its run hears of that when it acknowledges it itself.
* It stays there as long as a run of ours uses the broker: others may want what lies there.
* Once the collector's connection has ended nobody knows what there was: its runs are *not run*.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.protocol import AgentError
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.worlds.live.agent import OWN_MS, await_lines
from brokerproof.conformance.worlds.port import Outcome
from brokerproof.reference_broker.core.message import DEAD_LETTER_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.agents.protocol import Reply
    from brokerproof.conformance.brokers.base import Access
    from brokerproof.conformance.worlds.live.agent import AgentHost
    from brokerproof.conformance.worlds.port import Waiting

NS_PER_MS = 1_000_000
CONSUMER = "letters"
WINDOW = 1000
_POLL_MS = 50
#: How often its client beats.
BEAT_MS = 10_000
#: How often a run looks whether an acknowledgement has been answered.
_LOOK_NS = 5 * NS_PER_MS


class NotCollected(Exception):
    """Nobody knows what dead letters a run has."""


class Letter(msgspec.Struct, eq=False):
    """One that has arrived. ``reply``: the answer to its acknowledgement."""

    arrived: protocol.Arrive
    reply: Reply | None = None


class Mailbox:
    """One run's dead letters."""

    def __init__(self, collector: Collector, run: str, leave: Callable[[str], None]) -> None:
        self.run = run
        self._leave = leave
        #: The run's host and consumer that have asked for them.
        self.host = self.consumer = ""
        self._since_ns = 0
        self._collector = collector
        self._letters: deque[Letter] = deque()
        self._handed: dict[str, Letter] = {}

    def put(self, letter: Letter) -> None:
        """By the collector's thread."""
        self._letters.append(letter)

    def ask(
        self, operation: ops.Subscribe | ops.Ack, now_ns: Callable[[], int], patience_ms: int = OWN_MS
    ) -> Waiting[Outcome | None]:
        """What a run asks of the broker, in its names there: from now on it wants its letters, or it acknowledges some;
        None: that is not about letters.
        """
        asked_ns = now_ns()
        if isinstance(operation, ops.Subscribe):
            if operation.dest != DEAD_LETTER_QUEUE:
                return None
            self.host, self.consumer, self._since_ns = operation.host, operation.consumer, time.monotonic_ns()
            return Outcome(t0=asked_ns, t1=now_ns())
        if operation.consumer != self.consumer:
            return None
        letters = [self._handed[message] for message in operation.messages]
        while any(one.reply is None for one in letters) and now_ns() < asked_ns + patience_ms * NS_PER_MS:
            yield now_ns() + _LOOK_NS
        outcome = Outcome(t0=asked_ns, t1=now_ns())
        for reply in (letter.reply for letter in letters):
            if reply is None or (reply.ok is None and reply.fail is None):
                outcome.result = "unknown"
            elif reply.fail is not None:
                outcome.result, outcome.refusal = "fail", f"{reply.fail.code}: {reply.fail.text}"
        return outcome

    def take(self) -> list[protocol.Arrive]:
        """What has come for the run's consumer since it looked last. Raises ``NotCollected``."""
        if self._collector.lost:
            raise NotCollected(f"the connection that collects dead letters has ended: {self._collector.lost}")
        found = []
        while self.consumer and self._letters:
            letter = self._letters.popleft()
            event = letter.arrived
            if event.t0 < self._since_ns:
                event = msgspec.structs.replace(event, t0=self._since_ns, t1=time.monotonic_ns())
            self._handed[event.message] = letter
            found.append(msgspec.structs.replace(event, consumer=self.consumer))
        return found

    def close(self) -> None:
        """The run is over."""
        self._leave(self.run)


class Collector:
    """At one broker. ``begin``, then mailboxes; ``close`` when nobody uses them. ``known``: runs that have had one,
    whose letters are nobody else's.
    """

    def __init__(self, agent: AgentHost, known: set[str]) -> None:
        self._agent = agent
        self._known = known
        #: Why it ended by itself.
        self.lost = ""
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._boxes: dict[str, Mailbox] = {}
        self._unanswered: dict[int, Letter] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def begin(self, access: Access, *, beats: bool = False) -> None:
        """Connect and subscribe. ``beats``: with heart-beats, because some brokers close a link that is silent for a
        minute. Raises ``NotCollected``.
        """
        url = access.url.replace("{host}", access.host).replace("{port}", str(access.port))
        heartbeat_ms = (BEAT_MS if beats else 0, 0)
        asked = ops.Connect(url=url, heartbeat_ms=heartbeat_ms, **ops.shared(access, ops.Connect, "host", "url"))
        subscribe = ops.Subscribe(dest=DEAD_LETTER_QUEUE, consumer=CONSUMER, prefetch=WINDOW, ack="individual")
        for operation in (asked, subscribe):
            reply = self._agent.ask_alone(operation, deadline_ms=2 * OWN_MS)
            if reply.ok is None:
                why = reply.unknown if reply.fail is None else reply.fail.text
                raise NotCollected(f"dead letters cannot be collected: {why}")
            self._agent.connected = True
        self._thread.start()

    def mailbox(self, run: str, leave: Callable[[str], None]) -> Mailbox:
        """For one run, which calls ``leave`` when it is over."""
        with self._lock:
            self._known.add(run)
            self._boxes[run] = Mailbox(self, run, leave)
            return self._boxes[run]

    def forget(self, run: str) -> bool:
        """A run is over; what comes for it later is thrown away. Whether any is left."""
        with self._lock:
            self._boxes.pop(run, None)
            return bool(self._boxes)

    def close(self) -> AgentHost:
        """Stop; its agent, which has its connection still."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        return self._agent

    def _serve(self) -> None:
        try:
            while not self._over.is_set():
                await_lines([self._agent], time.monotonic_ns() + _POLL_MS * NS_PER_MS)
                for event in self._agent.drain():
                    if isinstance(event, protocol.Arrive):
                        self._sort(event)
                    elif isinstance(event, protocol.Closed):
                        self.lost, self._agent.connected = event.reason or "closed", False
                        return
                self._note_replies()
        except AgentError as error:
            self.lost = str(error)

    def _sort(self, event: protocol.Arrive) -> None:
        run = event.message.partition(":")[0]
        with self._lock:
            if run not in self._known:
                return
            letter, box = Letter(event), self._boxes.get(run)
        asked = ops.Ack(consumer=CONSUMER, messages=[event.message], mode="individual")
        self._unanswered[self._agent.post(asked)] = letter
        if box is not None:
            box.put(letter)

    def _note_replies(self) -> None:
        for number, letter in list(self._unanswered.items()):
            letter.reply = self._agent.reply_to(number)
            if letter.reply is not None:
                del self._unanswered[number]


class Collectors:
    """One laboratory's: place -> collector. ``release`` takes an agent back."""

    def __init__(self, release: Callable[[AgentHost], None]) -> None:
        self._release = release
        self._lock = threading.Lock()
        self._at: dict[str, Collector] = {}
        self._known: set[str] = set()

    def mailbox(
        self, place: str, run: str, hire: Callable[[], AgentHost], access: Access, *, beats: bool = False
    ) -> Mailbox:
        """A run's at a place; ``beats`` as in ``Collector.begin``. Raises ``NotCollected``."""
        with self._lock:
            found = self._at.get(place)
            if found is None or found.lost:
                self._end(place)
                agent = hire()
                agent.greet()
                found = Collector(agent, self._known)
                try:
                    found.begin(access, beats=beats)
                except NotCollected:
                    self._release(agent)
                    raise
                self._at[place] = found
            return found.mailbox(run, partial(self._leave, place, found))

    def close(self) -> None:
        """All of them."""
        with self._lock:
            for place in list(self._at):
                self._end(place)

    def _leave(self, place: str, collector: Collector, run: str) -> None:
        with self._lock:
            if not collector.forget(run) and self._at.get(place) is collector:
                self._end(place)

    def _end(self, place: str) -> None:
        """Nobody of ours stands at this place's queue any more."""
        found = self._at.pop(place, None)
        if found is not None:
            self._release(found.close())

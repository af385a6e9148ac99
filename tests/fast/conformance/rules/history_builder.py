"""A builder of hand-written histories for the rules: in milliseconds, in the order of the calls.

Every call records one event at the current time, then lets ``tick_ms`` pass, so that a story reads from top to bottom.
Requests that the broker answers take ``request_ms``; what is merely seen takes no time. ``at(ms)`` sets the time,
``wait(ms)`` lets it pass. The broker's wall clock is ``EPOCH_MS`` plus true time.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from brokerproof.conformance.brokers.translation import CAPABILITIES
from brokerproof.conformance.experiment.configuration import DeclaredSpec
from brokerproof.conformance.experiment.history import (
    FORMAT,
    Abort,
    Ack,
    Arrive,
    Begin,
    ClockSample,
    Closed,
    Commit,
    Connect,
    Consume,
    Counters,
    Crash,
    Discard,
    Event,
    Fault,
    Header,
    History,
    Kill,
    Leave,
    Nack,
    Operate,
    Pause,
    Phase,
    Probe,
    Send,
    Subscribe,
)
from brokerproof.conformance.experiment.peers import Heard, Said
from brokerproof.conformance.experiment.traits import traits_of
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.conformance.experiment.versions import destinations_named, names_in
from brokerproof.conformance.rules.judge import judge_history

NS_PER_MS = 1_000_000
EPOCH_MS = 1_795_219_200_000
DLQ = "ActiveMQ.DLQ"
INACTIVE = "Channel was inactive for too (>1000) long: tcp://c0:1"


def host_of(name: str) -> str:
    """The host of a message or a consumer."""
    return name.partition("/")[0]


def foreign(**declared: Any) -> Builder:
    """Of a broker that promises nothing where STOMP is silent."""
    story = Builder("live", **declared)
    ours = {"browses-in-flight", "default-prefetch", "keeps-rolled-back"}
    story.header = msgspec.structs.replace(
        story.header, capabilities=[word for word in CAPABILITIES if word not in ours]
    )
    return story


class Builder:
    """A history under construction. ``declared``: fields of ``DeclaredSpec``."""

    def __init__(self, world: str = "simulated", **declared: Any) -> None:
        self.header = Header(FORMAT, "test", world, capabilities=CAPABILITIES, declared=DeclaredSpec(**declared))
        self.events: list[Event] = []
        self.now_ms = 0.0
        self.tick_ms = 1.0
        self.request_ms = 1.0
        self.dests: dict[str, str] = {}
        self.clock()

    # -- time

    def at(self, ms: float) -> Self:
        """Go to a time."""
        self.now_ms = ms
        return self

    def wait(self, ms: float) -> Self:
        """Let time pass."""
        self.now_ms += ms
        return self

    def _add(self, kind: type[Event], host: str, lasting_ms: float = 0.0, **fields: Any) -> Self:
        t0 = round(self.now_ms * NS_PER_MS)
        t1 = round((self.now_ms + lasting_ms) * NS_PER_MS)
        self.events.append(kind(len(self.events) + 1, t0, t1, host, **fields))
        self.now_ms += lasting_ms + self.tick_ms
        return self

    def clock(self, host: str = "b", ahead_ms: int = 0) -> Self:
        """The host's wall clock, read exactly."""
        t0 = round(self.now_ms * NS_PER_MS)
        event = ClockSample(
            len(self.events) + 1, t0, t0, host, EPOCH_MS + t0 // NS_PER_MS + ahead_ms, 0, t0 % NS_PER_MS
        )
        self.events.append(event)
        return self

    # -- what clients do

    def connect(
        self,
        host: str,
        via: str = "stomp",
        result: str = "ok",
        *,
        checks: bool = False,
        beats: tuple[int, int] | None = None,
        **does: Any,
    ) -> Self:
        """A connection is made. ``checks``: the library discards what has expired. ``beats``: ``heart_beat_ms``.
        ``does``: other traits.
        """
        traits = msgspec.structs.replace(traits_of(via, checks_expiry=checks), **does)
        told = {"traits": traits, "heart_beat_ms": beats}
        return self._add(Connect, host, self.request_ms, result=result, via=via, **told)

    def send(self, message: str, dest: str = "q0", result: str = "ok", **fields: Any) -> Self:
        """The host in front of the slash sends it."""
        return self._add(Send, host_of(message), self.request_ms, result=result, message=message, dest=dest, **fields)

    def subscribe(self, consumer: str, dest: str = "q0", prefetch: int = 10, result: str = "ok", **fields: Any) -> Self:
        """A consumer attaches."""
        self.dests[consumer] = dest
        host = host_of(consumer)
        return self._add(
            Subscribe, host, self.request_ms, result=result, consumer=consumer, dest=dest, prefetch=prefetch, **fields
        )

    def arrive(self, consumer: str, *messages: str, dest: str | None = None, **fields: Any) -> Self:
        """Messages arrive."""
        for message in messages:
            host = host_of(consumer)
            self._add(Arrive, host, consumer=consumer, message=message, dest=dest or self.dests[consumer], **fields)
        return self

    def consume(self, consumer: str, *messages: str) -> Self:
        """The application gets them."""
        for message in messages:
            self._add(Consume, host_of(consumer), consumer=consumer, message=message)
        return self

    def discard(self, consumer: str, message: str) -> Self:
        """The library throws it away."""
        return self._add(Discard, host_of(consumer), consumer=consumer, message=message, reason="expired")

    def ack(self, consumer: str, *messages: str, result: str = "ok", **fields: Any) -> Self:
        """They are acknowledged."""
        host = host_of(consumer)
        return self._add(
            Ack, host, self.request_ms, result=result, consumer=consumer, messages=list(messages), **fields
        )

    def nack(self, consumer: str, *messages: str, result: str = "ok", **fields: Any) -> Self:
        """They are rejected."""
        host = host_of(consumer)
        return self._add(
            Nack, host, self.request_ms, result=result, consumer=consumer, messages=list(messages), **fields
        )

    def begin(self, host: str, tx: str = "", result: str = "ok") -> Self:
        """A transaction begins; ``HOST/tx1`` if not named."""
        return self._add(Begin, host, self.request_ms, result=result, tx=tx or f"{host}/tx1")

    def commit(self, host: str, tx: str = "", result: str = "ok") -> Self:
        """It is committed."""
        return self._add(Commit, host, self.request_ms, result=result, tx=tx or f"{host}/tx1")

    def abort(self, host: str, tx: str = "", result: str = "ok") -> Self:
        """It is rolled back."""
        return self._add(Abort, host, self.request_ms, result=result, tx=tx or f"{host}/tx1")

    def operate(self, op: str, dest: str = "q0", to: str = "", result: str = "ok", **fields: Any) -> Self:
        """An operator asks."""
        return self._add(Operate, "", self.request_ms, result=result, op=op, dest=dest, to=to, **fields)

    def leave(self, consumer: str, result: str = "ok") -> Self:
        """The consumer closes."""
        return self._add(Leave, host_of(consumer), result=result, how="close", consumer=consumer)

    def lose(self, host: str, how: str = "drop") -> Self:
        """The host's connection or process vanishes."""
        return self._add(Leave, host, result="ok", how=how)

    # -- what the world does

    def closed(
        self, link: str, who: str = "broker", host: str = "b", idle_ms: float | None = None, reason: str = INACTIVE
    ) -> Self:
        """A connection ends, seen at ``host``."""
        idle_ns = None if idle_ms is None else round(idle_ms * NS_PER_MS)
        return self._add(Closed, host, who=who, reason=reason, link=link, idle_ns=idle_ns)

    def stall(self, link: str, toward: str = "broker", *, evidence: bool = True) -> Self:
        """A link stalls."""
        return self._add(Fault, "", fault="stall", link=link, toward=toward, evidence={"n": 1} if evidence else None)

    def resume(self, link: str) -> Self:
        """It flows again."""
        return self._add(Fault, "", fault="resume", link=link, evidence={"n": 1})

    def jump(self, host: str = "b", jump_ms: int = 1000) -> Self:
        """A wall clock is stepped."""
        return self._add(Fault, "", fault="clock", target=host, jump_ms=jump_ms, evidence={"n": 1})

    def pause(self, target: str, ms: float = 0) -> Self:
        """A process is suspended for a while."""
        return self._add(Pause, "", ms, target=target)

    def exhaust(self, what: str, *, evidence: bool = True) -> Self:
        """The broker's process has too little of something."""
        seen = {"left": 0} if evidence else None
        return self._add(Fault, "", fault="exhaust", target="b", how=what, evidence=seen)

    def relieve(self, what: str) -> Self:
        """It has enough again."""
        return self._add(Fault, "", fault="relieve", target="b", how=what, evidence={"free": 9})

    def crash(self, target: str = "b") -> Self:
        """A process ends, and nobody had asked it to."""
        return self._add(Crash, target, target=target, how="exited")

    def kill(self, target: str) -> Self:
        """A process is killed."""
        return self._add(Kill, "", target=target)

    def restart(self, how: str = "kill", *, evidence: bool = True) -> Self:
        """The broker's process ends and comes back, ten milliseconds later."""
        seen = {"connections": 1} if evidence else None
        return self._add(Fault, "", 10.0, fault="restart", target="b", how=how, evidence=seen)

    def phase(self, name: str) -> Self:
        """The run enters a phase."""
        return self._add(Phase, "", name=name)

    def read(self, dest: str | None = "q0", *, at_rest: bool = False, lasting_ms: float = 0.0, **counters: Any) -> Self:
        """Counters are read."""
        return self._add(Counters, "b", lasting_ms, dest=dest, at_rest=at_rest, **counters)

    def rest(self, dest: str | None = "q0", **counters: Any) -> Self:
        """Counters are read while nothing moves."""
        return self.read(dest, at_rest=True, **counters)

    def drain(self, *dests: str, prefetch: int = 1000) -> Self:
        """Phase ``drain``: a consumer for each destination, named ``drain/1`` and so on."""
        self.phase("heal").rest(None).phase("drain").connect("drain")
        for number, dest in enumerate(dests, start=1):
            self.subscribe(f"drain/{number}", dest, prefetch, ack="individual")
        return self

    def end(self) -> Self:
        """The run is over."""
        return self.rest(None).clock().phase("end")

    # -- what is made of it

    def history(self) -> History:
        """As ordered by the end of each event."""
        destinations = destinations_named(names_in(self.events))
        return History(msgspec.structs.replace(self.header, destinations=destinations), self.events)

    def probe(self, until_ms: float, said: Said, heard: Heard) -> Self:
        """A raw peer came at the current time and looked until then."""
        return self._add(Probe, "raw-peer", until_ms - self.now_ms, said=said, heard=heard)

    def verdicts(self, *requirements: str) -> dict[str, Verdict]:
        """What the rules say of these requirements; events are ordered by their ends, as a world orders them."""
        self.events.sort(key=lambda event: event.t1)
        for number, event in enumerate(self.events, start=1):
            event.seq = number
        return {verdict.requirement: verdict for verdict in judge_history(self.history(), wanted=requirements)}

"""Lines of a profile that are proven by the agent of an endpoint: that it connects, sends and receives, and promises.

Rules
* Every endpoint but STOMP, which is proven by bare frames (``brokers/proving.py``), is proven by the agent that plays
  hosts over it. What the profile promises is tried over the endpoint that plays, if that is not STOMP.
* Each question has a queue of its own. A refusal that is a line's fault is told of that line.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from brokerproof.chaos.processes import NotReady, ProcessDiedAtStart
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.agents.kinds import JMS, MQTT, STOMP
from brokerproof.conformance.agents.protocol import AgentError, Browse, Reply
from brokerproof.conformance.agents.provider import PROFILE
from brokerproof.conformance.brokers.addresses import way_in
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.proving import Proof, begun_again, counted
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.worlds.live.examining import ABSENT_MS, COMES_MS, Desk, Unproven, Wrong

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.servers import Server
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

BROKEN = (NotReady, ProcessDiedAtStart, ToolMissing, ToolFailed)
SKEW_MS = 3_600_000
_DELAY_MS = 1500
_LIFE_MS = 1000
#: How long a message may outlive its time, where a broker looks for expired ones from time to time.
_LATE_MS = 1000
_LONG_MS = 600_000


def endpoints(adapter: ProfileAdapter) -> list[str]:
    """Those that are proven here, that which plays first."""
    named = adapter.located.profile.endpoints
    kinds = [kind for kind in named.__struct_fields__ if kind != STOMP and getattr(named, kind) is not None]
    return sorted(kinds, key=lambda kind: kind != adapter.library(STOMP))


def prove_by_agents(adapter: ProfileAdapter, laboratory: Laboratory) -> Iterator[Proof]:
    """Every line that an agent can prove."""
    kinds, server = endpoints(adapter), None
    if kinds and adapter.located.profile.start is not None:
        try:
            server = adapter.server(BrokerSpec(), ClockSpec(), alone=True)
        except BROKEN as error:
            yield Proof("start.command", "wrong", str(error))
            return
    try:
        for kind in kinds:
            bench = _Bench(adapter, laboratory, kind, server)
            proof = bench.proof(f"endpoints.{kind}", bench.exchanges)
            yield proof
            if proof.state == "ok":
                yield from bench.promises()
    finally:
        if server is not None:
            adapter.servers.give_back(server, spoilt=True)


def check_entry(adapter: ProfileAdapter, laboratory: Laboratory) -> None:
    """Before the first run: the broker lets in who plays hosts over anything but STOMP, which is probed. Raises
    ``SuiteProblem`` or ``UsageError``.
    """
    kind = adapter.library(STOMP)
    if kind == STOMP:
        return
    server = adapter.first() if adapter.located.profile.start is not None else None
    try:
        bench = _Bench(adapter, laboratory, kind, server)
        proof = bench.proof(f"endpoints.{kind}", bench.enters)
    finally:
        if server is not None:
            adapter.servers.give_back(server, spoilt=False)
    if proof.state == "wrong":
        doubt = "; does it speak this protocol?" if proof.line == f"endpoints.{kind}" else ""
        raise SuiteProblem(str(adapter.located.wrong(proof.line, proof.text + doubt)))


class _Bench:
    """One endpoint at a running broker; ``server`` None: it is not ours."""

    def __init__(self, adapter: ProfileAdapter, laboratory: Laboratory, kind: str, server: Server | None) -> None:
        self._adapter = adapter
        self._laboratory = laboratory
        self._kind = kind
        self._server = server
        self._own = ProfileAdapter(adapter.located, kind)
        self._stack = ExitStack()
        self._asked = 0
        #: Consumer -> how many of its messages were handed out.
        self._given: dict[str, int] = {}

    def proof(self, line: str, question: Callable[[], str]) -> Proof:
        """What comes of a question; its agents end."""
        self._given = {}
        with ExitStack() as self._stack:
            try:
                return Proof(line, "ok", question())
            except Unproven as reason:
                return Proof(line, "not proven", str(reason))
            except Wrong as wrong:
                blamed, _, text = str(wrong).partition(": ") if str(wrong).startswith(PROFILE) else ("", "", str(wrong))
                return Proof(blamed.removeprefix(PROFILE) or line, "wrong", text)
            except (AgentError, *BROKEN) as error:
                return Proof(line, "wrong", str(error))

    def promises(self) -> Iterator[Proof]:
        """What the profile says beyond the endpoint itself."""
        profile, plays = self._adapter.located.profile, self._adapter.library(STOMP) == self._kind
        if self._kind == JMS:
            yield self.proof("endpoints.jms.uri", self._fetches_nothing)
            yield self.proof("endpoints.jms.expiry_check", self._expiry_check)
        if not plays:
            return
        if profile.restarts:
            yield self.proof("start.restart", self._restart)
        if profile.counters is not None:
            yield self.proof("counters.map", self._counters)
        tried = {
            "broker-ttl": self._life,
            "browsers": self._browsers,
            "delay": self._delay,
            "persistent": self._persistent,
            "prefetch": self._prefetch,
            "selectors": self._selectors,
            "topics": self._topics,
            "transactions": self._transactions,
            "ttl": self._ttl,
        }
        claimed = profile.promises.capabilities or []
        for word in claimed:
            if word in tried:
                yield self.proof(f"promises.capabilities {word}", tried[word])
        if unknown := [word for word in claimed if word not in tried]:
            yield Proof("promises.capabilities", "not proven", f"no agent tries {', '.join(unknown)}")

    # -- talking

    def enters(self) -> str:
        """It is let in."""
        self._desk()
        return "it is let in"

    def _desk(self, offset_ms: int = 0) -> Desk:
        """A connected agent. Raises ``Wrong`` for what the broker, or the library, says to that."""
        desk = Desk(self._laboratory.hire(self._kind, offset_ms, self._own.words(STOMP)), offset_ms)
        self._stack.callback(self._release, desk)
        access = way_in(self._adapter.located, self._kind, self._adapter.values(self._server))
        url = access.url.replace("{host}", access.host).replace("{port}", str(access.port))
        client = f"prove-{secrets.token_hex(4)}"
        told = {**ops.shared(access, ops.Connect, "host", "url"), "client_id": client}
        self._said(desk, ops.Connect(url=url, **told))
        desk.host.connected = True
        return desk

    def _release(self, desk: Desk) -> None:
        try:
            self._laboratory.release(desk.host)
        except AgentError:
            desk.host.kill()

    def _said(self, desk: Desk, operation: Any) -> dict[str, Any]:
        reply: Reply = desk.ask(operation)
        if reply.ok is not None:
            return reply.ok
        if reply.fail is None:
            raise Wrong(f"{type(operation).__name__.lower()}: {reply.unknown}")
        code = reply.fail.code
        raise Wrong(f"{code}: {reply.fail.text}" if code.startswith(PROFILE) else reply.fail.text)

    def _name(self) -> str:
        """A new name, of letters and digits alone."""
        self._asked += 1
        return f"prove{secrets.token_hex(4)}x{self._asked}"

    def _place(self) -> str:
        """A queue of its own; where there are none, a topic."""
        kind = "topic" if self._kind == MQTT else "queue"
        return f"{kind}://{self._name()}"

    def _waiting_place(self) -> str:
        if self._kind == MQTT:
            raise Unproven("there are no queues that keep a message for who comes later")
        return self._place()

    def _send(self, desk: Desk, dest: str, message: str, **options: Any) -> None:
        self._said(desk, ops.Send(dest=dest, message=message, size=64, **options))

    def _attach(self, desk: Desk, dest: str, consumer: str, prefetch: int = 10, **options: Any) -> None:
        pulls = 0 if desk.offers("pull") else prefetch
        self._said(desk, ops.Subscribe(dest=dest, consumer=consumer, prefetch=pulls, ack="individual", **options))

    def _next(self, desk: Desk, consumer: str, wait_ms: int = COMES_MS) -> str | None:
        """The next message of a consumer, not acknowledged."""
        place = self._given.get(consumer, 0)
        if desk.offers("take"):
            self._said(desk, ops.Take(consumer=consumer, deadline_ms=wait_ms))
        desk.pump(lambda: len(desk.arrivals(consumer)) > place, 0 if desk.offers("take") else wait_ms)
        found = desk.arrivals(consumer)[place:]
        self._given[consumer] = place + len(found[:1])
        return found[0].message if found else None

    def _takes(self, desk: Desk, consumer: str, wait_ms: int = COMES_MS) -> str | None:
        """The same, acknowledged."""
        found = self._next(desk, consumer, wait_ms)
        if found is not None:
            self._said(desk, ops.Ack(consumer=consumer, messages=[found], mode="individual"))
        return found

    # -- questions

    def exchanges(self) -> str:
        """It connects; what one agent sends another one receives and acknowledges."""
        sender, receiver, dest = self._desk(), self._desk(), self._place()
        self._attach(receiver, dest, "c0/1")
        self._send(sender, dest, "sent")
        found = self._takes(receiver, "c0/1")
        if found != "sent":
            raise Wrong(f"a message that was sent and accepted has not arrived in {COMES_MS} ms")
        offered = ", ".join(map(str, sender.capabilities.get("capabilities", [])))
        return f"{sender.capabilities.get('agent')} connects, sends, receives and acknowledges; it offers {offered}"

    def _fetches_nothing(self) -> str:
        """A consumer that asked in vain, and one that was given a message, hold nothing back from another one."""
        one, other, dest = self._desk(), self._desk(), self._place()
        self._attach(one, dest, "c0/1")
        self._attach(other, dest, "c0/2")
        self._next(one, "c0/1", ABSENT_MS)
        for number in range(4):
            self._send(one, dest, f"m{number}")
        first = self._next(one, "c0/1")
        rest = [self._takes(other, "c0/2", COMES_MS if number < 2 else ABSENT_MS) for number in range(3)]
        if first is None or None in rest:
            text = (
                f"of four messages a consumer that asked once was given {first!r}, another one that asks for all {rest}"
            )
            raise Wrong(f"{text}: the library fetches ahead; set its prefetch or window to 0, by the uri or properties")
        return "the library fetches nothing ahead"

    def _expiry_check(self) -> str:
        """A consumer whose clock is past the expiration, and the broker's is not."""
        said = self._adapter.located.profile.endpoints.jms
        sender, dest = self._desk(), self._place()
        try:
            receiver = self._desk(SKEW_MS)
        except (ToolMissing, ToolFailed) as error:
            raise Unproven(f"clocks cannot be skewed here: {error}") from None
        self._send(sender, dest, "dead-there", ttl_ms=_LONG_MS)
        self._send(sender, dest, "alive")
        self._attach(receiver, dest, "c0/1")
        # ActiveMQ, having thrown one away, says that there is none.
        found = self._takes(receiver, "c0/1") or self._takes(receiver, "c0/1")
        if found is None:
            raise Unproven(f"a consumer {SKEW_MS} ms ahead is given neither of two messages")
        checks = found == "alive"
        text = f"the library {'throws away' if checks else 'does not look'} what its host's clock calls expired"
        if said is None or said.expiry_check is None:
            raise Unproven(f"{text}: write expiry_check = {str(checks).lower()}")
        if said.expiry_check != checks:
            raise Wrong(f"{text}, but the profile says expiry_check = {str(said.expiry_check).lower()}")
        return text

    def _restart(self) -> str:
        dest, sender = self._waiting_place(), self._desk()
        self._send(sender, dest, "kept", persistent=True)
        assert self._server is not None, "only what is started can be restarted"
        ended = begun_again(self._adapter, self._server.launcher)
        receiver = self._desk()
        self._attach(receiver, dest, "c0/1")
        if self._takes(receiver, "c0/1") is None:
            raise Wrong(f"a persistent message is gone after a {ended}")
        return f"a persistent message is there after a {ended}"

    def _counters(self) -> str:
        desk, dest = self._desk(), self._waiting_place()
        figures = self._adapter.figures(self._server)
        assert figures is not None, "it is asked only where there are counters"
        with contextlib.closing(figures):
            proof = counted(figures, dest, lambda number: self._send(desk, dest, f"m{number}"))
        if proof.state == "wrong":
            raise Wrong(proof.text)
        return proof.text

    def _delay(self) -> str:
        desk, dest = self._desk(), self._place()
        self._attach(desk, dest, "c0/1")
        begun_ns = time.monotonic_ns()
        self._send(desk, dest, "late", delay_ms=_DELAY_MS)
        early, late = self._takes(desk, "c0/1", ABSENT_MS), self._takes(desk, "c0/1", _DELAY_MS + COMES_MS)
        if early is not None or late is None:
            raise Wrong(f"a message with a delay of {_DELAY_MS} ms came {'at once' if early else 'never'}")
        return f"a message with a delay of {_DELAY_MS} ms came after {(time.monotonic_ns() - begun_ns) // 10**6} ms"

    def _ttl(self) -> str:
        return self._dies("ttl_ms")

    def _life(self) -> str:
        return self._dies("life_ms")

    def _dies(self, option: str) -> str:
        desk, dest = self._desk(), self._waiting_place()
        self._send(desk, dest, "dead", **{option: _LIFE_MS})
        self._send(desk, dest, "alive")
        desk.pump(lambda: False, _LIFE_MS + _LATE_MS)
        self._attach(desk, dest, "c0/1")
        if (found := self._takes(desk, "c0/1")) != "alive":
            raise Wrong(f"after {_LIFE_MS + _LATE_MS} ms {found!r} came, before a message that lives for ever")
        return f"a message with {_LIFE_MS} ms to live is gone after {_LIFE_MS + _LATE_MS} ms"

    def _persistent(self) -> str:
        desk, dest = self._desk(), self._place()
        self._attach(desk, dest, "c0/1")
        self._send(desk, dest, "kept", persistent=True)
        self._takes(desk, "c0/1")
        told = [one.persistent for one in desk.arrivals("c0/1")]
        if told == [None]:
            raise Unproven("what arrives does not say whether it is persistent")
        if told != [True]:
            raise Wrong(f"a persistent message arrives as persistent = {told}")
        return "a persistent message arrives as one"

    def _prefetch(self) -> str:
        """A window of 2: one of 1 is held by brokers, too, that never give more than one."""
        desk, dest = self._desk(), self._place()
        if self._kind == MQTT:  # a topic keeps nothing for who comes later
            self._attach(desk, dest, "c0/1", prefetch=2)
        for number in range(4):
            self._send(desk, dest, f"m{number}")
        if self._kind != MQTT:
            self._attach(desk, dest, "c0/1", prefetch=2)
        first, second, third = (self._next(desk, "c0/1", ms) for ms in (COMES_MS, COMES_MS, ABSENT_MS))
        if first is None or second is None or third is not None:
            held = [one for one in (first, second, third) if one is not None]
            raise Wrong(f"a consumer with a window of 2 holds {held}")
        self._said(desk, ops.Ack(consumer="c0/1", messages=[first], mode="individual"))
        if self._takes(desk, "c0/1") is None:
            raise Wrong("its window of 2 does not move with an acknowledgement")
        return "a window of 2 holds 2, and moves with an acknowledgement"

    def _selectors(self) -> str:
        desk, dest = self._desk(), self._waiting_place()
        self._send(desk, dest, "other", kind="a")
        self._send(desk, dest, "wanted", kind="b")
        self._attach(desk, dest, "c0/1", selector="kind = 'b'")
        if (found := self._takes(desk, "c0/1")) != "wanted":
            raise Wrong(f"a consumer of kind = 'b' is given {found!r}")
        return "only what matches is given"

    def _browsers(self) -> str:
        desk, dest = self._desk(), self._waiting_place()
        self._send(desk, dest, "seen")
        self._said(desk, ops.Subscribe(dest=dest, consumer="c0/1", browser=True, ack="auto"))
        desk.pump(lambda: any(isinstance(one, Browse) and one.complete for one in desk.events), COMES_MS)
        shown = [one.message for one in desk.events if isinstance(one, Browse) and not one.complete]
        self._attach(desk, dest, "c0/2")
        if shown != ["seen"] or self._takes(desk, "c0/2") != "seen":
            raise Wrong(f"a browser of a queue with one message was shown {shown}")
        return "a browser is shown what waits, and takes nothing"

    def _topics(self) -> str:
        desk, dest = self._desk(), f"topic://{self._name()}"
        self._send(desk, dest, "early")
        self._attach(desk, dest, "c0/1")
        self._send(desk, dest, "now")
        found = [self._takes(desk, "c0/1"), self._takes(desk, "c0/1", ABSENT_MS)]
        if found != ["now", None]:
            raise Wrong(f"who subscribes between two messages is given {found}")
        return "a topic reaches who is there, and nobody who comes later"

    def _transactions(self) -> str:
        desk, dest = self._desk(), self._place()
        self._attach(desk, dest, "c0/1")
        for tx, end in (("t1", ops.Abort(tx="t1")), ("t2", ops.Commit(tx="t2"))):
            self._said(desk, ops.Begin(tx=tx))
            self._send(desk, dest, tx, tx=tx)
            early = self._takes(desk, "c0/1", ABSENT_MS)
            self._said(desk, end)
            if early is not None:
                raise Wrong(f"what was sent in a transaction came before its end: {early!r}")
        found = [self._takes(desk, "c0/1"), self._takes(desk, "c0/1", ABSENT_MS)]
        if found != ["t2", None]:
            raise Wrong(f"after a rollback and a commit {found} came")
        return "what was sent in a transaction comes with its commit, and not after a rollback"

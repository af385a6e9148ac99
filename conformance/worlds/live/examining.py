"""Whether an agent keeps the protocol (docs/agents.md), found out by a conversation with it and a witness.

Rules
* The witness is an agent that is known, at the same broker: what the candidate says of its messages is compared with
  what the witness sees of them, and the other way round.
* A reply's interval must lie between the question and its arrival here, and no event may end before its cause. A clock
  that is asked to be wrong must be wrong in replies and in stamps alike.
* A claim is *ok*, *wrong* (what was said, what is true) or *not proven*, because nothing here can tell.

Known exception: what candidate and broker do wrong together cannot be told apart, so the broker must be trusted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Literal

from brokerproof.chaos.ports import free_ports
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.kinds import AGENT
from brokerproof.conformance.agents.protocol import AgentError, Arrive, Closed, Reply
from brokerproof.conformance.brokers.proving import Proof
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import Destinations, queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.worlds.live.agent import AgentHost, await_lines
from brokerproof.conformance.worlds.live.names import RunNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.conformance.brokers.base import Adapter, Endpoint
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

Via = Literal["stomp", "jms"]
MS = 1_000_000
#: How long what must come may take, and how long is waited for what must not.
COMES_MS = 5000
ABSENT_MS = 300
SKEW_MS = 3_600_000
NEAR_MS = 1000
LIMIT_BYTES = 1_048_576
_SIZE = 100_000
_COUNT = 20
_TTL_MS = 600_000


class Wrong(Exception):
    """The agent says what is not so, or does not say what is. The text shows both."""


class Unproven(Exception):
    """It cannot be found out here. The text says why."""


class Desk:
    """One agent at the other end of a conversation."""

    def __init__(self, host: AgentHost, offset_ms: int = 0) -> None:
        self.host = host
        self.events: list[Any] = []
        self._offset_ms = offset_ms
        self.capabilities = self.ask(protocol.Hello()).ok or {}

    def offers(self, word: str) -> bool:
        """Whether it claims a capability."""
        return word in self.capabilities.get("capabilities", [])

    def ask(self, operation: Any, wait_ms: int = COMES_MS) -> Reply:
        """One request and its reply, whose times are checked. Raises ``Wrong`` or ``AgentError``."""
        before_ns = time.monotonic_ns()
        number = self.host.post(operation, wait_ms)
        word = type(operation).__name__.lower()
        found: list[Reply] = []

        def answered() -> bool:
            found.extend(filter(None, [self.host.reply_to(number)]))
            return bool(found)

        if not self.pump(answered, 2 * wait_ms):
            raise Wrong(f"{word} has no reply after {2 * wait_ms} ms; its deadline_ms was {wait_ms}")
        reply, after_ns = found[0], time.monotonic_ns()
        if not before_ns <= reply.t0 <= reply.t1 <= after_ns:
            raise Wrong(
                f"{word} was asked at {before_ns} and its reply was here at {after_ns}, but the reply says it happened "
                f"in [{reply.t0}, {reply.t1}]; t0 and t1 are nanoseconds of this machine's monotonic clock"
            )
        self._check_wall(word, reply)
        return reply

    def must(self, operation: Any) -> dict[str, Any]:
        """A request that nothing stands in the way of."""
        reply = self.ask(operation)
        if reply.ok is None:
            raise Wrong(f"{type(operation).__name__.lower()} was answered {reply.fail or reply.unknown!r}; ok is due")
        return reply.ok

    def pump(self, done: Callable[[], bool], wait_ms: int) -> bool:
        """Take in what comes until ``done``, at most so long; whether it is."""
        until_ns = time.monotonic_ns() + wait_ms * MS
        while True:
            self.events += self.host.drain()
            if done():
                return True
            if time.monotonic_ns() >= until_ns:
                return False
            await_lines([self.host], until_ns)

    def arrivals(self, consumer: str) -> list[Arrive]:
        """What has arrived for a consumer, so far."""
        return [one for one in self.events if isinstance(one, Arrive) and one.consumer == consumer]

    def told(self, consumer: str, count: int, *, quiet_ms: int = 0) -> list[str]:
        """The messages that arrive for a consumer until there are so many, and what else comes in ``quiet_ms``."""
        self.pump(lambda: len(self.arrivals(consumer)) >= count, COMES_MS)
        self.pump(lambda: False, quiet_ms)
        return [one.message for one in self.arrivals(consumer)]

    def _check_wall(self, word: str, reply: Reply) -> None:
        low_ns, high_ns = reply.wall_at or (reply.t0, reply.t1)
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // MS
        low_ms, high_ms = (now_ms + self._offset_ms - (now_ns - at_ns) // MS for at_ns in (low_ns, high_ns))
        if not low_ms - NEAR_MS <= reply.wall_ms <= high_ms + NEAR_MS:
            raise Wrong(
                f"{word}: wall_ms {reply.wall_ms} is not this host's clock, which showed {low_ms} to {high_ms} then"
            )


class Examination:
    """Of the agent that ``words`` start, over ``adapter``'s broker."""

    def __init__(self, laboratory: Laboratory, adapter: Adapter, words: Sequence[str], via: Via = "stomp") -> None:
        self.laboratory = laboratory
        self.adapter = adapter
        self.words = words
        self.via = via
        policy = PolicySpec(memory_limit_bytes=LIMIT_BYTES, send_fail_if_no_space=True)
        full = Program(
            FORMAT,
            BrokerSpec(policies=[policy], temp_limit_bytes=LIMIT_BYTES),
            [HostSpec("b", "broker"), HostSpec("c", "client", via=via)],
        )
        #: Whether a send can be made to be refused.
        self.refuses = not adapter.refusal(full) and "disk-limits" in adapter.capabilities()
        plain = Program(FORMAT, BrokerSpec(), full.hosts)
        self.endpoint: Endpoint = adapter.open(full if self.refuses else plain, laboratory)
        self.names = RunNames(Destinations(queues("q0")), separator=adapter.separator)
        self._asked = 0
        self._consumers = 0

    def run(self, only: Collection[str] = ()) -> Iterator[Proof]:
        """Every claim in turn, or some. Raises what a broker that does not start raises."""
        claims: dict[str, Callable[[], str]] = {
            "hello": self._hello,
            "clock": self._clock,
            "refusals": self._refusals,
            "stamps": self._stamps,
            "arrivals": self._arrivals,
            "window": self._window,
            "settlements": self._settlements,
            "transactions": self._transactions,
            "refused sends": self._refused_sends,
            "lost connection": self._lost,
            "leave and quit": self._leaves,
        }
        for name, claim in claims.items():
            if only and name not in only:
                continue
            try:
                yield Proof(name, "ok", claim())
            except Unproven as reason:
                yield Proof(name, "not proven", str(reason))
            except (Wrong, AgentError) as wrong:
                yield Proof(name, "wrong", str(wrong))

    def close(self) -> None:
        """The broker is done with."""
        self.endpoint.dispose(spoilt=True)

    # -- who talks

    def _candidate(self, offset_ms: int = 0) -> Desk:
        return Desk(self.laboratory.start(AGENT, offset_ms, tuple(self.words)), offset_ms)

    def _pair(self) -> tuple[Desk, Desk]:
        """The candidate and the witness, both connected."""
        endpoint = self.endpoint
        witness = Desk(self.laboratory.hire(endpoint.library(self.via), 0, endpoint.words(self.via)))
        candidate = self._candidate()
        for desk in (candidate, witness):
            desk.must(self._connecting())
            desk.host.connected = True
        return candidate, witness

    def _connecting(self, host: str = "", port: int = 0) -> ops.Connect:
        access = self.endpoint.access(self.via)
        url = access.url.replace("{host}", host or access.host).replace("{port}", str(port or access.port))
        return ops.Connect(url=url, **ops.shared(access, ops.Connect, "host", "url"))

    def _end(self, *desks: Desk) -> None:
        for desk in desks:
            desk.host.quit()

    def _queue(self) -> str:
        self._asked += 1
        return f"{self.names.physical('q0')}{self.adapter.separator}{self._asked}"

    def _consumer(self) -> str:
        self._consumers += 1
        return f"c0/{self._consumers}"

    def _message(self, desk: Desk, number: int) -> str:
        return self.names.on_wire(f"{desk.host.name}/{self._asked}.{number}")

    # -- claims

    def _hello(self) -> str:
        desk = self._candidate()
        said = desk.capabilities
        self._end(desk)
        if said.get("protocol") != protocol.PROTOCOL or not isinstance(said.get("capabilities"), list):
            raise Wrong(f"answered {said}; protocol {protocol.PROTOCOL} and a list of capabilities are wanted")
        return f"{said.get('agent')} offers {', '.join(map(str, said['capabilities'])) or 'what every agent must'}"

    def _clock(self) -> str:
        try:
            desk = self._candidate(SKEW_MS)
        except (ToolMissing, ToolFailed) as error:
            raise Unproven(f"clocks cannot be skewed here: {error}") from None
        desk.must(self._connecting())
        ok = desk.must(ops.Send(dest=self._queue(), message=self._message(desk, 1), ttl_ms=_TTL_MS))
        stamp = ok.get("timestamp_ms")
        real_ms = time.time_ns() // MS
        self._end(desk)
        if stamp and abs(stamp - real_ms - SKEW_MS) > 2 * NEAR_MS:
            raise Wrong(f"its clock is {SKEW_MS} ms ahead of {real_ms}, but a message is stamped {stamp}")
        return f"{SKEW_MS} ms ahead is seen in replies" + (" and stamps" if stamp else "")

    def _refusals(self) -> str:
        desk = self._candidate()
        early = desk.ask(ops.Send(dest=self._queue(), message=self._message(desk, 1)))
        (nobody,) = free_ports(1)
        alone = desk.ask(self._connecting("127.0.0.1", nobody))
        self._end(desk)
        if early.fail is None:
            raise Wrong(f"send without a connection was answered {early}; fail is due: nothing happened")
        if alone.ok is not None:
            raise Wrong(f"connect to port {nobody}, where nobody listens, was answered ok")
        return "what cannot be done is refused"

    def _stamps(self) -> str:
        candidate, witness = self._pair()
        queue, consumer = self._queue(), self._consumer()
        witness.must(ops.Subscribe(dest=queue, consumer=consumer))
        message = self._message(candidate, 1)
        said = candidate.must(ops.Send(dest=queue, message=message, ttl_ms=_TTL_MS, size=200))
        witness.told(consumer, 1)
        self._end(candidate, witness)
        came = next((one for one in witness.arrivals(consumer) if one.message == message), None)
        if came is None:
            raise Wrong(f"send of {message} was answered ok, but it is not at the broker")
        seen = {"expiration_ms": came.expiration_ms, "timestamp_ms": came.timestamp_ms, "body": came.body}
        # What is not said is not checked; a broker may add what was not there.
        false = {name: value for name, value in seen.items() if said.get(name) and value and said[name] != value}
        if false:
            told = {name: said[name] for name in false}
            raise Wrong(f"send told {told}; the message that arrived at another host has {false}")
        if "body" not in said:
            raise Wrong("send tells no body, the CRC-32 of the body that it sent")
        return f"what is told of a message is what arrives of it: {said}"

    def _arrivals(self) -> str:
        candidate, witness = self._pair()
        queue, consumer = self._queue(), self._consumer()
        candidate.must(ops.Subscribe(dest=queue, consumer=consumer, ack="individual"))
        sent: dict[str, tuple[int, dict[str, Any]]] = {}
        for number in range(_COUNT):
            message, at_ns = self._message(witness, number), time.monotonic_ns()
            sent[message] = at_ns, witness.must(ops.Send(dest=queue, message=message, ttl_ms=_TTL_MS))
        told = candidate.told(consumer, _COUNT, quiet_ms=ABSENT_MS)
        here_ns = time.monotonic_ns()
        self._end(candidate, witness)
        missing = [message for message in sent if message not in told]
        if missing:
            raise Wrong(f"of {_COUNT} messages {len(missing)} were never told: {missing[:3]}")
        if told != list(sent):
            raise Wrong(f"told in the order {told[:5]}…; another host sent them as {list(sent)[:5]}…")
        for one in candidate.arrivals(consumer):
            self._check_arrival(one, *sent[one.message], here_ns)
        return f"{_COUNT} of {_COUNT} are told, once, in order, with their own stamps, between sending and now"

    def _check_arrival(self, one: Arrive, sent_ns: int, stamps: dict[str, Any], here_ns: int) -> None:
        if one.t1 < sent_ns or one.t1 > here_ns:
            raise Wrong(
                f"arrive of {one.message} says [{one.t0}, {one.t1}]; it was sent at {sent_ns} and told before {here_ns}"
            )
        for name in ("expiration_ms", "timestamp_ms", "body"):
            true, said = stamps.get(name), getattr(one, name)
            if true and said and said != true:
                raise Wrong(f"arrive of {one.message} tells {name} {said}; it was sent with {true}")
            if true and not said and name == "body":
                raise Wrong(f"arrive of {one.message} tells no body, the CRC-32 of what came")

    def _window(self) -> str:
        candidate, witness = self._pair()
        if not candidate.offers("prefetch"):
            self._end(candidate, witness)
            raise Unproven("it does not offer prefetch")
        queue, consumer = self._queue(), self._consumer()
        for number in range(5):
            witness.must(ops.Send(dest=queue, message=self._message(witness, number)))
        candidate.must(ops.Subscribe(dest=queue, consumer=consumer, prefetch=2, ack="individual"))
        told = candidate.told(consumer, 2, quiet_ms=ABSENT_MS)
        if len(told) == 2 and not candidate.offers("take"):
            candidate.must(ops.Ack(consumer=consumer, messages=told[:1], mode="individual"))
            told = candidate.told(consumer, 3, quiet_ms=ABSENT_MS)[1:]
        self._end(candidate, witness)
        if len(told) != 2:
            raise Wrong(f"a consumer with a prefetch of 2 holds {len(told)} unsettled messages: {told}")
        return "a window of 2 holds 2, before and after an acknowledgement"

    def _settlements(self) -> str:
        candidate, witness = self._pair()
        queue, consumer = self._queue(), self._consumer()
        sent = [self._message(witness, number) for number in range(3)]
        for message in sent:
            witness.must(ops.Send(dest=queue, message=message))
        candidate.must(ops.Subscribe(dest=queue, consumer=consumer, ack="individual"))
        candidate.told(consumer, 3)
        if candidate.offers("take"):
            for _ in sent:
                candidate.must(ops.Take(consumer=consumer, deadline_ms=COMES_MS))
        candidate.must(ops.Ack(consumer=consumer, messages=sent[:1], mode="individual"))
        candidate.must(ops.Leave(how="drop"))
        again = self._consumer()
        witness.must(ops.Subscribe(dest=queue, consumer=again, ack="individual"))
        left = witness.told(again, 2, quiet_ms=ABSENT_MS)
        self._end(candidate, witness)
        gone = [message for message in sent[1:] if message not in left]
        if gone:
            raise Wrong(f"{gone} were never acknowledged, but after the consumer's end the broker does not have them")
        if sent[0] in left:
            raise Wrong(f"ack of {sent[0]} was answered ok, but the broker delivers it again")
        return "what was acknowledged is gone, what was not comes again"

    def _transactions(self) -> str:
        candidate, witness = self._pair()
        if not candidate.offers("transactions"):
            self._end(candidate, witness)
            raise Unproven("it does not offer transactions")
        queue, consumer = self._queue(), self._consumer()
        witness.must(ops.Subscribe(dest=queue, consumer=consumer))
        candidate.must(ops.Begin(tx="t1"))
        candidate.must(ops.Send(dest=queue, message=self._message(candidate, 1), tx="t1"))
        candidate.must(ops.Abort(tx="t1"))
        candidate.must(ops.Begin(tx="t2"))
        kept = self._message(candidate, 2)
        candidate.must(ops.Send(dest=queue, message=kept, tx="t2"))
        early = (
            witness.told(consumer, 1, quiet_ms=0)
            if witness.pump(lambda: False, ABSENT_MS)
            else [one.message for one in witness.arrivals(consumer)]
        )
        candidate.must(ops.Commit(tx="t2"))
        late = witness.told(consumer, 1, quiet_ms=ABSENT_MS)
        self._end(candidate, witness)
        if early or late != [kept]:
            raise Wrong(f"before the commit {early} came, after it {late}; only {kept} is due, and only after it")
        return "what is rolled back never comes, what is committed comes then"

    def _refused_sends(self) -> str:
        if not self.refuses:
            raise Unproven("this broker cannot be made to refuse a send")
        candidate, witness = self._pair()
        queue = self._queue()
        for number in range(4 * LIMIT_BYTES // _SIZE):
            message = self._message(witness, number)
            if witness.ask(ops.Send(dest=queue, message=message, size=_SIZE, persistent=False)).ok is None:
                break
        else:
            self._end(candidate, witness)
            raise Unproven(f"this broker takes {4 * LIMIT_BYTES} bytes into limits of {LIMIT_BYTES}")
        refused = ops.Send(dest=queue, message=self._message(candidate, 0), size=_SIZE, persistent=False)
        reply = candidate.ask(refused)
        self._end(candidate, witness)
        if reply.ok is not None:
            raise Wrong("a send into a full queue was answered ok; another host's is refused there")
        return f"a send that the broker refuses is answered {reply.fail or reply.unknown}"

    def _lost(self) -> str:
        access = self.endpoint.access(self.via)
        if not access.port:
            raise Unproven("its URL names no port, so no link can be put in between")
        link = self.laboratory.link("candidate", access.port, access.host)
        desk = self._candidate()
        desk.must(self._connecting("127.0.0.1", link.port))
        desk.must(ops.Subscribe(dest=self._queue(), consumer=self._consumer()))
        link.close()
        closed = desk.pump(lambda: any(isinstance(one, Closed) for one in desk.events), COMES_MS)
        after = desk.ask(ops.Send(dest=self._queue(), message=self._message(desk, 1)))
        self._end(desk)
        if not closed:
            raise Wrong(f"its connection was cut {COMES_MS} ms ago, and it has not told closed")
        if after.ok is not None:
            raise Wrong("send over a connection that was cut was answered ok")
        return "a connection that is cut is told as closed"

    def _leaves(self) -> str:
        candidate, witness = self._pair()
        candidate.must(ops.Leave())
        candidate.must(self._connecting())
        candidate.must(protocol.Quit())
        code = candidate.host.process.wait(COMES_MS)
        self._end(witness)
        if code is None:
            raise Wrong(f"quit was answered, but the process is still there {COMES_MS} ms later")
        return "it connects again after leave, and ends after quit"


__all__ = ["Desk", "Examination", "Unproven", "Wrong"]

"""World: what executes a program and records its history, incrementally.

Rules (the same for both worlds):

* ``apply(step)`` normalises, performs and returns the events that appeared meanwhile; an impossible step becomes
  ``skipped``.
* Every run ends with ``heal``: faults lifted, links open, clocks as they are, open transactions rolled back,
  ``settle``; then ``drain``: the program's consumers leave, one new consumer per destination (and one for the dead
  letters) takes what is left until nothing is due any more. Liveness is judged there and only there.
* ``run(program)`` is only the loop over ``open``, ``apply`` and ``close``; a state machine calls the same three.

Subclasses implement the primitive operations (``send`` … ``drain``) and own ``self.recorder``. Whatever must stay the
same in both worlds lives here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

import msgspec

from brokerproof.conformance.agents.protocol import OWN_TEMPORARY
from brokerproof.conformance.brokers.translation import physical
from brokerproof.conformance.experiment.destinations import is_temporary, temporary_of
from brokerproof.conformance.experiment.history import (
    FORMAT,
    Ack,
    Discard,
    Event,
    Fault,
    Header,
    History,
    Nack,
    Phase,
    Skipped,
)
from brokerproof.conformance.experiment.history import Acknowledge as Acknowledged
from brokerproof.conformance.experiment.policies import UNASKED, policy_window
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.state import ClientState, ConsumerState, HostState, WorldState
from brokerproof.conformance.experiment.steps.consume import Subscribe
from brokerproof.conformance.experiment.steps.protocol import settled_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.history import Result
    from brokerproof.conformance.experiment.steps import AnyStep
    from brokerproof.conformance.experiment.steps.protocol import Acknowledge
    from brokerproof.conformance.experiment.steps.send import Send
    from brokerproof.conformance.experiment.steps.visit import Visit

#: Name of the host that drains what is left. A program must not use it.
DRAIN_HOST = "drain"
#: What strangers are called.
STRANGER = "stranger"


class NotOfferedError(Exception):
    """This world (or the broker in it) cannot do this step; it is recorded as skipped and has changed nothing."""


class Recorder:
    """Collects events in order, numbers them and tells whoever listens (a machine, while the run is going on)."""

    __slots__ = ("events", "listener", "seq")

    def __init__(self, listener: Callable[[Event], None] | None = None) -> None:
        self.events: list[Event] = []
        self.listener = listener
        self.seq = 0

    def next_seq(self) -> int:
        """The number of the event that is about to be recorded."""
        self.seq += 1
        return self.seq

    def record(self, event: Event) -> None:
        """Append an event whose number came from ``next_seq``."""
        self.events.append(event)
        if self.listener is not None:
            self.listener(event)


class World(ABC):
    """One execution of one program. Create, ``open``, ``apply`` steps, ``close``."""

    #: ``simulated`` or ``live``; goes into the header.
    kind: str
    state: WorldState
    recorder: Recorder
    program: Program

    # -- the loop

    @abstractmethod
    def open(self, program: Program) -> None:
        """Start broker, hosts and links as the program says (its steps are ignored). Records clock samples and ``phase
        work``.
        """

    def apply(self, step: AnyStep) -> list[Event]:
        """Execute one step; the events that it (and whatever else happened meanwhile) made."""
        mark = len(self.recorder.events)
        concrete = step.normalise(self.state)
        if concrete is None:
            self._skipped(step)
        else:
            try:
                concrete.perform(self)
            except NotOfferedError:
                self._skipped(step)
        return self.recorder.events[mark:]

    def _skipped(self, step: AnyStep) -> None:
        now_ns = self.true_ns()
        self.recorder.record(Skipped(self.recorder.next_seq(), now_ns, now_ns, "", msgspec.to_builtins(step)))

    def close(self) -> History:
        """Heal, drain, stop everything; the finished history."""
        try:
            self.heal()
            self.drain()
            self.phase("end")
        finally:
            self.shut()
        return History(self.header(), self.recorder.events)

    @abstractmethod
    def shut(self) -> None:
        """Stop everything at once, without healing; safe to call twice."""

    def run(self, program: Program) -> History:
        """Execute a whole program."""
        self.open(program)
        try:
            for step in program.steps:
                self.apply(step)
        except BaseException:
            self.shut()
            raise
        return self.close()

    # -- what both worlds share

    @abstractmethod
    def header(self) -> Header:
        """The first line of the history."""

    @abstractmethod
    def true_ns(self) -> int:
        """True nanoseconds since the start of the run."""

    def phase(self, name: str) -> None:
        """Record that the run enters a phase."""
        now_ns = self.true_ns()
        self.recorder.record(Phase(self.recorder.next_seq(), now_ns, now_ns, "", name))  # type: ignore[arg-type]  # one of the four literals

    def heal(self) -> None:
        """Lift every fault, wait until nothing moves, read all counters."""
        self.phase("heal")
        for client in self.state.clients:
            if client.stalled:
                self.resume(client)
        for client in self.state.clients:
            if client.transaction:
                self.rollback(client)
        self.settle(self.settle_deadline_ms())

    def use_durables(self) -> None:
        """For the drain: every durable subscription that is left gets a consumer, so that what it is owed comes."""
        for client in self.state.clients:
            for name in client.idle_durables():
                dest, step = client.durables[name]
                assert isinstance(step, Subscribe), "the worlds keep their own steps"
                plain = msgspec.structs.replace(step, prefetch=1000, ack="individual", dispatch="async")
                self.subscribe(client, dest, plain)

    def end_durables(self) -> None:
        """After the drain: a broker that others use keeps nothing of this run."""
        for client in self.state.clients:
            for consumer in list(client.consumers):
                self.close_consumer(consumer)
            for name in client.idle_durables():
                self.unsubscribe(client, name)

    def settle_deadline_ms(self) -> int:
        """How long healing may take."""
        return 5000

    def physical_name(self, dest: str) -> str:
        """What the broker calls a destination that stays."""
        return physical(dest)

    def address(self, client: ClientState, dest: str) -> str:
        """What a client calls a destination. Raises ``NotOfferedError`` for a temporary queue that nobody has been told
        of.
        """
        if not is_temporary(dest):
            return self.physical_name(dest)
        if dest == temporary_of(client.name):
            return OWN_TEMPORARY
        if dest not in self.state.temporaries:
            raise NotOfferedError(f"{client.name} has not been told of {dest}")
        return self.state.temporaries[dest]

    def asked_for(self, dest: str, step: Subscribe) -> int | None:
        """What a ``subscribe`` event tells of the prefetch that was asked for: nothing if that is simply its window."""
        said = policy_window(self.program.broker, dest, durable=bool(step.durable), browser=step.browser)
        return step.prefetch if step.prefetch == UNASKED or said is not None else None

    def record_fault(self, fault: str, t0: int, evidence: dict[str, int] | None, **parameters: object) -> None:
        """Record a fault with the evidence that it took effect (None: there is none)."""
        event = Fault(self.recorder.next_seq(), t0, self.true_ns(), "", fault, evidence=evidence, **parameters)  # type: ignore[arg-type]  # checked by Fault
        self.recorder.record(event)

    def make_header(
        self, program: Program, broker: str, capabilities: list[str], seed: int | None, mutant: str | None
    ) -> Header:
        """A header in this release's format."""
        return Header(
            FORMAT,
            broker,
            self.kind,
            program.digest(),
            seed,
            mutant,
            program.broker_host().name,
            capabilities,
            program.declared(),
        )

    # -- operations that steps call

    @abstractmethod
    def send(self, client: ClientState, dest: str, step: Send) -> None:
        """Send one message; records ``send``."""

    @abstractmethod
    def subscribe(self, client: ClientState, dest: str, step: Subscribe) -> None:
        """Attach a consumer; records ``subscribe`` and, when it worked, appends to ``client.consumers``."""

    @abstractmethod
    def take(self, consumer: ConsumerState, deadline_ms: int) -> bool:
        """Give the application one message if one comes in time; records ``consume`` (and ``discard``)."""

    @abstractmethod
    def ack(self, consumer: ConsumerState, upto: int) -> None:
        """Acknowledge; records ``ack`` and shortens ``consumer.unsettled``."""

    @abstractmethod
    def nack(self, consumer: ConsumerState, upto: int) -> None:
        """Reject one message; records ``nack`` and shortens ``consumer.unsettled``."""

    def acknowledge(self, consumer: ConsumerState, step: Acknowledge) -> None:
        """Send an acknowledgement of any type; records ``acknowledge``, then what it settled."""
        raise NotOfferedError(f"acknowledgements of type {step.type} by {consumer.name}")

    def record_acknowledge(
        self,
        consumer: ConsumerState,
        step: Acknowledge,
        covered: list[str],
        times: tuple[int, int],
        result: Result,
        refusal: str | None,
    ) -> None:
        """It was sent (true nanoseconds of its begin and end): what a history tells of it.

        A range whose end does not exist has no end: a broker that does not refuse it in time may settle whatever the
        consumer has from the first message on.
        """
        settled = settled_by(step.type, covered, wrong_end=step.wrong_end)
        open_end = consumer.unsettled[step.first :] if step.wrong_end and step.type in ("poison", "standard") else []
        consumer.settle(settled)
        settled = settled or open_end
        recorder, (t0, t1), host = self.recorder, times, consumer.client.name
        said = (step.type, covered, step.open_start, step.wrong_end, refusal)
        recorder.record(Acknowledged(recorder.next_seq(), t0, t1, host, result, consumer.name, *said))
        if not settled:
            return
        if step.type == "poison":
            recorder.record(Nack(recorder.next_seq(), t0, t1, host, result, consumer.name, settled, None, refusal))
        elif step.type != "expired":
            mode: Literal["cumulative", "individual"] = "cumulative" if step.type == "standard" else "individual"
            ack = Ack(recorder.next_seq(), t0, t1, host, result, consumer.name, settled, mode, None, refusal)
            recorder.record(ack)
        else:
            reason = "an acknowledgement of type expired"
            for message in settled:
                recorder.record(Discard(recorder.next_seq(), t0, t1, host, consumer.name, message, reason))

    @abstractmethod
    def close_consumer(self, consumer: ConsumerState) -> None:
        """The consumer says goodbye, without waiting for the broker's answer; records ``leave``."""

    @abstractmethod
    def lose_client(self, client: ClientState, how: str) -> None:
        """The client's socket (``drop``) or process (``kill``) vanishes; records ``leave`` for the host. It connects
        again when it is next used.
        """

    def begin(self, client: ClientState) -> None:
        """Begin a transaction; records ``begin`` and, unless it failed, sets ``client.transaction``."""
        raise NotOfferedError(f"begin on {client.name}")

    def commit(self, client: ClientState) -> None:
        """Commit the client's transaction; records ``commit`` and clears ``client.transaction``."""
        raise NotOfferedError(f"commit on {client.name}")

    def rollback(self, client: ClientState) -> None:
        """Roll the client's transaction back; records ``abort`` and clears ``client.transaction``."""
        raise NotOfferedError(f"rollback on {client.name}")

    def unsubscribe(self, client: ClientState, durable: str) -> None:
        """End a durable subscription that is not in use; records ``unsubscribe``."""
        raise NotOfferedError(f"unsubscribe {durable} on {client.name}")

    def restart(self, how: str) -> None:
        """Stop or kill the broker and start it again; records ``fault`` ``restart`` with evidence."""
        raise NotOfferedError(f"restart ({how})")

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> None:
        """Ask the broker's management to ``purge``, ``move`` (to ``to``), ``reset`` or ``limit`` (the broker's memory);
        records ``operate``.
        """
        raise NotOfferedError(f"{op} {dest} {to or limit_bytes}")

    def visit(self, step: Visit) -> None:
        """Strangers come and go; records ``visit``."""
        raise NotOfferedError(f"visits over {step.via}")

    def pause(self, ms: int) -> None:
        """The broker's process stands still; records ``pause``."""
        raise NotOfferedError(f"pause for {ms} ms")

    @abstractmethod
    def jump_clock(self, host: HostState, jump_ms: int) -> None:
        """Step a wall clock; records ``fault`` with clock samples before and after."""

    @abstractmethod
    def stall(self, client: ClientState, toward: str) -> None:
        """Hold back bytes; sets ``client.stalled``, records ``fault``."""

    @abstractmethod
    def resume(self, client: ClientState) -> None:
        """Let them flow; clears ``client.stalled``, records ``fault``."""

    @abstractmethod
    def advance(self, ms: int) -> None:
        """Let true time pass."""

    @abstractmethod
    def settle(self, deadline_ms: int) -> None:
        """Wait until nothing moves (at most the deadline); then read the counters of every destination, ``at_rest`` if
        it really came to rest.
        """

    @abstractmethod
    def read_counters(self, dest: str | None, *, at_rest: bool) -> None:
        """Read the broker's figures; records ``counters``."""

    @abstractmethod
    def drain(self) -> None:
        """Phase ``drain``: all consumers leave, ``DRAIN_HOST`` takes what is left everywhere, dead letters included,
        until nothing more is due.
        """

"""A broker in somebody's own tests: clients, clocks and links by name, everything recorded, judged at the end.

What a test does becomes the steps of a program as well, so that a failure leaves a file that ``replay`` runs again.
Nothing is judged before ``finish``: until then the broker, its links and its clocks belong to the test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from brokerproof.chaos.toxiproxy import find_toxiproxy
from brokerproof.conformance.experiment import history as events
from brokerproof.conformance.experiment import steps
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import Destination, queues, topics
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.program import FORMAT, Program, check_program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind, concluded
from brokerproof.conformance.known import apply_known
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import expected
from brokerproof.conformance.running.failure import RequirementFailure, failure_text, headline, step_line
from brokerproof.conformance.running.folder import make_folder, write_program
from brokerproof.conformance.running.live import explained

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.base import Adapter
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.worlds.executor import World

#: How long a test waits for a message.
PATIENCE_MS: Final = 1000

E = TypeVar("E", bound=events.Event)


def experiment(
    *,
    clients: Sequence[str] = ("p0", "c0"),
    queues_: Sequence[str] = ("q0",),
    topics_: Sequence[str] = (),
    destinations: Sequence[Destination] = (),
    via: Literal["stomp", "jms"] = "stomp",
    broker: BrokerSpec | None = None,
    links: Sequence[LinkSpec] = (),
) -> Program:
    """The frame of a test: its broker ``b``, a host with a clock of its own for each client, destinations.

    ``broker`` are settings that the broker must have; a broker that cannot be configured runs as it is. ``links`` say
    more of a client's link, such as its monitor. Raises ``ProgramError``.
    """
    hosts = [HostSpec("b", "broker"), *(HostSpec(name, "client", via) for name in clients)]
    places = [*queues(*queues_), *topics(*topics_), *destinations]
    program = Program(FORMAT, broker or BrokerSpec(), hosts, list(links), places)
    check_program(program, "experiment")
    return program


class NotOffered(Exception):
    """The broker, or the library that plays a client, has no way to do what a test asks for."""


class BrokerUnderTest:
    """A broker with clients in a world of its own. ``adapter`` is the broker's in the live world."""

    def __init__(self, world: World, program: Program, adapter: Adapter | None = None) -> None:
        self._world = world
        self._frame = program if adapter is None else adapter.cast(program)
        self._adapter = adapter
        self._taken: list[steps.AnyStep] = []
        self._history: events.History | None = None
        world.open(self._frame)

    @property
    def state(self) -> WorldState:
        """Hosts, consumers and destinations that there are now."""
        return self._world.state

    # -- what a test does

    def client(self, name: str) -> Client:
        """A client of the experiment; it connects when it first does something. Raises ``UsageError``."""
        self.place(name, [client.name for client in self.state.clients], "client")
        return Client(self, name)

    def advance(self, ms: int) -> None:
        """Let true time pass: at once in virtual time, really in the live world."""
        self.apply(steps.Advance(ms=ms))

    def settle(self, deadline_ms: int = 5000) -> None:
        """Wait until nothing moves any more, and read all counters."""
        self.apply(steps.Settle(deadline_ms=deadline_ms))

    def skew(self, host: str, jump_ms: int) -> None:
        """The wall clock of a client, or of the broker ``b``, jumps; its monotonic clock does not."""
        index = self.place(host, [one.name for one in self.state.hosts], "host")
        self.apply(steps.Clock(host=index, jump_ms=jump_ms))

    @contextlib.contextmanager
    def stalled(self, client: str, toward: Literal["client", "broker", "both"] = "both") -> Iterator[None]:
        """The link of a client holds back everything, and delivers it when the block ends. Raises ``ToolMissing``."""
        if self._adapter is not None:
            find_toxiproxy()
        flowing = [one.name for one in self.state.clients if not one.stalled]
        self.apply(steps.Stall(link=self.place(client, flowing, "client with a flowing link"), toward=toward))
        yield
        stalled = [one.name for one in self.state.clients if one.stalled]
        self.apply(steps.Resume(link=self.place(client, stalled, "client with a stalled link")))

    def restart(self, how: Literal["stop", "kill"] = "stop") -> None:
        """The broker is stopped or killed, and comes back with what it had stored."""
        self.apply(steps.Restart(how=how))

    def counters(self, dest: str) -> events.Counters:
        """The broker's figures of a destination at this instant."""
        index = self.place(dest, list(self.state.places()), "destination")
        return self.one(events.Counters, steps.Counters(dest=index))

    def apply(self, step: steps.AnyStep) -> list[events.Event]:
        """Do a step of a program (docs/program.md); the events that it made. Raises ``NotOffered``, ``UsageError``."""
        if self._history is not None:
            raise UsageError(f"{step_line(step)!r} comes after the end: finish() has healed and drained everything")
        if step.normalise(self.state) is None:
            raise UsageError(f"{step_line(step)!r} is not possible now: what it names is gone or does not fit together")
        self._taken.append(step)
        made = self._world.apply(step)
        if any(isinstance(event, events.Skipped) for event in made):
            raise NotOffered(f"this broker or client has no way to do {step_line(step)!r}")
        return made

    # -- what it saw

    @property
    def program(self) -> Program:
        """What has been done so far, as a program."""
        return self._frame.with_steps(list(self._taken))

    @property
    def recorded(self) -> list[events.Event]:
        """What has been recorded so far."""
        return self._world.recorder.events if self._history is None else self._history.events

    def finish(self) -> events.History:
        """Heal and drain everything, stop the broker's clients; the whole history. The first call does it."""
        if self._history is None:
            self._history = self._world.close()
        return self._history

    def shut(self) -> None:
        """Stop without healing, if it is not finished."""
        if self._history is None:
            self._world.shut()

    def judge(self, name: str, wanted: Sequence[str] | None = None) -> RunResult:
        """What the judge says of the finished run, known deviations marked."""
        history = self.finish()
        verdicts = judge_history(history, wanted=wanted)
        if self._adapter is None:
            verdicts = expected(verdicts, self._frame.broker.generation)
        else:
            verdicts = [explained(self._adapter, verdict) for verdict in verdicts]
            verdicts = apply_known(name, self.program, verdicts, self._adapter.known(), history)[0]
        chosen = () if self._adapter is None else self._adapter.chosen
        return RunResult(
            name, history.header.broker, self._world.kind, self.program, verdicts, history,
            mutant=history.header.mutant, chosen=chosen,
        )  # fmt: skip

    # -- names

    def place(self, name: str, known: Sequence[str], what: str) -> int:
        """Where a name stands among those that exist. Raises ``UsageError``."""
        if name not in known:
            there = f"there is {', '.join(known)}" if known else "there is none"
            raise UsageError(f"no {what} {name!r}: {suggestion(name, known)}{there}")
        return known.index(name)

    def one(self, kind: type[E], step: steps.AnyStep) -> E:
        """The event of this kind that a step made. Raises ``NotOffered`` where there is none."""
        found = [event for event in self.apply(step) if isinstance(event, kind)]
        if not found:
            raise NotOffered(f"this broker or client tells nothing of {step_line(step)!r}")
        return found[-1]


class Client:
    """A client of a broker under test. Options are those of the steps ``send`` and ``subscribe`` (docs/program.md)."""

    def __init__(self, broker: BrokerUnderTest, name: str) -> None:
        self.name = name
        self._broker = broker

    def send(self, dest: str, **options: Any) -> events.Send:
        """Send one message; ``result`` of the answer is ok, fail (with a ``refusal``) or unknown."""
        return self._broker.one(events.Send, steps.Send(host=self._host(), dest=self._dest(dest), **options))

    def subscribe(self, dest: str, *, prefetch: int = 1, **options: Any) -> Consumer:
        """Attach a consumer; a ``prefetch`` of 0 pulls each message (JMS only). Raises ``NotOffered`` when refused."""
        step = steps.Subscribe(host=self._host(), dest=self._dest(dest), prefetch=prefetch, **options)
        answer = self._broker.one(events.Subscribe, step)
        if answer.result != "ok":
            raise NotOffered(f"the broker does not let {self.name} subscribe to {dest}: {answer.refusal}")
        return Consumer(self._broker, answer.consumer)

    def begin(self) -> None:
        """Begin a transaction; what the client sends from now on is part of it."""
        self._broker.apply(steps.Begin(host=self._host()))

    def commit(self) -> events.Commit:
        """Commit it."""
        return self._broker.one(events.Commit, steps.Commit(host=self._holder()))

    def rollback(self) -> events.Abort:
        """Roll it back."""
        return self._broker.one(events.Abort, steps.Rollback(host=self._holder()))

    def _host(self) -> int:
        return [client.name for client in self._broker.state.clients].index(self.name)

    def _holder(self) -> int:
        """Steps about a transaction choose among the clients that have one."""
        holders = [client.name for client in self._broker.state.clients if client.transaction]
        return self._broker.place(self.name, holders, "client with an open transaction")

    def _dest(self, dest: str) -> int:
        return self._broker.place(dest, list(self._broker.state.dests), "destination")


class Consumer:
    """A consumer of a client."""

    def __init__(self, broker: BrokerUnderTest, name: str) -> None:
        self.name = name
        self._broker = broker

    def receive(self, timeout_ms: int = PATIENCE_MS) -> events.Arrive | None:
        """The next message, as it arrived, or None if none comes in time."""
        host, consumer = self._ordinals()
        made = self._broker.apply(steps.Take(host=host, consumer=consumer, deadline_ms=timeout_ms))
        taken = [event for event in made if isinstance(event, events.Consume) and event.consumer == self.name]
        return None if not taken else self._arrival(taken[-1].message)

    def ack(self, message: events.Arrive) -> None:
        """Acknowledge a message, and with ``ack="client"`` (the default) those before it."""
        host, consumer = self._ordinals()
        self._broker.apply(steps.Ack(host=host, consumer=consumer, upto=self._unsettled(message)))

    def nack(self, message: events.Arrive) -> None:
        """Reject a message."""
        host, consumer = self._ordinals()
        self._broker.apply(steps.Nack(host=host, consumer=consumer, upto=self._unsettled(message)))

    def leave(self, how: Literal["close", "drop", "kill"] = "close") -> None:
        """Close it, or lose its client's socket or process."""
        host, consumer = self._ordinals()
        self._broker.apply(steps.Leave(host=host, consumer=consumer, how=how))

    def _arrival(self, message: str) -> events.Arrive | None:
        """How the message came that the application has just been given."""
        for event in reversed(self._broker.recorded):
            if isinstance(event, events.Arrive) and (event.consumer, event.message) == (self.name, message):
                return event
        return None

    def _ordinals(self) -> tuple[int, int]:
        """Where steps find it: its client among those that have consumers, and itself among that client's."""
        with_some = [client for client in self._broker.state.clients if client.consumers]
        for host, client in enumerate(with_some):
            for index, consumer in enumerate(client.consumers):
                if consumer.name == self.name:
                    return host, index
        raise UsageError(f"consumer {self.name} is gone: it has left, or its client has lost its connection")

    def _unsettled(self, message: events.Arrive) -> int:
        host, index = self._ordinals()
        with_some = [client for client in self._broker.state.clients if client.consumers]
        return self._broker.place(message.message, with_some[host].consumers[index].unsettled, "unsettled message")


def conclude(result: RunResult, wanted: Sequence[str], out: Path) -> list[Verdict]:
    """The wanted verdicts of a judged run, by level. Raises ``RequirementFailure`` for the first that is violated; its
    program is saved in ``out``.
    """
    catalogue = default_catalogue()
    found = [concluded(one, catalogue[one.requirement].level) for one in result.verdicts if one.requirement in wanted]
    for verdict in found:
        if verdict.verdict is VerdictKind.VIOLATED:
            path = out / f"{result.program.digest()[7:15]}.json"
            make_folder(out)
            write_program(result.program, path)
            result.name = str(path)
            raise RequirementFailure(headline(verdict), failure_text(result, verdict, catalogue))
    return found

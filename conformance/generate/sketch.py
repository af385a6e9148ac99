"""Sketch: roughly what a program's steps have made so far, so that few steps are drawn that nothing can be done with.

It counts consumers, messages that may wait and messages that applications may hold, by the steps alone: what expires,
is refused or is lost it does not know. ``fitted`` turns a step to somebody who can do it, or drops it, and notes what
follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment.steps import (
    Ack,
    Acknowledge,
    AnyStep,
    Begin,
    Commit,
    Disconnect,
    Leave,
    Nack,
    Operate,
    Parallel,
    Reset,
    Restart,
    Resume,
    Rollback,
    Send,
    Stall,
    Subscribe,
    Take,
    Unsubscribe,
)
from brokerproof.conformance.experiment.steps.parallel import mapped

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.program import Program


class Attached:
    """A consumer: ``held`` is what its application may have taken and not settled."""

    __slots__ = ("ack", "browser", "dest", "durable", "held", "wild")

    def __init__(self, step: Subscribe, dest: int, *, topic: bool) -> None:
        self.dest = dest
        self.ack = step.ack
        self.wild = step.wild
        self.browser = step.browser and not topic and not step.wild
        self.durable = step.durable if topic else ""
        self.held = 0


class Client(msgspec.Struct, eq=False):
    """A client: its consumers, oldest first."""

    index: int
    via: str
    consumers: list[Attached] = []
    durables: dict[str, None] = {}
    in_transaction: bool = False
    stalled: bool = False

    def vanish(self) -> None:
        """Its connection is gone."""
        self.consumers = []
        self.in_transaction = False

    def idle_durables(self) -> list[str]:
        """Durable subscriptions that nobody uses."""
        used = [consumer.durable for consumer in self.consumers]
        return [name for name in self.durables if name not in used]


class Sketch:
    """See the module's header."""

    def __init__(self, frame: Program) -> None:
        self.clients = [Client(index, host.via) for index, host in enumerate(frame.clients())]
        self._kinds = [dest.kind for dest in frame.destinations]
        self._owners = [self._index_of(frame, dest.host) for dest in frame.destinations]
        names = {dest.name: place for place, dest in enumerate(frame.destinations)}
        #: Where what is sent to a destination may be found.
        self._reached = [
            [place, *(names[part.name] for part in dest.of if part.name in names)]
            for place, dest in enumerate(frame.destinations)
        ]
        self._persistent = frame.broker.persistent
        self._managed = frame.broker.generation.get("delay") == "ibm-mq"
        self._queues = sum(kind == "queue" for kind in self._kinds)
        #: Messages that may wait at each destination.
        self.waiting = [0] * len(frame.destinations)

    @staticmethod
    def _index_of(frame: Program, host: str) -> int:
        return next((index for index, client in enumerate(frame.clients()) if client.name == host), -1)

    def fitted(self, chooser: Chooser, step: AnyStep) -> list[AnyStep]:
        """The next step of the program, turned to somebody who can do it; none, if nobody can."""
        aimed = self.aim(chooser, step)
        if aimed is None:
            return []
        self.follow(aimed)
        return [aimed]

    # -- a template's steps

    def place(self, step: AnyStep) -> AnyStep:
        """A template's step by its ordinals; there hosts are the clients themselves, and consumer 0 is the newest."""
        match step:
            case Take() | Ack() | Nack() | Leave():
                client = self.clients[step.host % len(self.clients)]
                if not client.consumers:
                    return step
                newest = len(client.consumers) - 1
                host = [one for one in self.clients if one.consumers].index(client)
                return msgspec.structs.replace(step, host=host, consumer=(newest - step.consumer) % (newest + 1))
            case Begin() | Commit() | Rollback():
                client = self.clients[step.host % len(self.clients)]
                fitting = [one for one in self.clients if one.in_transaction != isinstance(step, Begin)]
                return msgspec.structs.replace(step, host=fitting.index(client)) if client in fitting else step
        return step

    # -- turning steps to those who can do them

    def aim(self, chooser: Chooser, step: AnyStep) -> AnyStep | None:
        """The step, done by somebody who can; None: nobody can."""
        match step:
            case Send():
                return self._aim_at_temporary(step)
            case Subscribe():
                composite = self._kinds[step.dest % len(self._kinds)] == "composite"
                return None if composite else self._aim_at_temporary(step)
            case Take():
                return self._aim_take(chooser, step)
            case Ack() | Nack():
                return self._aim_settle(chooser, step)
            case Leave():
                return step if any(client.consumers for client in self.clients) else None
            case Acknowledge():
                return step if any(one.held for one in self._individual()) else None
            case Operate():
                there = self._queues >= 2 if step.op == "move" else self._managed or step.op != "mqsc"
                return step if there else None
            case Restart():
                return step if self._persistent else None
            case Parallel():
                return mapped(step, self._aim_alone)  # type: ignore[no-any-return] # a parallel step again
            case _:
                return step if self._is_possible(step) else None

    def _is_possible(self, step: AnyStep) -> bool:
        match step:
            case Resume():
                return any(client.stalled for client in self.clients)
            case Stall() | Reset():
                return not all(client.stalled for client in self.clients)
            case Commit() | Rollback():
                return any(client.in_transaction for client in self.clients)
            case Begin():
                return not all(client.in_transaction for client in self.clients)
            case Unsubscribe(taken=True):
                return any(consumer.durable for client in self.clients for consumer in client.consumers)
            case Unsubscribe():
                return any(client.idle_durables() for client in self.clients)
        return True

    def _aim_at_temporary(self, step: Send | Subscribe) -> AnyStep:
        """A temporary queue is its owner's."""
        owner = self._owners[step.dest % len(self._owners)]
        return step if owner < 0 else msgspec.structs.replace(step, host=owner)

    def _aim_alone(self, step: AnyStep) -> AnyStep | None:
        """A step of a sequence stays its host's: it is dropped if that can never do it."""
        if isinstance(step, Subscribe) and self._kinds[step.dest % len(self._kinds)] == "composite":
            return None
        if isinstance(step, Send | Subscribe):
            owner = self._owners[step.dest % len(self._owners)]
            return step if owner in {-1, step.host % len(self.clients)} else None
        return step

    def _aim_take(self, chooser: Chooser, step: Take) -> AnyStep | None:
        found = self._locate(step)
        if found is not None and not found[1].browser and self._finds(found[1]):
            return step
        eager = [one for one in self._places() if self._finds(one[1])]
        places = eager or [one for one in self._places() if not one[1].browser]
        return self._at(chooser, step, places)

    def _aim_settle(self, chooser: Chooser, step: Ack | Nack) -> AnyStep | None:
        found = self._locate(step)
        if found is not None and found[1].held:
            return step
        return self._at(chooser, step, [one for one in self._places() if one[1].held])

    def _at(
        self, chooser: Chooser, step: Take | Ack | Nack, places: list[tuple[tuple[int, int], Attached]]
    ) -> AnyStep | None:
        if not places:
            return None
        (host, consumer), _ = places[chooser.below(len(places))]
        return msgspec.structs.replace(step, host=host, consumer=consumer)

    def _places(self) -> list[tuple[tuple[int, int], Attached]]:
        """All consumers, with the ordinals that mean them."""
        fitting = [client for client in self.clients if client.consumers]
        return [
            ((host, place), consumer)
            for host, client in enumerate(fitting)
            for place, consumer in enumerate(client.consumers)
        ]

    def _locate(self, step: Take | Ack | Nack | Leave) -> tuple[Client, Attached] | None:
        """Whom a step means."""
        fitting = [client for client in self.clients if client.consumers]
        if not fitting:
            return None
        client = fitting[step.host % len(fitting)]
        return client, client.consumers[step.consumer % len(client.consumers)]

    def _finds(self, consumer: Attached) -> bool:
        """Whether something may wait for it."""
        if consumer.browser:
            return False
        return any(self.waiting) if consumer.wild else self.waiting[consumer.dest] > 0

    def _individual(self) -> list[Attached]:
        return [
            consumer
            for client in self.clients
            for consumer in client.consumers
            if client.via == "jms" and not client.in_transaction and consumer.ack == "individual"
        ]

    def _parted(self, step: Restart | Reset | Disconnect) -> list[Client]:
        """Whose connection ends."""
        match step:
            case Disconnect():
                return [self.clients[step.host % len(self.clients)]]
            case Reset():
                flowing = [client for client in self.clients if not client.stalled]
                return [flowing[step.link % len(flowing)]]
        return self.clients

    # -- noting them

    def follow(self, step: AnyStep) -> None:
        """A step is part of the program."""
        match step:
            case Send():
                for place in self._reached[step.dest % len(self._reached)]:
                    self.waiting[place] += step.count
            case Subscribe():
                self._attach(step)
            case Take():
                self._take(step)
            case Ack() | Nack():
                self._settle(step)
            case Leave():
                self._leave(step)
            case Restart() | Reset(after_bytes=0) | Disconnect():
                for client in self._parted(step):
                    client.vanish()
            case Parallel():
                for one in (one for steps in step.of for one in steps):
                    self.follow(self.place(one))
            case Stall() | Resume() | Begin() | Commit() | Rollback():
                self._switch(step)

    def _switch(self, step: Stall | Resume | Begin | Commit | Rollback) -> None:
        """Of one of those for whom it is off it is on now, or the other way round."""
        if isinstance(step, Stall | Resume):
            stalled = isinstance(step, Resume)
            fitting = [client for client in self.clients if client.stalled == stalled]
            if fitting:
                fitting[step.link % len(fitting)].stalled = not stalled
            return
        ends = not isinstance(step, Begin)
        fitting = [client for client in self.clients if client.in_transaction == ends]
        if fitting:
            fitting[step.host % len(fitting)].in_transaction = not ends

    def _attach(self, step: Subscribe) -> None:
        client, dest = self.clients[step.host % len(self.clients)], step.dest % len(self._kinds)
        if self._kinds[dest] == "composite":
            return
        consumer = Attached(step, dest, topic=self._kinds[dest] in {"topic", "virtual"})
        if step.taken and any(one.durable == consumer.durable for one in client.consumers if one.durable):
            return  # it is refused
        client.consumers.append(consumer)
        if consumer.durable:
            client.durables[consumer.durable] = None

    def _take(self, step: Take) -> None:
        found = self._locate(step)
        if found is None or not self._finds(found[1]):
            return
        consumer = found[1]
        dest = consumer.dest
        if consumer.wild:
            dest = next(place for place, count in enumerate(self.waiting) if count)
        taken = min(step.count, self.waiting[dest])
        if self._kinds[dest] not in {"topic", "virtual"}:
            self.waiting[dest] -= taken
        if consumer.ack != "auto":
            consumer.held += taken

    def _settle(self, step: Ack | Nack) -> None:
        found = self._locate(step)
        if found is None or not found[1].held:
            return
        client, consumer = found
        if isinstance(step, Nack) or consumer.ack == "individual":
            consumer.held -= 1
        else:
            consumer.held = 0 if client.via == "jms" else consumer.held - step.upto % consumer.held - 1

    def _leave(self, step: Leave) -> None:
        found = self._locate(step)
        if found is None:
            return
        client, consumer = found
        if step.how == "close":
            client.consumers.remove(consumer)
        else:
            client.vanish()
        self.waiting[consumer.dest] += consumer.held

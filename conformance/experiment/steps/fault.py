"""``clock``, ``freeze``, ``thaw``, ``stall``, ``resume``, ``reset``, ``cut``: what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.send import Ordinal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import HostState, WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape


class Clock(Step, frozen=True, tag="clock"):
    """The wall clock of ``host`` (any host, the broker's included) jumps by ``jump_ms``, its monotonic one does not.
    One that stands still does not jump.
    """

    weight = 10
    feature = "clocks"
    host: Ordinal = 0
    jump_ms: ops.SignedDuration = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Clock:
        jump_ms = shape.draw_some_ms(chooser)
        return cls(host=chooser.below(shape.clients + 1), jump_ms=-jump_ms if chooser.flag(50) else jump_ms)

    def normalise(self, state: WorldState) -> Clock | None:
        host = self.host % len(state.hosts)
        return None if self.jump_ms == 0 or state.hosts[host].frozen else msgspec.structs.replace(self, host=host)

    def resolve(self, state: WorldState) -> ops.ClockJump:
        return ops.ClockJump(host=state.hosts[self.host].name, jump_ms=self.jump_ms)


class _Standing(Step, frozen=True):
    """A clock stops, or goes on."""

    weight = 3
    feature = "freezes"
    host: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Self:
        return cls(host=chooser.below(shape.clients + 1))

    def normalise(self, state: WorldState) -> Self | None:
        count = len(self.fitting(state))
        return msgspec.structs.replace(self, host=self.host % count) if count else None

    def fitting(self, state: WorldState) -> list[HostState]:
        """The hosts whose clocks can."""
        raise NotImplementedError


class Freeze(_Standing, frozen=True, tag="freeze"):
    """The wall clock of ``host`` (any host whose clock goes) stands still, its monotonic one goes on."""

    def fitting(self, state: WorldState) -> list[HostState]:
        return [host for host in state.hosts if not host.frozen]

    def resolve(self, state: WorldState) -> ops.Freeze:
        return ops.Freeze(host=self.fitting(state)[self.host].name)


class Thaw(_Standing, frozen=True, tag="thaw"):
    """A clock that stands still shows again what it would show if it had never done so, and goes on."""

    def fitting(self, state: WorldState) -> list[HostState]:
        return [host for host in state.hosts if host.frozen]

    def resolve(self, state: WorldState) -> ops.Thaw:
        return ops.Thaw(host=self.fitting(state)[self.host].name)


class Stall(Step, frozen=True, tag="stall"):
    """The link of a client, or of a bridge (they are counted first), holds back what travels ``toward`` one end,
    silently: nothing is lost, nothing is closed, nothing arrives.
    """

    weight = 5
    feature = "stalls"
    link: Ordinal = 0
    toward: Literal["client", "broker", "both"] = "both"

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Stall:
        return cls(
            link=chooser.below(shape.links),
            toward=("both", "client", "broker")[chooser.below(3)],
        )

    def normalise(self, state: WorldState) -> Stall | None:
        open_links = [client for client in state.linked() if not client.stalled]
        if not open_links:
            return None
        return msgspec.structs.replace(self, link=self.link % len(open_links))

    def resolve(self, state: WorldState) -> ops.Stall:
        open_links = [client for client in state.linked() if not client.stalled]
        return ops.Stall(link=open_links[self.link].name, toward=self.toward)


class Resume(Step, frozen=True, tag="resume"):
    """A stalled link flows again; what was held back arrives in order."""

    weight = 5
    feature = "stalls"
    link: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Resume:
        return cls(link=chooser.below(shape.links))

    def normalise(self, state: WorldState) -> Resume | None:
        stalled = [client for client in state.linked() if client.stalled]
        if not stalled:
            return None
        return msgspec.structs.replace(self, link=self.link % len(stalled))

    def resolve(self, state: WorldState) -> ops.Resume:
        client = [client for client in state.linked() if client.stalled][self.link]
        return ops.Resume(link=client.name, toward=client.stalled)


class Reset(Step, frozen=True, tag="reset"):
    """The network ends the connection of a client whose link is not stalled, in both directions at once: what was on
    its way is lost, and both ends notice. With ``after_bytes`` not before so many bytes more have passed ``toward`` one
    end, in the midst of a frame if need be; never, if the connection ends or stalls before.
    """

    weight = 3
    feature = "resets"
    link: Ordinal = 0
    toward: Literal["client", "broker"] = "client"
    after_bytes: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Reset:
        after_bytes = (0, 300, 100, 2000, 10_000)[chooser.below(5)]
        return cls(
            link=chooser.below(shape.clients), after_bytes=after_bytes, toward=("client", "broker")[chooser.below(2)]
        )

    def normalise(self, state: WorldState) -> Reset | None:
        count = sum(not client.stalled for client in state.clients)
        return msgspec.structs.replace(self, link=self.link % count) if count else None

    def resolve(self, state: WorldState) -> ops.Reset:
        link = [client for client in state.clients if not client.stalled][self.link].name
        if not self.after_bytes:
            return ops.Reset(link=link)
        return ops.Reset(link=link, toward=self.toward, after_bytes=self.after_bytes)


class Cut(Step, frozen=True, tag="cut"):
    """A ``bridge`` loses its connection to the far broker (``how`` ``cut``), or its process is killed (``kill``): what
    was not confirmed may have crossed or not. A second later it is there again.
    """

    weight = 5
    feature = "networks"
    bridge: Ordinal = 0
    how: Literal["cut", "kill"] = "cut"

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Cut:  # noqa: ARG003 - nothing depends on the shape
        return cls(bridge=chooser.below(2), how="kill" if chooser.flag(40) else "cut")

    def normalise(self, state: WorldState) -> Cut | None:
        count = len(state.bridges)
        return msgspec.structs.replace(self, bridge=self.bridge % count) if count else None

    def resolve(self, state: WorldState) -> ops.Cut:
        return ops.Cut(bridge=state.bridges[self.bridge].name, how=self.how)

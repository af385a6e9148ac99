"""The end of a live run: the drain, in which what is left comes to light.

Rules
* The program's consumers leave; a STOMP host of its own, ``drain``, takes what is left on every queue and on the
  dead-letter queue, and acknowledges what is this run's. Dead letters of others stay where they are.
* Nothing is waited for longer than it can still come: delayed messages until they are due (within the budget of real
  time), everything else for the declared lateness, and only as long as a message of the run is unaccounted for.

Known exception: a message whose delay ends after the budget is not waited for; the phase ``end`` in the history shows
that it was not due yet.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.configuration import HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import is_topic
from brokerproof.conformance.experiment.history import Ack, Arrive, Send
from brokerproof.conformance.experiment.state import ClientState
from brokerproof.conformance.experiment.steps.consume import Subscribe
from brokerproof.conformance.worlds.base import DRAIN_HOST
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS, HostClock
from brokerproof.conformance.worlds.live.links import Path

if TYPE_CHECKING:
    from brokerproof.conformance.worlds.live.world import LiveWorld

_TURN_MS = 20


def drain(world: LiveWorld) -> None:
    """Everything between ``phase drain`` and ``phase end``."""
    for client in world.state.clients:
        for consumer in list(client.consumers):
            world.close_consumer(consumer)
    world.rest(world.settle_deadline_ms())
    drainer = _hire(world)
    step = Subscribe(prefetch=1000, ack="individual")
    for dest in world.state.left_behind():
        world.subscribe(drainer, dest, step)
    world.use_durables()
    drainers = [drainer, *world.state.clients]
    _take_all(world, drainers)
    lateness_ns = world.effective.declared().lateness_ms * NS_PER_MS
    begun_ns = time.monotonic_ns()
    while not _finished(world, begun_ns, lateness_ns):
        world.pump(time.monotonic_ns() + _TURN_MS * NS_PER_MS)
        _take_all(world, drainers)
    world.sample(DRAIN_HOST)
    world.settle(world.settle_deadline_ms())
    world.end_durables()


def _hire(world: LiveWorld) -> ClientState:
    """The draining host: true clock, straight link."""
    state = ClientState(HostSpec(DRAIN_HOST, "client"), len(world.state.clients), LinkSpec(DRAIN_HOST, 0))
    agent = world.laboratory.hire("stomp", 0)
    world.agents[DRAIN_HOST] = agent
    world.paths[DRAIN_HOST] = Path(None)
    world.clocks[DRAIN_HOST] = HostClock(state.spec.clock, agent.clock, time.monotonic_ns())
    agent.greet()
    world.sample(DRAIN_HOST)
    return state


def _take_all(world: LiveWorld, drainers: list[ClientState]) -> None:
    """Take and acknowledge what is there, until nothing more comes."""
    progress = True
    while progress:
        world.rest(world.settle_deadline_ms())
        progress = False
        for consumer in [consumer for client in drainers for consumer in client.consumers]:
            while world.take(consumer, 0):
                progress = True
                world.ack(consumer, 0)


def _finished(world: LiveWorld, begun_ns: int, lateness_ns: int) -> bool:
    """Whether nothing more can come, or nothing more is waited for."""
    now_ns = time.monotonic_ns()
    if world.over_budget(0):
        return True
    last_due_ns = max(world.due_ns, begun_ns)
    return now_ns > last_due_ns + lateness_ns or (now_ns > world.due_ns and not _missing(world))


def _missing(world: LiveWorld) -> bool:
    """Whether any message of the run has neither been settled nor come to light here."""
    sent: dict[str, None] = {}
    for event in world.recorder.events:
        if isinstance(event, Send):
            if event.result != "fail" and not is_topic(event.dest) and event.tx is None:
                sent[event.message] = None
        elif isinstance(event, Ack):
            if event.result == "ok" or event.mode == "auto":
                for message in event.messages:
                    sent.pop(message, None)
        elif isinstance(event, Arrive) and event.host == DRAIN_HOST:
            sent.pop(event.message, None)
    return bool(sent)

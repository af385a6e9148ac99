"""What ordinals choose from before the first step of a program, in either world."""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import Destinations
from brokerproof.conformance.experiment.policies import own_dead_letter_queues
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.state import WorldState
from brokerproof.conformance.experiment.steps.consume import Subscribe
from brokerproof.conformance.experiment.steps.transaction import Begin


def state_of(program: Program) -> WorldState:
    """The state in which a program begins."""
    destinations = Destinations(program.destinations)
    return WorldState(
        program.hosts,
        {host.name: program.link_of(host.name) for host in (*program.clients(), *program.bridges())},
        destinations,
        dead_letters=own_dead_letter_queues(program.broker, destinations),
        persistent=program.broker.persistent,
        transacted_nacks=program.broker.transacted_nacks,
        logins=program.broker.logins,
        transacts=any(isinstance(step, Begin) for step in program.each_step()),
        durable=any(isinstance(step, Subscribe) and bool(step.durable) for step in program.each_step()),
    )

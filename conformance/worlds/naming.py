"""What a client calls a destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.agents.message import OWN_TEMPORARY
from brokerproof.conformance.worlds.port import NotOfferedError

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.state import WorldState


def address(state: WorldState, host: str, dest: str, names: Names) -> str:
    """The address of a destination for a host. Raises ``NotOfferedError`` for a temporary queue that nobody has been
    told of.
    """
    owner = state.destinations.owner(dest)
    if not owner:
        return names.physical(dest)
    if owner == host:
        return OWN_TEMPORARY
    if dest not in state.temporaries:
        raise NotOfferedError(f"{host} has not been told of {dest}")
    return state.temporaries[dest]

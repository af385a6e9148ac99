"""What a client calls a destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.agents.message import OWN_TEMPORARY
from brokerproof.conformance.experiment.destinations import is_temporary, temporary_of
from brokerproof.conformance.worlds.port import NotOfferedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.state import WorldState


def address(state: WorldState, host: str, dest: str, physical: Callable[[str], str]) -> str:
    """The address of a destination for a host; ``physical`` names those that stay. Raises ``NotOfferedError`` for a
    temporary queue that nobody has been told of.
    """
    if not is_temporary(dest):
        return physical(dest)
    if dest == temporary_of(host):
        return OWN_TEMPORARY
    if dest not in state.temporaries:
        raise NotOfferedError(f"{host} has not been told of {dest}")
    return state.temporaries[dest]

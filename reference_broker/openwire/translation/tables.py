"""All commands in both directions: one row each, from the files of their families.

A command's number and ``responseRequired`` are the same for all, so they are copied here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from brokerproof.reference_broker.openwire.translation import connections, consumption, responses
from brokerproof.reference_broker.openwire.wire.errors import WireError

if TYPE_CHECKING:
    from brokerproof.reference_broker.openwire.commands import Command
    from brokerproof.reference_broker.openwire.translation.context import Context
    from brokerproof.reference_broker.openwire.wire.kinds import Data

_READERS: Final[dict[int, Callable[[Context, Data], Command]]] = {
    kind.number: reader
    for table in (connections.READERS, consumption.READERS, responses.READERS)
    for kind, reader in table.items()
}
# Each writer takes its own command; the table pairs them, which the type checker cannot see.
_WRITERS: Final[dict[type[Command], Callable[[Context, Any], Data]]] = {
    **connections.WRITERS,
    **consumption.WRITERS,
    **responses.WRITERS,
}


def has_meaning(data: Data) -> bool:
    """Whether ``read`` knows what to make of a structure."""
    return data.kind.number in _READERS


def read(context: Context, data: Data) -> Command:
    """The command that a structure says. Raises ``WireError``."""
    reader = _READERS.get(data.kind.number)
    if reader is None:
        raise WireError(f"{data.kind.name} has no meaning between a client and a broker")
    command = reader(context, data)
    # Of the types that the table of the kind says.
    command.command_id, command.response_required = cast("list[Any]", data.values[:2])
    return command


def write(context: Context, command: Command) -> Data:
    """The structure that says a command. Raises ``WireError``."""
    writer = _WRITERS.get(type(command))
    if writer is None:
        raise WireError(f"{type(command).__name__} has no form on the wire")
    data = writer(context, command)
    data.values[0] = command.command_id
    data.values[1] = command.response_required
    return data

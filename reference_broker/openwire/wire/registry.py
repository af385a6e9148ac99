"""All data structures by their number."""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire import connections, consumption, ids, messages, responses
from brokerproof.reference_broker.openwire.wire.kinds import Kind

KINDS: Final[dict[int, Kind]] = {
    kind.number: kind
    for kind in (*ids.KINDS, *connections.KINDS, *consumption.KINDS, *responses.KINDS, *messages.KINDS)
}
#: What can be a frame of its own: everything that is a command, and the WireFormatInfo.
COMMANDS: Final = {
    number
    for number, kind in KINDS.items()
    if kind is connections.WIRE_FORMAT_INFO or (kind.fields and kind.fields[0].name == "commandId")
}

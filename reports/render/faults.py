"""Faults as a person reads them: a sentence for each operation of the environment that disturbs something."""

from __future__ import annotations

from brokerproof.conformance.experiment import operations as ops
from brokerproof.reports.render.units import milliseconds_text

DIRECTIONS = {"client": "towards the client", "broker": "towards the broker", "both": "both ways"}


_LACKING = {
    "descriptors": "{broker} can open {left} descriptors more",
    "processor": "busy neighbours leave {broker} about {left} % of a processor",
    "disk": "{broker} can write {left} KiB beyond the end of its largest file",
    "memory": "{broker} can get {left} MiB of memory more",
}


def words_of(operation: ops.Operation, broker: str) -> str:
    """The sentence. ``broker``: the name of the first one. Raises ``ValueError`` for what is no such fault."""
    match operation:
        case ops.ClockJump():
            return f"the wall clock of {operation.host} jumps by {milliseconds_text(operation.jump_ms, sign=True)}"
        case ops.Freeze():
            return f"the wall clock of {operation.host} stands still"
        case ops.Thaw():
            return f"the wall clock of {operation.host} goes on as if it had not stood still"
        case ops.Stall():
            return f"the link of {operation.link} stalls silently, {DIRECTIONS[operation.toward]}"
        case ops.Resume():
            return f"the link of {operation.link} flows again"
        case ops.Reset() if operation.after_bytes:
            toward = DIRECTIONS[operation.toward]
            return f"the network ends the connection of {operation.link} after {operation.after_bytes} bytes, {toward}"
        case ops.Reset():
            return f"the network ends the connection of {operation.link}; what was on its way is lost"
        case ops.Cut():
            how = "is killed" if operation.how == "kill" else "loses its connections"
            return f"bridge {operation.bridge.removesuffix('-far')} {how}, and comes back"
        case ops.Exhaust():
            return _LACKING[operation.what].format(broker=broker, left=operation.left)
        case ops.Relieve():
            return f"{broker} has enough of its {operation.what} again"
    raise ValueError(f"{operation!r} is no fault")

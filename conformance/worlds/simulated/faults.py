"""Faults of the simulated world that take more than a word to its parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.history import NETWORK_ENDED, Closed, Fault
from brokerproof.conformance.worlds.port import NotOfferedError
from brokerproof.conformance.worlds.simulated.link import Ended, Limit

if TYPE_CHECKING:
    from brokerproof.conformance.worlds.port import Recorder
    from brokerproof.conformance.worlds.simulated.clock import VirtualClock
    from brokerproof.conformance.worlds.simulated.host import ClientHost

#: Evidence of a fault that this world itself enacts.
ENACTED = {"simulated": 1}


def change_clock(clock: VirtualClock, asked: ops.ClockJump | ops.Freeze | ops.Thaw, now_ns: int) -> dict[str, int]:
    """A wall clock jumps, stands still, or goes on; what it showed before and after."""
    before_ms = clock.wall_ms(now_ns)
    if isinstance(asked, ops.ClockJump):
        clock.jump(asked.jump_ms)
    elif isinstance(asked, ops.Freeze):
        clock.freeze(now_ns)
    else:
        clock.thaw()
    return {"before_ms": before_ms, "after_ms": clock.wall_ms(now_ns)}


def reset(recorder: Recorder, host: ClientHost, asked: ops.Reset) -> dict[str, int]:
    """The network ends a connection: now, or when so many bytes have passed."""
    if not host.connected:
        raise NotOfferedError(f"{asked.link} has no connection")
    if not asked.after_bytes:
        return _end_connection(recorder, host)
    host.link.limit(Limit(asked.toward, asked.after_bytes, partial(_end_limited, recorder, host, asked)))
    return ENACTED


def _end_limited(recorder: Recorder, host: ClientHost, asked: ops.Reset) -> None:
    """So many bytes have passed."""
    if host.connection:
        evidence = {"bytes_out": asked.after_bytes, **_end_connection(recorder, host)}
        told = ops.shared(asked, Fault, "host") | {"fault": "reset", "evidence": evidence}
        recorder.put(Fault, host.agenda.now_ns, host.agenda.now_ns, "", **told)


def _end_connection(recorder: Recorder, host: ClientHost) -> dict[str, int]:
    """Both ends of a connection hear that it has ended, and nothing else that was on its way."""
    connection, broker, now_ns, name = host.connection, host.broker, host.agenda.now_ns, host.state.name
    recorder.put(Closed, now_ns, now_ns, broker.name, who="unknown", reason=NETWORK_ENDED, link=name)
    broker.arrived(host.link, connection, Ended(NETWORK_ENDED, now_ns))
    host.receive(connection, Ended(NETWORK_ENDED, now_ns))
    return {"client_ends": 1, "broker_ends": 1}

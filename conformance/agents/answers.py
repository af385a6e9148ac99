"""What an agent says: replies and events, one line each.

Rules
* A write waits until it is done: the suite reads all the time, and an answer must never be lost.
* Any thread may say something; lines never mix.
* A reply carries a reading of this host's wall clock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from brokerproof.conformance.agents import own_time
from brokerproof.conformance.agents.library import Stamps
from brokerproof.conformance.agents.protocol import PROTOCOL, AgentEvent, Called, Fail, Reply, encode
from brokerproof.conformance.agents.stamps import wall_reading


def hello(agent: str, capabilities: Sequence[str]) -> dict[str, object]:
    """What an agent says of itself: its name, what it can do, and its process's time zone in minutes east of
    Greenwich.
    """
    zone_minutes = time.localtime().tm_gmtoff // 60
    return {"agent": agent, "protocol": PROTOCOL, "capabilities": list(capabilities), "zone_minutes": zone_minutes}


class Answers:
    """The way back to the suite: a file descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._writing = threading.Lock()

    def reply(
        self,
        request: int,
        t0_ns: int,
        *,
        t1_ns: int | None = None,
        ok: dict[str, object] | None = None,
        fail: Fail | None = None,
        unknown: str | None = None,
        stamps: Stamps | None = None,
        called: Called | None = None,
    ) -> None:
        """Answer the request of that number, which was begun at ``t0_ns`` and done at ``t1_ns`` (now, if not given)."""
        wall_ms, wall_at = wall_reading()
        t1_ns = max(t0_ns, own_time.now_ns() if t1_ns is None else t1_ns)
        self.say(
            Reply(
                id=request,
                t0=t0_ns,
                t1=t1_ns,
                wall_ms=wall_ms,
                wall_at=wall_at,
                ok=ok,
                fail=fail,
                unknown=unknown,
                stamps=stamps or None,
                called=called,
            )
        )

    def say(self, what: Reply | AgentEvent) -> None:
        """Write one line."""
        line = encode(what)
        with self._writing:
            while line:
                line = line[os.write(self._fd, line) :]

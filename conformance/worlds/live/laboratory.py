"""The laboratory: everything that live runs share.

One supervisor, the agents that wait for work, the proxies, a folder.

Rules
* Every process is a child of the one supervisor, which ends them all when this process is gone (DESIGN section 7).
* Agents are kept between runs, because starting a JVM costs more than a run. A Java agent is never given an earlier
  clock than it had: a JVM's timers stand still for the length of a step back.
* Clocks are files (libfaketime). Where they cannot be had, a host without any skew still runs, and everything that
  needs a clock is *not run*.
* A link is made through Toxiproxy where its server is installed, else through a plain forwarder, on which a stall never
  has evidence.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from brokerproof.chaos.clocks import ClockFile, clock_environment, scrubbed
from brokerproof.chaos.links import LinkProxy, PlainForwarder
from brokerproof.chaos.ports import LOOPBACK
from brokerproof.chaos.processes import Supervisor
from brokerproof.chaos.rates import REAL, Rate
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.chaos.toxiproxy import ToxiproxyServer, find_toxiproxy
from brokerproof.conformance.agents.kinds import AGENT, JMS, LIBRARIES, MODULES, STOMP
from brokerproof.conformance.worlds.live.agent import AgentHost
from brokerproof.conformance.worlds.live.collector import Collectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from brokerproof.conformance.brokers.base import Endpoint
    from brokerproof.conformance.worlds.live.collector import Mailbox


class Laboratory:
    """A context manager; leaving it stops everything.

    ``plain_links``: do without Toxiproxy even where it is installed. ``crowded``: several runs happen here at once.
    """

    def __init__(self, folder: Path | None = None, *, plain_links: bool = False, crowded: bool = False) -> None:
        self.crowded = crowded
        self._own_folder = folder is None
        self.folder = folder if folder is not None else Path(tempfile.mkdtemp(prefix="brokerproof-"))
        self.supervisor = Supervisor(self.folder, owns_folder=self._own_folder)
        self._plain_links = plain_links
        self._toxiproxy: ToxiproxyServer | None = None
        self._idle: list[AgentHost] = []
        self._names: dict[str, int] = {}
        #: Kinds of requests that the broker did not answer (``patience``).
        self.never: set[str] = set()
        #: Several runs at once may happen here.
        self._lock = threading.Lock()
        self._collectors = Collectors(self.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all agents, the proxy and the supervisor; remove the folder if it was made here."""
        self._collectors.close()
        for agent in self._idle:
            agent.quit()
        self._idle.clear()
        self.supervisor.close()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- agents

    def hire(
        self, via: str, offset_ms: int, words: Sequence[str] = (), zone_hours: int = 0, rate: Rate = REAL
    ) -> AgentHost:
        """An agent with its clock at this offset, in this zone and at this rate: one that waits for work, else a new
        one, not greeted yet. ``words`` are the options of its command; of somebody's own agent the whole command.

        Raises ``ToolMissing`` when a library is missing, or a skew is asked for and clocks cannot be skewed.
        """
        with self._lock:
            fitting = (one for one in self._idle if (one.via, one.words, one.rate) == (via, tuple(words), rate))
            agent = next((one for one in fitting if self._fits(one, offset_ms, zone_hours)), None)
            if agent is not None:
                self._idle.remove(agent)
        if agent is None:
            return self.start(via, offset_ms, tuple(words), zone_hours, rate)
        if agent.clock is not None:
            agent.clock.set_offset_ms(offset_ms)
        return agent

    def release(self, agent: AgentHost) -> None:
        """The run no longer needs it; a process that ended is forgotten."""
        if agent.process.poll() is None:
            agent.fresh()
            with self._lock:
                self._idle.append(agent)

    def _fits(self, agent: AgentHost, offset_ms: int, zone_hours: int) -> bool:
        if agent.clock is None:
            return offset_ms == zone_hours == 0
        forward = agent.via != JMS or offset_ms * 1000 >= agent.clock.offset_us
        return forward and agent.clock.zone_hours == zone_hours

    def start(
        self, via: str, offset_ms: int, words: tuple[str, ...], zone_hours: int = 0, rate: Rate = REAL
    ) -> AgentHost:
        """A new one. Raises as ``hire``."""
        module, library, extra = LIBRARIES.get(via, ("", "", ""))
        if module and importlib.util.find_spec(module) is None:
            raise ToolMissing(library, f"pip install 'brokerproof[{extra}]'")
        name = self.fresh_name(f"{via}-agent")
        clock, env = self.clock(name, offset_ms, zone_hours)
        env |= rate.environment()
        argv = words if via == AGENT else (sys.executable, "-m", MODULES[via], *words)
        process = self.supervisor.spawn(name, argv, env=env, cwd=self.folder, channel=True, forked=via != AGENT)
        return AgentHost(name, via, process, clock, words, rate)

    # -- clocks, names, links

    def clock(self, name: str, offset_ms: int, zone_hours: int = 0) -> tuple[ClockFile | None, dict[str, str]]:
        """A clock file and the environment of a Python process on it.

        (None, an environment) where clocks cannot be skewed and none is asked for. Raises ``ToolMissing`` or
        ``ToolFailed``.
        """
        base = scrubbed(os.environ)
        try:
            clock = ClockFile(self.folder / f"{name}.clock", offset_ms, zone_hours)
            return clock, clock_environment(clock, base)
        except (ToolMissing, ToolFailed):
            if offset_ms or zone_hours:
                raise
            return None, base

    def fresh_name(self, stem: str) -> str:
        """A name for a process or a link that was never given before."""
        with self._lock:
            count = self._names[stem] = self._names.get(stem, 0) + 1
        return f"{stem}-{count}"

    def link(self, client: str, port: int, host: str = LOOPBACK) -> LinkProxy:
        """A new link to a broker's port."""
        name = self.fresh_name(f"link-{client}")
        server = self._proxy()
        return PlainForwarder(name, port, host) if server is None else server.link(name, port, host)

    def _proxy(self) -> ToxiproxyServer | None:
        with self._lock:
            if self._toxiproxy is None and not self._plain_links:
                try:
                    self._toxiproxy = ToxiproxyServer.start(self.supervisor, find_toxiproxy())
                except ToolMissing:
                    self._plain_links = True
            return self._toxiproxy

    # -- dead letters

    def mailbox(self, endpoint: Endpoint, run: str, *, beats: bool) -> Mailbox | None:
        """Where a run finds its dead letters if others use the broker, too; None: in their queue. ``beats``: it has
        monitors. Raises ``NotCollected``.
        """
        if not endpoint.crowded:
            return None
        hire = partial(self.hire, endpoint.library(STOMP), 0, endpoint.words(STOMP))
        return self._collectors.mailbox(endpoint.place, run, hire, endpoint.access(STOMP), beats=beats)

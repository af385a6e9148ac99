"""Room: judges MEM-028 to MEM-030, what limits of the store and of temporary files mean for producers.

Model (notes on store and temporary usage). A persistent message needs room in the store, any other one in memory or in
temporary files. A send that finds none waits or is refused, and whoever needs something else goes on.

A message is surely kept during an interval if it was accepted before it, on a queue that only consumers empty, without
an expiration or a delay, and was not given to anybody before its end. Its body is a lower bound of what it costs.

Analyses, of each send to a queue outside transactions:

1. MEM-028: a persistent message was accepted although the persistent ones that were surely kept, all the time that it
   took, fill the store. It holds where such a send was not accepted.
2. MEM-029: the same of other messages, where what is kept fills temporary files, memory and one message more. It holds
   where such a send was not accepted and what is kept would fill the files.
3. MEM-030: a message was refused for want of room although all of its kind that were ever sent, with
   ``OVERHEAD_MAX_BYTES`` each, do not fill what it needs. It holds where a message was accepted while the other kind
   had no room.

Not checked: how long a send waits; topics; refusals for want of memory (generations other than ``fair``); queues with
consumers that the broker acknowledges for, through a wildcard, or that an operator emptied.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_pattern, is_topic
from brokerproof.conformance.experiment.history import Arrive, Event, Header, Operate, Send, Subscribe
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.books import OVERHEAD_MAX_BYTES
from brokerproof.conformance.oracles.memory import names_memory
from brokerproof.conformance.oracles.wall import WallClocks

NEVER: Final = 1 << 62


class RoomOracle(Oracle):
    """Sends in their order, with what was surely kept meanwhile."""

    name = "room"
    requirements = ("MEM-028", "MEM-029", "MEM-030")
    kinds = ("send", "arrive", "subscribe", "operate")

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._header = Header("", "")
        self._sends: list[Send] = []
        #: Message -> when it first reached anybody.
        self._given_ns: dict[str, int] = {}
        #: Queues from which messages may vanish unseen; "": all.
        self._clouded: dict[str, bool] = {}

    def start(self, header: Header) -> None:
        self._header = header

    def is_concerned(self) -> bool:
        return any(self._rooms())

    def _rooms(self) -> tuple[int, int]:
        """What may be filled, by kind, persistent messages last; 0: no limit."""
        declared = self._header.declared
        return declared.temp_limit_bytes, declared.store_limit_bytes if declared.persistent else 0

    def feed(self, event: Event) -> None:
        if isinstance(event, Send):
            self._sends.append(event)
        elif isinstance(event, Arrive):
            self._given_ns.setdefault(event.message, event.t0)
        elif isinstance(event, Operate):
            self._clouded[event.dest] = self._clouded[event.to] = True
        elif isinstance(event, Subscribe) and (event.ack == "auto" or is_pattern(event.dest)):
            self._clouded["" if is_pattern(event.dest) else event.dest] = True

    def conclude(self) -> None:
        declared = self._header.declared
        rooms = self._rooms()
        if not any(rooms):
            return
        largest = max((send.size for send in self._sends), default=0) + OVERHEAD_MAX_BYTES
        memory = declared.memory_limit_bytes
        # What must at least be kept to be sure that they are full.
        sure = (rooms[0] + memory + largest if memory > 0 else NEVER, rooms[1])
        waits_for_memory = declared.generation.get("memory", "fair") != "fair"
        sent = [0, 0]
        for send in self._sends:
            kind = int(send.persistent)
            room = rooms[kind]
            if not is_topic(send.dest) and send.tx is None:
                kept = self._kept(send)
                if room > 0:
                    self._filled(send, kept[kind], room, sure[kind])
                    if not waits_for_memory and names_memory(send) and sent[kind] + send.size < room:
                        text = (
                            f"{send.message} for {send.dest} was refused ({send.refusal!r}), though no more than "
                            f"{sent[kind]} bytes of its kind had been sent, and there is room for {room}"
                        )
                        self.claims["MEM-030"].fail(text, [send.seq], outcome="refused")
                if send.result == "ok" and 0 < rooms[1 - kind] <= kept[1 - kind]:
                    other = "temporary files were full" if kind else "the store was full"
                    self.claims["MEM-030"].hold(other, outcome="went-through")
            sent[kind] += send.size + OVERHEAD_MAX_BYTES

    def _filled(self, send: Send, kept: int, room: int, sure: int) -> None:
        claim = self.claims["MEM-028" if send.persistent else "MEM-029"]
        what = "the store" if send.persistent else "temporary files"
        if send.result == "ok" and kept >= sure:
            text = (
                f"{send.message} was accepted on {send.dest}, while messages of its kind with bodies of {kept} bytes "
                f"were kept; {what} have room for {room}"
            )
            claim.fail(text, [send.seq], outcome="accepted")
        elif send.result != "ok" and kept >= room:
            claim.hold("a send was refused" if send.result == "fail" else "a send waited", outcome="not-accepted")

    def _kept(self, send: Send) -> tuple[int, int]:
        """Bodies that were surely kept while a send was asked for and answered: not persistent, persistent."""
        kept = [0, 0]
        for other in self._sends:
            if other.seq >= send.seq:
                break
            if other.t1 <= send.t0 and self._stays(other) and self._given_ns.get(other.message, NEVER) > send.t1:
                kept[int(other.persistent)] += other.size
        return kept[0], kept[1]

    def _stays(self, send: Send) -> bool:
        if send.result != "ok" or send.tx is not None or is_topic(send.dest) or send.dest == DEAD_LETTERS:
            return False
        timed = send.mortal() or send.delay_ms > 0 or send.deliver_at_ms is not None
        return not (timed or send.dest in self._clouded or "" in self._clouded)

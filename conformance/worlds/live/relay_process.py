"""A relay between two brokers: ``python -m brokerproof.conformance.worlds.live.relay_process [NEAR_PORT FAR_PORT]``.

A broker that connects itself to another one is told that it finds both at this process's two ports. What comes there is
passed on, and what is overheard is told: requests on stdin, events on stdout, one JSON object per line.

The first line says at which ports (``near``, ``far``). Requests: ``{"do": "dial", "near": PORT, "far": PORT}`` says to
which ports connections go on, and from then on they are let in; after ``{"do": "hold"}`` they are closed as they come,
until the next ``dial``; ``{"do": "drop"}`` lets all of them vanish and is
answered by ``dropped``; the end of stdin ends the process.

Events, with ``t0`` and ``t1`` in nanoseconds of the machine's monotonic clock: ``begun`` (a connector has greeted a
broker), ``open``, ``asked`` (for a consumer), ``listening``, ``arrived``, ``sent``, ``answered``, ``telling``,
``settled``, ``ended``.

Rules
* What is overheard is told before its bytes are passed on.
* When a connection ends the whole bridge is taken to have ended: everything is closed, and the connector comes again.

Known exception: a connector asks for no answer to its consumers and its acknowledgements, nor to its greeting of the
far broker. What a broker was told so is taken to be known there ``TAKEN_IN_NS`` after it was passed on, if the
connection is still there then; a message that comes for a consumer says so earlier.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from brokerproof.chaos.ports import LOOPBACK
from brokerproof.conformance.agents.loop import CONNECT_TIMEOUT_S
from brokerproof.conformance.agents.message import read_body
from brokerproof.conformance.agents.stamps import ANCILLARY_BYTES, ArrivalClock, Arrivals, ask_for_stamps
from brokerproof.conformance.worlds.crossings import sent_of, told_of
from brokerproof.reference_broker.openwire import commands
from brokerproof.reference_broker.openwire.bridge import FAR, NEAR
from brokerproof.reference_broker.openwire.overheard import TO_BROKER, TO_CLIENT, Overheard
from brokerproof.reference_broker.openwire.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

TAKEN_IN_NS: Final = 50_000_000
_READ_BYTES: Final = 65536
_IDLE_S: Final = 0.02


class Heard:
    """What one bridge is heard to do, from its connections' first command to their end."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say
        self.begun = False
        #: The request with which it greeted the near broker; both have let it in.
        self._hello: int | None = None
        self._far_greeted = self._near_in = False
        #: It was told that they have.
        self._open = False
        #: What will be known by then, oldest first: (when passed on, event, fields).
        self._ripening: list[tuple[int, str, dict[str, Any]]] = []
        #: The far broker's answer will be about these: command -> (message, destination).
        self._asked: dict[int, tuple[str, str]] = {}
        #: What arrived: (consumer, message id) -> the suite's name of the message.
        self._arrived: dict[tuple[str, str], str] = {}

    def command(self, side: str, direction: int, command: commands.Command, t0_ns: int, t1_ns: int) -> None:
        """It has come here within an interval, and is not passed on yet."""
        if isinstance(command, commands.ConnectionInfo) and direction == TO_BROKER:
            self._greets(side, command)
        elif isinstance(command, commands.ConsumerInfo) and (side, direction) == (NEAR, TO_BROKER):
            asked = {"consumer": command.consumer_id, "dest": command.destination}
            self._say("asked", **asked)
            self._ripen("listening", **asked)
        elif isinstance(command, commands.MessageDispatch) and (side, direction) == (NEAR, TO_CLIENT):
            self._tell_open(t1_ns)
            self._ripe(time.monotonic_ns(), "listening")
            token = read_body(command.body)
            self._arrived[command.consumer_id, command.message_id] = token
            told = told_of(command)
            self._say("arrived", t0_ns, t1_ns, consumer=command.consumer_id, message=token, told=told)
        elif isinstance(command, commands.MessageAck) and (side, direction) == (NEAR, TO_BROKER):
            self._acknowledges(command)
        elif isinstance(command, commands.ProducerMessage) and (side, direction) == (FAR, TO_BROKER):
            token, dest = read_body(command.message.body), command.message.destination
            if command.response_required:
                self._asked[command.command_id] = token, dest
            self._say("sent", message=token, dest=dest, sent=sent_of(command.message))
        elif isinstance(command, commands.Response) and direction == TO_CLIENT:
            self._answers(side, command, t0_ns, t1_ns)

    def _greets(self, side: str, command: commands.ConnectionInfo) -> None:
        if not self.begun:
            self.begun = True
            self._say("begun")
        if side == NEAR:
            self._hello = command.command_id
        else:
            self._far_greeted = True
            self._let_in()

    def _let_in(self) -> None:
        if self._near_in and self._far_greeted:
            self._ripen("open")

    def _tell_open(self, since_ns: int) -> None:
        if not self._open:
            self._open = True
            self._say("open", since_ns)

    def _answers(self, side: str, command: commands.Response, t0_ns: int, t1_ns: int) -> None:
        refusal = command.text if isinstance(command, commands.ExceptionResponse) else None
        if side == NEAR and command.correlation_id == self._hello:
            self._near_in = refusal is None
            self._let_in()
        elif side == FAR and command.correlation_id in self._asked:
            message, dest = self._asked.pop(command.correlation_id)
            self._say("answered", t0_ns, t1_ns, message=message, dest=dest, refusal=refusal)

    def _acknowledges(self, command: commands.MessageAck) -> None:
        consumer = command.consumer_id
        message = self._arrived.pop((consumer, command.last_message_id), None)
        if message is not None:
            self._say("telling", consumer=consumer, message=message)
            self._ripen("settled", consumer=consumer, message=message)

    def _ripen(self, event: str, **fields: Any) -> None:
        self._ripening.append((time.monotonic_ns(), event, fields))

    def ripe(self, now_ns: int) -> None:
        """Tell what is known by now."""
        self._ripe(now_ns - TAKEN_IN_NS)

    def _ripe(self, until_ns: int, *of: str) -> None:
        waiting: list[tuple[int, str, dict[str, Any]]] = []
        for since_ns, event, fields in self._ripening:
            if since_ns > until_ns or (of and event not in of) or not (self._open or event == "open"):
                waiting.append((since_ns, event, fields))
            elif event == "open":
                self._tell_open(since_ns)
            else:
                self._say(event, since_ns, **fields)
        self._ripening = waiting


class Lane:
    """One of the two connections: the connector's socket, and the broker's."""

    def __init__(self, side: str, client: socket.socket, port: int) -> None:
        self.side = side
        #: By direction of what is read: where it comes from.
        self.sources = {TO_BROKER: client, TO_CLIENT: socket.create_connection((LOOPBACK, port), CONNECT_TIMEOUT_S)}
        self.arrivals = {TO_BROKER: Arrivals(), TO_CLIENT: Arrivals()}
        self.unsent = {TO_BROKER: bytearray(), TO_CLIENT: bytearray()}
        self.overheard = Overheard()
        for one in self.sources.values():
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_for_stamps(one)
            one.setblocking(False)

    def write(self) -> None:
        """Pass on what can be. Nothing is lost that a peer who has closed could still have read."""
        for direction, data in self.unsent.items():
            try:
                while data:
                    del data[: self.sources[1 - direction].send(data)]
            except BlockingIOError:
                continue
            except OSError:
                data.clear()  # the read finds the end of the stream


class RelayProcess:
    """See the module's header."""

    def __init__(self, ports: list[int]) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self._buffer = bytearray()
        self._clock = ArrivalClock()
        self._listeners: dict[str, socket.socket] = {}
        for side, port in zip((NEAR, FAR), ports, strict=True):
            listener = self._listeners[side] = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOOPBACK, port))
        self._targets: dict[str, int] = {}
        self._held = False
        self._lanes: dict[str, Lane] = {}
        self._heard = Heard(self._say)
        told = {side: listener.getsockname()[1] for side, listener in self._listeners.items()}
        self._write_line({"event": "ports", **told})

    def run(self) -> None:
        """Serve until the end of the requests."""
        while True:
            ready = self._selector.select(_IDLE_S if self._lanes else None)
            for key, _ in ready:
                if key.fd == sys.stdin.fileno():
                    if not self._take_requests():
                        return
                elif key.data in (NEAR, FAR):
                    self._accept(key.data)
                elif isinstance(key.data, tuple):
                    self._read(*key.data)
            for lane in self._lanes.values():
                lane.write()
                self._watch(lane)
            self._heard.ripe(time.monotonic_ns())

    def _take_requests(self) -> bool:
        part = os.read(sys.stdin.fileno(), _READ_BYTES)
        self._buffer += part
        while (place := self._buffer.find(b"\n")) >= 0:
            request = json.loads(self._buffer[:place])
            del self._buffer[: place + 1]
            if request["do"] == "dial":
                self._dial(request)
            elif request["do"] == "hold":
                self._held = True
            else:
                self._forget()
                self._say("dropped")
        return bool(part)

    def _dial(self, request: dict[str, Any]) -> None:
        listening, self._held = bool(self._targets), False
        self._targets = {side: request[side] for side in (NEAR, FAR)}
        for side, listener in self._listeners.items() if not listening else ():
            listener.listen()
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, side)

    def _accept(self, side: str) -> None:
        try:
            client, _ = self._listeners[side].accept()
        except OSError:
            return  # it went away again
        if self._held:
            client.close()
            return
        if side in self._lanes:
            self._end("the connector came again")
        try:
            lane = self._lanes[side] = Lane(side, client, self._targets[side])
        except OSError:
            client.close()
            return
        self._watch(lane)

    def _watch(self, lane: Lane) -> None:
        """Wait for what can be read, and for room where something is still to be written."""
        for direction, source in lane.sources.items():
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if lane.unsent[1 - direction] else 0)
            known = self._selector.get_map().get(source)
            if known is None:
                self._selector.register(source, wanted, (lane, direction))
            elif known.events != wanted:
                self._selector.modify(source, wanted, (lane, direction))

    def _read(self, lane: Lane, direction: int) -> None:
        while self._lanes.get(lane.side) is lane:
            by = lane.side if direction == TO_CLIENT else ""
            try:
                part, ancillary, _, _ = lane.sources[direction].recvmsg(_READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                lane.arrivals[direction].nothing_there()
                return
            except OSError as error:
                self._end(f"connection lost: {error}", by, lane.arrivals[direction].earliest_ns)
                return
            if not part:
                text = f"the {'broker' if by else 'connector'} closed the connection"
                self._end(text, by, lane.arrivals[direction].earliest_ns)
                return
            first_ns, low_ns, high_ns = lane.arrivals[direction].read(self._clock, ancillary, time.monotonic_ns())
            try:
                found = lane.overheard.feed(direction, part)
            except WireError as error:
                self._end(f"what was overheard cannot be read: {error}")
                return
            for number, command in enumerate(found, 1):
                # Only the last one is known to have come with the stamped bytes.
                self._heard.command(
                    lane.side, direction, command, low_ns if number == len(found) else first_ns, high_ns
                )
            lane.unsent[direction] += part

    # -- what it says

    def _end(self, reason: str, by: str = "", since_ns: int | None = None) -> None:
        """This bridge is over; ``by`` is the end whose broker closed it."""
        begun = self._heard.begun
        self._forget()
        if begun:
            self._say("ended", since_ns, end=by, reason=reason)

    def _forget(self) -> None:
        for lane in self._lanes.values():
            lane.write()
            for source in lane.sources.values():
                if source in self._selector.get_map():
                    self._selector.unregister(source)
                source.close()
        self._lanes.clear()
        self._heard = Heard(self._say)

    def _say(self, event: str, t0_ns: int | None = None, t1_ns: int | None = None, **fields: object) -> None:
        now_ns = time.monotonic_ns()
        self._write_line({"event": event, "t0": t0_ns or now_ns, "t1": t1_ns or now_ns, **fields})

    def _write_line(self, told: dict[str, object]) -> None:
        line = json.dumps(told, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(sys.stdout.fileno(), line) :]


def main() -> int:
    """Serve stdin and stdout."""
    RelayProcess([int(word) for word in sys.argv[1:3]] or [0, 0]).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

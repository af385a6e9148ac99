"""A broker node with its clients in virtual time, without sockets: the place where both ends are asserted at once.

Frames travel instantly. A *stalled* client does not read: what is meant for it stays on the node's outbox, as with a
socket whose buffers are full.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.inactivity import GENERATIONS
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.client import ClientSession as JmsClient
from brokerproof.reference_broker.openwire.redelivery_policy import RedeliveryPolicy
from brokerproof.reference_broker.session.actions import Action, Close, Log
from brokerproof.reference_broker.session.notice import Closed, Delivered, Notice
from brokerproof.reference_broker.stomp.client import ClientSession as StompClient
from brokerproof.reference_broker.stomp.frames import Heartbeat

#: An arbitrary wall clock, far from 0 so that a mix-up with elapsed time shows.
WALL_MS = 1_800_000_000_000

Client = StompClient | JmsClient


class Pair:
    """``node`` and its ``clients`` by connection number; ``notices``, ``closes`` and ``logs`` collect what happened."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.config = config if config is not None else BrokerConfig()
        self.node = Node(self.config)
        self.mono_ns = 0
        self.wall_ms = WALL_MS
        #: Per connection: how far that client's wall clock is ahead of the broker's.
        self.skew_ms: dict[int, int] = {}
        self.clients: dict[int, Client] = {}
        self.stalled: set[int] = set()
        #: Connections whose client has stopped doing anything, without closing.
        self.frozen: set[int] = set()
        self.notices: dict[int, list[Notice]] = {}
        #: Every frame that the broker has written, and when (elapsed ns).
        self.frames: dict[int, list[tuple[int, object]]] = {}
        self.closes: list[tuple[int, Close]] = []
        self.logs: list[Log] = []

    def now(self, connection: int = 0) -> Now:
        return Now(self.mono_ns, self.wall_ms + self.skew_ms.get(connection, 0))

    def stomp(
        self,
        connection: int = 1,
        *,
        connect: bool = True,
        heart_beat_ms: tuple[int, int] = (0, 0),
        client_id: str = "",
    ) -> StompClient:
        generation = self.config.generation["monitor"]
        client = StompClient(GENERATIONS[generation](f"broker-{connection}", self.mono_ns), generation)
        self._add(connection, "stomp", client)
        if connect:
            client.connect(heart_beat_ms=heart_beat_ms, client_id=client_id)
            self.run()
        return client

    def jms(
        self,
        connection: int = 1,
        *,
        skew_ms: int = 0,
        inactivity_ms: tuple[int, int] = (0, 0),
        consumer_expiry_check: bool = True,
        redelivery_policy: RedeliveryPolicy | None = None,
    ) -> JmsClient:
        self.skew_ms[connection] = skew_ms
        generation = self.config.generation["monitor"]
        client = JmsClient(
            f"jms{connection}",
            GENERATIONS[generation](f"broker-{connection}", self.mono_ns),
            max_inactivity_ms=inactivity_ms[0],
            initial_delay_ms=inactivity_ms[1],
            consumer_expiry_check=consumer_expiry_check,
            redelivery_policy=redelivery_policy,
        )
        self._add(connection, "openwire", client)
        client.connect()
        self.run()
        return client

    def _add(self, connection: int, protocol: str, client: Client) -> None:
        self.node.connect(connection, protocol, self.now(), f"tcp://peer-{connection}")
        self.clients[connection] = client
        self.notices[connection] = []
        self.frames[connection] = []

    def run(self) -> None:
        """Exchange frames until nothing moves."""
        busy = True
        while busy:
            busy = False
            for connection in list(self.clients):
                busy |= self._upstream(connection) | self._downstream(connection)
            self._act(self.node.take_actions())

    def _upstream(self, connection: int) -> bool:
        moved = False
        if connection in self.frozen:
            return False
        while (frame := self.clients[connection].next_output(self.mono_ns)) is not None:
            self.node.bytes_received(connection, self.now())
            for arrived in self.upstream(connection, frame):
                self.node.receive(connection, arrived, self.now())
            moved = True
        return moved

    def upstream(self, connection: int, frame: object) -> list[object]:
        """What becomes of a client's frame on its way."""
        return [frame]

    def downstream(self, connection: int, frame: object) -> list[object]:
        """What becomes of a broker's frame on its way."""
        return [frame]

    def _downstream(self, connection: int) -> bool:
        moved = False
        while connection not in self.stalled:
            frame = self.node.next_output(connection, self.now())
            if frame is None:
                break
            self.frames[connection].append((self.mono_ns, frame))
            moved = True
            if connection in self.frozen:
                continue
            client = self.clients[connection]
            client.bytes_received(self.mono_ns)
            for arrived in self.downstream(connection, frame):
                if isinstance(client, StompClient):
                    self.notices[connection] += client.receive(arrived, self.mono_ns)
                else:
                    self.notices[connection] += client.receive(arrived, self.now(connection))
        return moved

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Log):
                self.logs.append(action)
            elif isinstance(action, Close):
                self.closes.append((self.mono_ns, action))
                self._downstream(action.connection)
                self.node.disconnect(action.connection, self.now())
                self.clients.pop(action.connection).stop()

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at every instant at which somebody wants to be called."""
        end_ns = self.mono_ns + ms * NS_PER_MS
        while True:
            self.run()
            due = [self.node.next_due_ns()]
            due += [client.next_due_ns() for number, client in self.clients.items() if number not in self.frozen]
            next_ns = min((at for at in due if at is not None), default=end_ns)
            if next_ns > end_ns:
                break
            self._move(next_ns)
            self.node.tick(self.now())
            for connection, client in list(self.clients.items()):
                if connection not in self.frozen:
                    self._report(connection, client.tick(self.mono_ns))
            if next_ns == end_ns:
                self.run()
                break
        self._move(end_ns)

    def _report(self, connection: int, notices: list[Notice]) -> None:
        self.notices[connection] += notices
        if any(isinstance(notice, Closed) for notice in notices):
            self.node.disconnect(connection, self.now())
            del self.clients[connection]

    def _move(self, to_ns: int) -> None:
        self.wall_ms += to_ns // NS_PER_MS - self.mono_ns // NS_PER_MS
        self.mono_ns = to_ns

    # -- what tests ask

    def delivered(self, connection: int = 1) -> list[Delivered]:
        return [notice for notice in self.notices[connection] if isinstance(notice, Delivered)]

    def bodies(self, connection: int = 1) -> list[bytes]:
        return [notice.body for notice in self.delivered(connection)]

    def of(self, connection: int, kind: type[Notice]) -> list[Notice]:
        return [notice for notice in self.notices[connection] if isinstance(notice, kind)]

    def beats(self, connection: int) -> list[int]:
        """When the broker wrote STOMP heart-beats, in ms."""
        return [at // NS_PER_MS for at, frame in self.frames[connection] if isinstance(frame, Heartbeat)]

    def counter(self, name: str, destination: str = "queue://q") -> int:
        counters = self.node.broker.counters(destination, self.now())
        assert counters is not None
        return counters[name]

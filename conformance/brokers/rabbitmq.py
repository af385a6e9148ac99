"""RabbitMQ as a profile starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.chaos.brokers import rabbitmq
from brokerproof.conformance.brokers.launching import Launcher

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.launching import Place


class RabbitMQLauncher(Launcher):
    """The port mapper and the node. A stop forgets what it stored."""

    def __init__(self, place: Place) -> None:
        start = place.located.profile.start
        assert start is not None, "only what can be started is launched"
        plugins = start.env.get("RABBITMQ_DELAYED", "")
        self._node = rabbitmq.RabbitMQ(place.supervisor, place.folder, place.name, plugins)

    def start(self) -> None:
        self._node.start()
        self.ports = {"stomp": self._node.stomp_port, "amqp": self._node.amqp_port}
        self.process = self._node.process

    def stop(self) -> int:
        self._node.stop()
        return self.process.wait(0) or 0

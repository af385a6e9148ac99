"""Mutants that no single policy can enact: a core that answers or acts otherwise than it should, and monitors that wait
otherwise.
"""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.mutants.registry import ClientMonitorFactory
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.effects import Accepted, Effect, Refused
from brokerproof.reference_broker.core.events import POISON, Ack, Event, Send
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import DEAD_LETTER_QUEUE, Message
from brokerproof.reference_broker.inactivity import GENERATIONS, Monitor, MonitorFactory

NS_PER_MS = 1_000_000


class Liar(Broker):
    """Says no to every third send and keeps the message all the same."""

    _sends = 0

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        if not isinstance(event, Send):
            return effects
        self._sends += 1
        if self._sends % 3:
            return effects
        return [_denied(effect) if isinstance(effect, Accepted) else effect for effect in effects]


def _denied(effect: Accepted) -> Refused:
    return Refused(effect.connection, effect.request, "full", "there is no space")


class RefusesExpired(Broker):
    """A message that is expired on arrival fails its producer."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send) and 0 < event.message.expiration_ms < now.wall_ms:
            return [Refused(event.connection, event.request, "expired", "the message has expired")]
        return super().handle(event, now)


class RefusesWhenFull(Broker):
    """Persistent messages are refused while memory is half full, although the store has space."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send) and self.broker_counters()["memory_percent"] >= 50:
            return [Refused(event.connection, event.request, "full", "memory is half full")]
        return super().handle(event, now)


class DoublesLetters(Broker):
    """A rejected message makes two dead letters."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, Ack) and event.kind == POISON:
            body = self._bodies.get(event.last)
            if body is not None:
                again = Message(event.last + "-again", DEAD_LETTER_QUEUE, body, persistent=True)
                effects += super().handle(Send(event.connection, again), now)
        elif isinstance(event, Send):
            self._bodies[event.message.message_id] = event.message.body
        return effects

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        self._bodies: dict[str, bytes] = {}


def patient(percent: int, later_ms: int = 0) -> MonitorFactory:
    """The broker's monitor with another read period, in percent of what was agreed, whose first check comes later."""

    def factory(config: BrokerConfig, address: str, now_ns: int) -> Monitor:
        settings = config.monitor
        made = _wrong(config.generation["monitor"], percent, later_ms)
        return made(
            address, now_ns, connect_timeout_ms=settings.connect_timeout_ms, use_keep_alive=settings.use_keep_alive
        )

    return factory


def patient_client(percent: int) -> ClientMonitorFactory:
    """The same at a client's end."""

    def factory(generation: str, address: str, now_ns: int) -> Monitor:
        return _wrong(generation, percent, 0)(address, now_ns, connect_timeout_ms=0)

    return factory


def uninvited(config: BrokerConfig, address: str, now_ns: int) -> Monitor:
    """A monitor that watches links on which none was agreed."""
    base: Any = GENERATIONS[config.generation["monitor"]]

    class Uninvited(base):  # type: ignore[misc]  # the base is the generation's class
        def start(self, now_ns: int, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
            super().start(now_ns, read_ms if read_ms > 0 else 1000, write_ms, initial_delay_ms)

    made: Monitor = Uninvited(address, now_ns, connect_timeout_ms=0)
    return made


def _wrong(generation: str, percent: int, later_ms: int) -> type[Monitor]:
    base: Any = GENERATIONS[generation]

    class Wrong(base):  # type: ignore[misc]  # the base is the generation's class
        def start(self, now_ns: int, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
            super().start(now_ns, read_ms * percent // 100, write_ms, initial_delay_ms)
            # Reading only: keep-alives must go on, or the client's end closes first.
            self._read_due_ns += later_ms * NS_PER_MS

    return Wrong


def frames_only(config: BrokerConfig, address: str, now_ns: int) -> Monitor:
    """A monitor to which only complete frames are signs of life, as in ActiveMQ before AMQ-2511."""
    base: Any = GENERATIONS[config.generation["monitor"]]

    class FramesOnly(base):  # type: ignore[misc]  # the base is the generation's class
        def bytes_received(self, now_ns: int) -> None:
            """Bytes of a frame do not count."""

        def frame_received(self, now_ns: int) -> None:
            super().bytes_received(now_ns)
            super().frame_received(now_ns)

    settings = config.monitor
    made: Monitor = FramesOnly(address, now_ns, connect_timeout_ms=settings.connect_timeout_ms)
    return made


def own_offer(config: BrokerConfig, address: str, now_ns: int) -> Monitor:
    """A monitor that watches by what the broker offered, whatever the client did."""
    base: Any = GENERATIONS[config.generation["monitor"]]
    settings = config.monitor

    class OwnOffer(base):  # type: ignore[misc]  # the base is the generation's class
        def start(self, now_ns: int, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
            super().start(now_ns, settings.read_ms if read_ms > 0 else 0, write_ms, initial_delay_ms)

    made: Monitor = OwnOffer(address, now_ns, connect_timeout_ms=settings.connect_timeout_ms)
    return made


class SharedSilence:
    """A monitor factory whose monitors share the time of the last byte: one live link keeps all others open."""

    def __init__(self) -> None:
        self._last_ns = 0

    def __call__(self, config: BrokerConfig, address: str, now_ns: int) -> Monitor:
        base: Any = GENERATIONS[config.generation["monitor"]]
        box = self
        box._last_ns = min(box._last_ns, now_ns)  # another broker: its time begins anew

        class Shared(base):  # type: ignore[misc]  # the base is the generation's class
            def bytes_received(self, now_ns: int) -> None:
                box._last_ns = now_ns
                super().bytes_received(now_ns)

            def tick(self, now_ns: int) -> Any:
                super().bytes_received(box._last_ns)
                return super().tick(now_ns)

        settings = config.monitor
        made: Monitor = Shared(address, now_ns, connect_timeout_ms=settings.connect_timeout_ms)
        return made

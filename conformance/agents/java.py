"""What the JMS agent knows of the library: connections and consumers as it keeps them, URLs, bodies, listeners.

Everything that names a class or an option of ActiveMQ's Java client is here or in ``jms_agent.py``.

Known exception: the initial delay of the library's inactivity monitor is also its time limit for the handshake, so less
than 100 ms is refused.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jpype

from brokerproof.conformance.agents.library import RefusedError
from brokerproof.conformance.agents.message import make_body, properties_of
from brokerproof.conformance.agents.protocol import UNSUPPORTED, jms_options, jms_url
from brokerproof.conformance.experiment.operations import Connect, Send, Subscribe

INDIVIDUAL = 4  # ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE; JMS itself has no such mode
TRANSACTED = 0  # Session.SESSION_TRANSACTED
ACK_MODES = {"auto": 1, "client": 2, "individual": INDIVIDUAL}
DELAY_LEAST_MS = 100


class Arrived:
    """A message that reached this host and that the application has not taken."""

    __slots__ = ("expiration_ms", "message", "t0_ns")

    def __init__(self, message: str, expiration_ms: int, t0_ns: int) -> None:
        self.message = message
        self.expiration_ms = expiration_ms
        self.t0_ns = t0_ns


class Consumer:
    """A consumer, its session, and what it holds."""

    def __init__(self, name: str, session: Any, consumer: Any) -> None:
        self.name = name
        self.session = session
        self.consumer = consumer
        self.waiting: list[Arrived] = []
        #: Taken messages that can still be acknowledged, oldest first.
        self.taken: dict[str, Any] = {}
        #: What seemed to be thrown away at the last look.
        self.suspects: list[Arrived] = []

    def dead(self, wall_ms: int) -> list[Arrived]:
        """What has expired by this host's clock, wherever it is."""
        return [one for one in self.waiting if 0 < one.expiration_ms < wall_ms]

    def thrown_away(self, wall_ms: int) -> list[Arrived]:
        """What must have been thrown away, if this look is not deceived by messages on their way inside the library."""
        if not self.waiting or self.session.hasUncomsumedMessages():
            return []
        dead = self.dead(wall_ms)
        missing = len(self.waiting) - int(self.consumer.getMessageSize())
        return dead if missing == len(dead) else []


class Wire:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.producing: Any = None
        #: Open transactions: the suite's name -> its session. Browsers that were read: name -> session.
        self.transacted: dict[str, Any] = {}
        self.browsed: dict[str, Any] = {}
        self.consumers: dict[str, Consumer] = {}
        #: Java's consumer id -> our consumer, and arrivals for ids that are not known yet.
        self.by_id: dict[str, Consumer] = {}
        self.orphans: list[tuple[str, Any, int, int]] = []
        self.heard_ns = time.monotonic_ns()
        #: We are the ones who end it.
        self.leaving = False


def listener(on_command: Callable[[Any], None], on_exception: Callable[[Any], None]) -> Any:
    """A Java object that passes the transport's calls on."""

    @jpype.JImplements("org.apache.activemq.transport.TransportListener")
    class Listener:
        @jpype.JOverride  # type: ignore[untyped-decorator]  # JPype publishes no types
        def onCommand(self, command: Any) -> None:  # noqa: N802 - Java's name
            on_command(command)

        @jpype.JOverride  # type: ignore[untyped-decorator]  # as above
        def onException(self, error: Any) -> None:  # noqa: N802
            on_exception(error)

        @jpype.JOverride  # type: ignore[untyped-decorator]  # as above
        def transportInterupted(self) -> None:  # noqa: N802
            pass

        @jpype.JOverride  # type: ignore[untyped-decorator]  # as above
        def transportResumed(self) -> None:  # noqa: N802
            pass

    return Listener()


def connection_url(request: Connect) -> str:
    """The library's URL with all options. Raises ``RefusedError``."""
    if request.monitor_ms is not None:
        read_ms, initial_delay_ms = request.monitor_ms
        if read_ms and initial_delay_ms < DELAY_LEAST_MS:
            text = (
                f"an initial delay of {initial_delay_ms} ms, which is also the library's time limit for the handshake"
            )
            raise RefusedError(UNSUPPORTED, f"{text}; at least {DELAY_LEAST_MS} ms are needed")
    own = {"jms.watchTopicAdvisories": "false", "jms.alwaysSyncSend": "true"}
    return jms_url(request, {**own, **jms_options(request)})


def destination(session: Any, name: str) -> Any:
    """A destination from ``queue://NAME``, options after a question mark included."""
    kind, _, rest = name.partition("://")
    return session.createTopic(rest) if kind == "topic" else session.createQueue(rest)


def message_of(session: Any, request: Send) -> Any:
    """A message with its body and properties; the producer sets the rest."""
    body = session.createBytesMessage()
    body.writeBytes(jpype.JArray(jpype.JByte)(make_body(request.message, request.size)))
    if request.delay_ms:
        body.setLongProperty("AMQ_SCHEDULED_DELAY", request.delay_ms)
    for name, value in properties_of(request).items():
        if isinstance(value, str):
            body.setStringProperty(name, value)
        else:
            body.setLongProperty(name, int(value))
    if request.group:
        body.setStringProperty("JMSXGroupID", request.group)
    return body


def consumer_of(session: Any, request: Subscribe) -> Any:
    """A consumer with what the request asks for, in the library's words."""
    options = {} if request.prefetch is None else {"prefetchSize": str(request.prefetch)}
    if request.dispatch == "sync":
        options["dispatchAsync"] = "false"
    if request.exclusive:
        options["exclusive"] = "true"
    if request.priority:
        options["priority"] = str(request.priority)
    text = "&".join(f"consumer.{name}={value}" for name, value in options.items())
    target = destination(session, f"{request.dest}?{text}" if text else request.dest)
    selector = request.selector or None
    if request.durable:
        return session.createDurableSubscriber(target, request.durable, selector, request.no_local)
    return session.createConsumer(target, selector, request.no_local)


def browser_of(session: Any, request: Subscribe) -> Any:
    """A browser of a queue."""
    return session.createBrowser(destination(session, request.dest), request.selector or None)


def content_of(message: Any) -> bytes:
    """A message's body as bytes, without touching the message: another thread may be reading it."""
    content = message.getContent()
    if content is None:
        return b""
    data = bytes(content.getData())[content.getOffset() : content.getOffset() + content.getLength()]
    text = jpype.JClass("org.apache.activemq.command.ActiveMQTextMessage")
    # A text begins with its length in four bytes.
    return data[4:] if isinstance(message, text) else data


def within(deadline_ms: int, call: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Call the library, at most so long; it has no deadlines of its own. Raises ``TimeoutError``."""
    done: list[dict[str, object]] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(deadline_ms / 1000)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError("the library is still waiting for the broker")
    return done[0]


def close_quietly(connection: Any) -> None:
    try:
        connection.close()
    except jpype.JException as error:
        sys.stderr.write(f"closing the connection: {error}\n")

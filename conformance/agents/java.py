"""What the JMS agent asks of a Java library, whichever it is: connections and consumers as it keeps them, and calls
with a deadline.

``java_activemq.py`` is ActiveMQ's own client, watched from inside; ``java_provider.py`` any other, by the API alone.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jpype

from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.message import OWN_TEMPORARY, make_body, properties_of
from brokerproof.conformance.agents.protocol import UNSUPPORTED, Arrive, Called, Discard, Fail
from brokerproof.conformance.experiment.operations import Connect, Send, Subscribe
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.reference_broker.core.message import TEMP_QUEUE
from brokerproof.reference_broker.core.mq.reasons import REASONS

#: The acknowledgement modes that JMS itself names; a library may have one more, ``individual``.
TRANSACTED = "transacted"
SESSION_MODES = {TRANSACTED: 0, "auto": 1, "client": 2}
PERSISTENT, NON_PERSISTENT = 2, 1

#: Reasons of IBM MQ that say that nothing was done, by number; how its exceptions say one; how long their chains are.
_REFUSALS = {number: name for name, number in REASONS.items()}
_REASON = re.compile(r"[Rr]eason '(\d+)'")
_LINKS = 8
#: What JMS's two façades throw.
THROWN = ("JMSException", "JMSRuntimeException")

Say = Callable[[Arrive | Discard], None]
Lost = Callable[["Wire", str], None]


class Consumer:
    """A consumer, its session, and what its application has taken."""

    def __init__(self, name: str, session: Any, consumer: Any) -> None:
        self.name = name
        self.session = session
        self.consumer = consumer
        #: Taken messages that can still be acknowledged, oldest first.
        self.taken: dict[str, Any] = {}
        #: Its session is transacted: a commit acknowledges.
        self.transacted = False


class Transaction:
    """An open one. The session is None until something is done in it; ``of``: whose that is, None: nobody else's."""

    def __init__(self) -> None:
        self.session: Any = None
        self.of: Consumer | None = None


class Wire:
    """One connection. ``connection`` is what sessions are made of."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.producing: Any = None
        #: Consumers that acknowledge together have transacted sessions.
        self.transacts = False
        #: Open transactions by the suite's name. Browsers that were read: name -> session.
        self.transactions: dict[str, Transaction] = {}
        self.browsed: dict[str, Any] = {}
        self.consumers: dict[str, Any] = {}
        #: Consumers that the broker has not answered for yet -> whether they have left again meanwhile.
        self.coming: dict[str, bool] = {}
        #: A connection more, of JMS's other façade, if a producer of that was asked for.
        self.other: Any = None
        #: JMSContexts made of it: the connection ends with the last of them (Jakarta Messaging 3.1, JMSContext.close).
        self.contexts: list[Any] = []
        self.heard_ns = time.monotonic_ns()
        #: We are the ones who end it.
        self.leaving = False


def without_keeping(wire: Wire, call: Callable[[Wire, Any], None]) -> Callable[[Any], None]:
    """What a library may keep, to tell of a connection as long as that is somebody's. It must not keep the connection:
    no collector sees a circle through both languages (Qpid JMS: 3 MB for each connection that ever was).
    """
    known = weakref.ref(wire)

    def tell(told: Any) -> None:
        if (there := known()) is not None:
            call(there, told)

    return tell


class Temporaries:
    """The temporary queues that a client of JMS can send to: its connection's own, made when it is first named, and
    those where messages asked for answers, as they named them.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._own: Any = None
        self._heard: dict[str, Any] = {}

    def forget(self) -> None:
        """A connection begins: its own is not made yet, and nobody has told it of others."""
        self._own = None
        self._heard.clear()

    def own(self, session: Any) -> Any:
        """That of this connection."""
        if self._own is None:
            self._own = session.createTemporaryQueue()
        return self._own

    def find(self, session: Any, name: str) -> Any:
        """One of them; None for a name of another kind. Raises ``RefusedError`` for one that nobody told it of."""
        if name == OWN_TEMPORARY:
            return self.own(session)
        if name.startswith(TEMP_QUEUE) and name not in self._heard:
            raise RefusedError(UNSUPPORTED, f"no message has told of {name!r} here")
        return self._heard.get(name)

    def hear(self, destination: Any) -> str | None:
        """What one is called that a message names; None for other destinations."""
        if destination is None or not isinstance(destination, jpype.JClass(self._kind)):
            return None
        name = f"{TEMP_QUEUE}{destination.getQueueName()}"
        self._heard[name] = destination
        return name


class JavaLibrary(ABC):
    """A provider's client. Raises Java's exceptions, and ``RefusedError`` for what cannot be done."""

    name: str
    capabilities: tuple[str, ...]

    @abstractmethod
    def traits(self, request: Connect) -> Traits:
        """What it does by itself."""

    @abstractmethod
    def connect(self, request: Connect, say: Say, lost: Lost) -> Wire:
        """A started connection. ``say`` and ``lost`` are called by the library's threads, too."""

    @abstractmethod
    def session(self, wire: Wire, mode: str) -> Any:
        """A session with an acknowledgement mode of the suite's, or a transacted one."""

    @abstractmethod
    def destination(self, session: Any, name: str) -> Any:
        """A destination from ``queue://NAME`` or ``topic://NAME``."""

    @abstractmethod
    def message(self, session: Any, request: Send) -> Any:
        """A message with its body and properties."""

    def sender(self, session: Any, request: Send) -> Callable[[Any], None]:
        """What sends a message, which the library stamps before. The broker may have to answer before there is one."""
        producer = session.createProducer(self.destination(session, request.dest))
        set_up(producer, request)
        producer.setTimeToLive(request.ttl_ms)

        def send(message: Any) -> None:
            producer.send(message)
            producer.close()

        return send

    def calling(self, wire: Wire, request: Send, called: Called) -> Callable[[Any], None]:
        """The same by the calls of a producer of its own, in the order that is asked for; ``called`` tells of them."""
        del wire, called
        raise RefusedError(UNSUPPORTED, f"{self.name} makes no calls in the order {request.calls!r}")

    def stamps(self, message: Any, request: Send) -> Stamps:
        """What it has put on a message."""
        del request
        return stamped(message)

    @abstractmethod
    def attach(self, session: Any, request: Subscribe) -> Consumer:
        """A consumer with what the request asks for."""

    @abstractmethod
    def content(self, message: Any) -> bytes:
        """A message's body."""

    @abstractmethod
    def take(self, consumer: Consumer, wait_ms: int) -> tuple[Any, dict[str, object]]:
        """The next message for the application, if there is one in time, and what ``take`` answers."""

    @abstractmethod
    def acknowledge(self, consumer: Consumer, message: Any, *, individual: bool) -> None:
        """Settle a message, or all that its session has given out."""

    @abstractmethod
    def detach(self, consumer: Consumer) -> None:
        """A consumer says goodbye."""

    @abstractmethod
    def drop(self, wire: Wire) -> None:
        """The socket vanishes."""

    def watches(self, wire: Wire, *, dead: bool = False) -> bool:
        """Whether it may soon be seen that the library throws something away; ``dead``: for what has expired."""
        del wire, dead
        return False

    def look(self, wire: Wire) -> None:  # noqa: B027 - most tell nothing
        """Tell what the library has thrown away, as far as that can be seen."""


def set_up(producer: Any, request: Send) -> None:
    """What a message is sent with, but for its life and its delay; both façades call it so."""
    producer.setDeliveryMode(PERSISTENT if request.persistent else NON_PERSISTENT)
    producer.setPriority(request.priority)
    producer.setDisableMessageTimestamp(request.stamp == "zero")


def filled(message: Any, request: Send) -> Any:
    """An empty message with its body and properties."""
    message.writeBytes(jpype.JArray(jpype.JByte)(make_body(request.message, request.size)))
    for name, value in properties_of(request).items():
        if isinstance(value, str):
            message.setStringProperty(name, value)
        elif isinstance(value, bool):
            message.setBooleanProperty(name, value)
        elif isinstance(value, float):
            message.setDoubleProperty(name, value)
        else:
            message.setLongProperty(name, value)
    if request.group:
        message.setStringProperty("JMSXGroupID", request.group)
    return message


def stamped(message: Any) -> Stamps:
    """What the library has put on a message; a delivery time is of JMS 2.0."""
    told: Stamps = {"expiration_ms": int(message.getJMSExpiration()), "timestamp_ms": int(message.getJMSTimestamp())}
    try:
        due_ms = int(message.getJMSDeliveryTime())
    except (AttributeError, jpype.JException):
        return told
    return told | {"delivery_time_ms": due_ms or None}


def said(text: Any) -> str | None:
    """A string of Java's."""
    return None if text is None else str(text)


def plain(value: Any) -> str | bool | int | float:
    """A property's value."""
    for kind, made in (("Boolean", bool), ("Double", float), ("Float", float), ("Number", int)):
        if isinstance(value, jpype.JClass(f"java.lang.{kind}")):
            return made(value)
    return str(value)


def each(enumeration: Any) -> Any:
    """What an enumeration of Java's names, one by one."""
    while enumeration.hasMoreElements():
        yield enumeration.nextElement()


def receive(consumer: Any, wait_ms: int) -> Any:
    """The library's own call; its 0 would be for ever."""
    return consumer.receive(wait_ms) if wait_ms else consumer.receiveNoWait()


def reason_of(error: Any) -> Fail | None:
    """IBM MQ's reason in an exception, or in one that it is linked to: the queue manager has refused, with a code as
    its refusals have it elsewhere. None: there is no reason, or one that does not say whether it was done.
    """
    said = str(error)
    for _ in range(_LINKS):
        found = _REASON.search(str(error))
        number = int(getattr(error, "reasonCode", 0)) or (int(found[1]) if found else 0)
        if number in _REFUSALS:
            return Fail(_REFUSALS[number], f"{number} {_REFUSALS[number]}: {said}")
        linked = getattr(error, "getLinkedException", lambda: None)() or getattr(error, "getCause", lambda: None)()
        if linked is None:
            return None
        error = linked
    return None


def thrown_by(error: Any) -> str:
    """What was thrown, as ``called`` tells it: by the name that JMS has for it, and IBM MQ's reason if it has one."""
    kind, names = error.getClass(), list[str]()
    while kind is not None:
        names.append(str(kind.getSimpleName()))
        kind = kind.getSuperclass()
    why = reason_of(error)
    return f"{next((one for one in names if one in THROWN), names[0])}: {why.text if why else error}"


def begun(work: Callable[[], None]) -> threading.Thread:
    """A thread that the Java machine forgets when it ends; of itself it would keep each that ever called it."""

    def call() -> None:
        try:
            work()
        finally:
            jpype.JClass("java.lang.Thread").detach()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def within(deadline_ms: int, call: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Call the library, at most so long; it has no deadlines of its own. Raises ``TimeoutError``."""
    done: list[dict[str, object]] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failed.append(error)

    thread = begun(work)
    thread.join(deadline_ms / 1000)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError("the library is still waiting for the broker")
    return done[0]


def close_quietly(wire: Wire) -> None:
    """All that it has."""
    for connection in (*wire.contexts, wire.connection, wire.other):
        try:
            if connection is not None:
                connection.close()
        except jpype.JException as error:
            sys.stderr.write(f"closing the connection: {error}\n")

"""Any JMS provider, by the API alone: javax or jakarta, classic or ``JMSContext``.

Rules
* What a library has fetched ahead nobody sees, so a profile says that it fetches nothing ahead from queues (a prefetch,
  or a window, of 0): each consumer asks for one message at a time, and what arrives does so during ``receive``. A
  topic's may have come since the ``receive`` before.
* A message that ``receive`` returns is the broker's answer, and told of whenever that is: a library may ask the broker
  once more when the time is over, and wait behind a stalled link. One that comes later still stays in the library until
  the next call, so nothing is no answer (``answered`` is false).
* An end of a consumer ends its session, so that what it had not acknowledged comes back.
* A refusal ``profile.LINE`` is the profile's fault. Secrets are read here: a command line is everybody's.

Known exception: a socket that vanishes is shut down from below, wherever the library keeps it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import jpype
import msgspec

from brokerproof.conformance.agents.java import (
    SESSION_MODES,
    TRANSACTED,
    Consumer,
    JavaLibrary,
    Lost,
    Say,
    Temporaries,
    Wire,
    each,
    filled,
    plain,
    said,
    set_up,
    stamped,
    thrown_by,
    without_keeping,
)
from brokerproof.conformance.agents.java_asking import Asking
from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.message import ORIGINAL_ID, read_body, read_by_applications
from brokerproof.conformance.agents.protocol import UNSUPPORTED, Arrive, Called
from brokerproof.conformance.agents.provider import PROFILE, Provider, address_in
from brokerproof.conformance.experiment import traits
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.operations import Connect, Send, Subscribe
from brokerproof.conformance.experiment.wire_names import API, DEFAULTS, WORDS, WireNames
from brokerproof.reference_broker.core.message import DEAD_LETTER_QUEUE, QUEUE, TOPIC

JNDI = "jndi:"
#: How much longer than it was told a library may take; then it is owed an answer, which the next ``take`` gets.
GRACE_MS = 500
_SECRET = re.compile(r"env:([A-Za-z_]\w*)")


class ProviderLibrary(JavaLibrary):
    """See the module's header."""

    name = "jms-provider/1"
    capabilities = (
        "ttl",
        "delay",
        "absolute-delay",
        "take",
        "pull",
        "browsers",
        "durables",
        "groups",
        "headers",
        "lifetimes",
        "producers",
        "selectors",
        "temporaries",
        "transactions",
    )

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._temporaries = Temporaries(f"{provider.api}.jms.TemporaryQueue")
        self._names: WireNames = DEFAULTS["jms"]
        self._words = WORDS["jms"]
        self._modes = SESSION_MODES | ({} if provider.individual is None else {"individual": provider.individual})

    def traits(self, request: Connect) -> traits.Traits:
        del request
        checks = self._provider.expiry_check is not False
        own = {"transaction_scope": "consumer", "gives_up_after": 0, "checks_expiry": checks, "seen_when_taken": True}
        return msgspec.structs.replace(traits.JMS, **own)

    # -- the connection

    def connect(self, request: Connect, say: Say, lost: Lost) -> Wire:
        provider = self._provider
        self._names = request.names or DEFAULTS["jms"]
        self._words = {**WORDS["jms"], **self._names.headers}
        self._say, self._address = say, address_in(request.url) or ("", 0)
        self._made_by = self._factory(request.url)
        self._temporaries.forget()
        self._who = (request.login, request.passcode) if request.login or request.passcode else ()
        try:
            connection = self._connection(context=provider.facade == "context")
        except (AttributeError, *_lacking()):
            raise wrong("facade", f'{provider.factory} has no JMSContext; write facade = "classic"') from None
        except jpype.JException as error:
            raise self._blamed(error, request) from None
        wire = self._wire = Wire(connection)
        try:
            if request.client_id:
                connection.setClientID(request.client_id)
            connection.setExceptionListener(self._listener(without_keeping(wire, lost)))
            connection.start()
        except jpype.JException as error:  # some speak with the broker only now
            with contextlib.suppress(jpype.JException):
                connection.close()
            raise self._blamed(error, request) from None
        return wire

    def _connection(self, *, context: bool) -> Any:
        """A new one of either façade, for who came with the request."""
        made_by, who = self._made_by, self._who
        return made_by.createContext(*who, SESSION_MODES["auto"]) if context else made_by.createConnection(*who)

    def _blamed(self, error: Any, request: Connect) -> Exception:
        """Why there is no connection: a login is the profile's."""
        kinds = [f"{self._provider.api}.jms.JMSSecurity{kind}" for kind in ("Exception", "RuntimeException")]
        if any(isinstance(error, jpype.JClass(kind)) for kind in kinds if _there(kind)):
            shown = f"as {request.login!r}" if request.login else "without a login"
            return wrong("login", f"the broker does not let us in {shown} ({error}); give the right login and passcode")
        return RefusedError("unreachable", f"{request.url}: {error}")

    def _factory(self, uri: str) -> Any:
        """The provider's ConnectionFactory. Raises ``RefusedError``."""
        provider = self._provider
        api = f"{provider.api}.jms.ConnectionFactory"
        # A thread that is not Java's has no context loader, by which some find their own parts (IBM MQ 9.4).
        loader = jpype.JClass("java.lang.ClassLoader").getSystemClassLoader()
        jpype.JClass("java.lang.Thread").currentThread().setContextClassLoader(loader)
        other = "javax" if provider.api == "jakarta" else "jakarta"
        if not _there(api):
            there = f'it has {other}.jms; write api = "{other}"' if _there(f"{other}.jms.ConnectionFactory") else ""
            raise wrong("api", f"the class path has no {api}; {there or 'add the jar of the API to classpath'}")
        values = {name: self._told(name, value, uri) for name, value in provider.properties.items()}
        made = self._looked_up(values) if provider.factory.startswith(JNDI) else self._made(uri)
        if not isinstance(made, jpype.JClass(api)):
            kind = made.getClass().getName()
            hint = ""
            theirs = f"{other}.jms.ConnectionFactory"
            if _there(theirs) and isinstance(made, jpype.JClass(theirs)):
                hint = f'; it is one of {other}.jms: write api = "{other}"'
            raise wrong("factory", f"{kind} is not a {api}{hint}")
        if not provider.factory.startswith(JNDI):
            for name, value in values.items():
                _set(made, name, value)
        return made

    def _told(self, name: str, value: str | int | bool, uri: str) -> str | int | bool:
        if not isinstance(value, str):
            return value

        def secret(found: re.Match[str]) -> str:
            text = os.environ.get(found[1])
            if text is None:
                raise wrong(f"properties.{name}", f"the variable {found[1]} is not set; export it before the run")
            return text

        host, port = self._address
        told = {"{uri}": uri, "{host}": host, "{port}": str(port)}
        text = _SECRET.sub(secret, value)
        for place, meant in told.items():
            text = text.replace(place, meant)
        return text

    def _made(self, uri: str) -> Any:
        """A new factory, with the URI as its only argument unless a property takes it."""
        name = self._provider.factory
        try:
            kind = jpype.JClass(name)
        except TypeError:
            raise wrong(
                "factory", f"there is no class {name!r} on the class path; check its spelling and classpath"
            ) from None
        takes = any(isinstance(value, str) and "{" in value for value in self._provider.properties.values())
        shown = "a public constructor without arguments" if takes else "a public constructor that takes the uri"
        try:
            return kind() if takes else kind(uri)
        except TypeError:
            text = f'{name} has no {shown[2:]}; give the address by its properties, for example brokerURL = "{{uri}}"'
            raise wrong("factory", text) from None
        except jpype.JException as error:
            raise wrong("uri", f"{name} refuses {uri!r}: {error}") from None

    def _looked_up(self, values: dict[str, str | int | bool]) -> Any:
        table = jpype.JClass("java.util.Hashtable")()
        for name, value in values.items():
            table.put(name, str(value))
        wanted = self._provider.factory.removeprefix(JNDI)
        try:
            return jpype.JClass("javax.naming.InitialContext")(table).lookup(wanted)
        except jpype.JException as error:
            text = f"JNDI does not know {wanted!r} ({error}); check properties, java.naming.factory.initial first"
            raise wrong("factory", text) from None

    def _listener(self, lost: Callable[[str], None]) -> Any:
        @jpype.JImplements(f"{self._provider.api}.jms.ExceptionListener")
        class Listener:
            @jpype.JOverride  # type: ignore[untyped-decorator]  # JPype publishes no types
            def onException(self, error: Any) -> None:  # noqa: N802 - Java's name
                lost(str(error))

        return Listener()

    def session(self, wire: Wire, mode: str) -> Any:
        # A library without a mode of its own settles one message by settling all, if it is the only one.
        number = self._modes.get(mode, SESSION_MODES["client"])
        if self._provider.facade == "context":
            context = wire.connection.createContext(number)
            context.createBytesMessage()  # it opens its session when it is first used
            wire.contexts.append(context)
            return context
        return wire.connection.createSession(mode == TRANSACTED, number)

    # -- messages

    def destination(self, session: Any, name: str) -> Any:
        if (temporary := self._temporaries.find(session, name)) is not None:
            return temporary
        address = self._names.address(name)
        return session.createTopic(address) if name.startswith(TOPIC) else session.createQueue(address)

    def message(self, session: Any, request: Send) -> Any:
        message = filled(session.createBytesMessage(), request)
        if request.delay_ms and self._words["delay"] != API:
            message.setLongProperty(self._words["delay"], request.delay_ms)
        for name, put in (("correlation-id", message.setJMSCorrelationID), ("type", message.setJMSType)):
            if name in request.headers:
                put(str(request.headers[name]))
        if request.reply:
            message.setJMSReplyTo(self._temporaries.own(session))
        return message

    def stamps(self, message: Any, request: Send) -> Stamps:
        told = stamped(message)
        # The delay of JMS 2.0 is an instant of the producer's clock.
        absolute = request.deliver_in_ms and not request.delay_ms
        return told | ({"deliver_at_ms": told.get("delivery_time_ms")} if absolute else {})

    def sender(self, session: Any, request: Send) -> Callable[[Any], None]:
        target, context = self.destination(session, request.dest), self._provider.facade == "context"
        producer = session.createProducer() if context else session.createProducer(target)
        set_up(producer, request)
        producer.setTimeToLive(request.ttl_ms)
        delay_ms = request.delay_ms or request.deliver_in_ms
        # Producers of one context may share what one of them was told (Artemis 2.56), so all of it is said each time.
        if self._words["delay"] == API and (delay_ms or context):
            _delay(producer, delay_ms)

        def send(message: Any) -> None:
            if context:
                producer.send(target, message)
            else:
                producer.send(message)
                producer.close()

        return send

    def calling(self, wire: Wire, request: Send, called: Called) -> Callable[[Any], None]:
        facade, *order = request.calls.split()
        if request.tx or self._words["delay"] != API:
            text = "in a transaction" if request.tx else "with a property for its delay"
            raise RefusedError(UNSUPPORTED, f"no calls of a producer {text}")
        context = facade == "simplified"
        try:
            session, target, producer = self._producer(wire, request, context=context)
            setters = {"life": producer.setTimeToLive, "delay": producer.setDeliveryDelay}
        except (AttributeError, *_lacking()):
            raise RefusedError(UNSUPPORTED, f"this library has no JMS 2.0 producer of the {facade} façade") from None
        asked_ms = {"life": request.ttl_ms, "delay": request.delay_ms}
        place = order.index("send")

        def make(calls: list[str]) -> None:
            for call in calls:
                _tell(called, call, asked_ms[call], partial(setters[call], asked_ms[call]))

        def send(message: Any) -> None:
            called.ttl_ms, called.delay_ms = int(producer.getTimeToLive()), int(producer.getDeliveryDelay())
            failure = _tell(called, "send", 0, partial(producer.send, *((target,) if context else ()), message))
            make(order[place + 1 :])
            session.close()
            if failure is not None:
                raise failure

        make(order[:place])
        return send

    def _producer(self, wire: Wire, request: Send, *, context: bool) -> tuple[Any, Any, Any]:
        """A session of its own of one of the façades, the destination, and a new producer: what others were told, it
        was not.
        """
        connection = wire.connection
        if context != (self._provider.facade == "context"):
            if wire.other is None:
                wire.other = self._connection(context=context)
            connection = wire.other
        auto = SESSION_MODES["auto"]
        session = connection.createContext(auto) if context else connection.createSession(False, auto)
        target = self.destination(session, request.dest)
        producer = session.createProducer() if context else session.createProducer(target)
        set_up(producer, request)
        return session, target, producer

    def content(self, message: Any) -> bytes:
        if isinstance(message, jpype.JClass(f"{self._provider.api}.jms.BytesMessage")):
            message.reset()
            room = jpype.JArray(jpype.JByte)(int(message.getBodyLength()))
            message.readBytes(room)
            return bytes(room)
        text = isinstance(message, jpype.JClass(f"{self._provider.api}.jms.TextMessage"))
        return str(message.getText() or "").encode() if text else b""

    # -- consumers

    def attach(self, session: Any, request: Subscribe) -> Consumer:
        target, selector = self.destination(session, request.dest), request.selector or None
        topic = request.dest.startswith(TOPIC)
        if request.durable:
            new = "createDurableConsumer" if self._provider.facade == "context" else "createDurableSubscriber"
            made = getattr(session, new)(target, request.durable, selector, request.no_local)
        else:
            made = session.createConsumer(target, selector, request.no_local)
        wire = self._wire

        def tell(consumer: str, message: Any, since_ns: int, at_ns: int) -> str:
            content = self.content(message)
            token = read_body(content)
            if not wire.leaving:
                told = {"consumer": consumer, "message": token, "body": crc32(content), **self._told_of(message)}
                self._say(Arrive(t0=since_ns, t1=at_ns, **told))
            return token

        return Asking(request.consumer, session, made, tell, ahead=topic)

    def take(self, consumer: Consumer, wait_ms: int) -> tuple[Any, dict[str, object]]:
        assert isinstance(consumer, Asking)
        consumer.ask(wait_ms)
        message, token = consumer.answer() if consumer.answered(wait_ms + GRACE_MS) else (None, "")
        return message, {"message": None if message is None else token, "answered": message is not None}

    def _told_of(self, message: Any) -> dict[str, Any]:
        def text(name: str) -> str | None:
            return str(message.getObjectProperty(name)) if name and message.propertyExists(name) else None

        count, origin = text(self._words["delivery_count"]), text(self._words["original_destination"])
        names = sorted(str(name) for name in each(message.getPropertyNames()))
        fields = {"correlation-id": said(message.getJMSCorrelationID()), "type": said(message.getJMSType())}
        reply_to = self._temporaries.hear(message.getJMSReplyTo())
        fields |= {"reply-to": "temporary"} if reply_to else {}
        return {
            "reply_to": reply_to,
            "redelivered": bool(message.getJMSRedelivered()),
            "delivery_count": int(count) if count else None,
            **stamped(message),
            "original_dest": self._called(origin) if origin else None,
            "kind": text("kind"),
            "original_id": text(ORIGINAL_ID),
            "group": text("JMSXGroupID"),
            "priority": int(message.getJMSPriority()),
            "persistent": int(message.getJMSDeliveryMode()) == 2,
            "properties": names,
            "headers": read_by_applications({name: plain(message.getObjectProperty(name)) for name in names}, fields),
        }

    def _called(self, origin: str) -> str:
        """A queue as the suite calls it."""
        name = origin.rpartition("://")[2]
        return DEAD_LETTER_QUEUE if name == self._names.dead_letters.rpartition("://")[2] else QUEUE + name

    def acknowledge(self, consumer: Consumer, message: Any, *, individual: bool) -> None:
        if individual and "individual" not in self._modes and len(consumer.taken) > 1:
            raise RefusedError("unsupported", "this provider settles all that a session was given, not one of several")
        if self._provider.facade == "context" and not (individual and "individual" in self._modes):
            consumer.session.acknowledge()
        else:
            message.acknowledge()

    def detach(self, consumer: Consumer) -> None:
        consumer.session.close()

    def drop(self, wire: Wire) -> None:
        del wire
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                with socket.socket(fileno=os.dup(int(entry.name))) as sock:
                    if sock.family in {socket.AF_INET, socket.AF_INET6} and sock.getpeername()[1] == self._address[1]:
                        sock.shutdown(socket.SHUT_RDWR)


def wrong(line: str, text: str) -> RefusedError:
    """A refusal that is the fault of a line of the profile."""
    return RefusedError(f"{PROFILE}{line if line.startswith('names.') else 'endpoints.jms.' + line}", text)


def _delay(producer: Any, delay_ms: int) -> None:
    """The delay of JMS 2.0. Raises ``RefusedError`` for a library that has none."""
    try:
        producer.setDeliveryDelay(delay_ms)
    except (AttributeError, *_lacking()):
        text = 'this library has no setDeliveryDelay; name the property that it takes, or write "" for none'
        raise wrong("names.jms.headers.delay", text) from None


def _tell(called: Called, call: str, value_ms: int, make: Callable[[], object]) -> Any:
    """Make a call, and tell of it; what it threw, None: nothing."""
    try:
        make()
    except jpype.JException as error:
        called.calls.append((call, value_ms, thrown_by(error)))
        return error
    called.calls.append((call, value_ms, ""))
    return None


def _lacking() -> tuple[Any, ...]:
    """What is raised for a method that a library only pretends to have."""
    return tuple(jpype.JClass(f"java.lang.{name}") for name in ("AbstractMethodError", "UnsupportedOperationException"))


def _there(name: str) -> bool:
    try:
        jpype.JClass(name)
    except TypeError:
        return False
    return True


def _set(factory: Any, name: str, value: str | int | bool) -> None:
    """Set a property of a bean. Raises ``RefusedError`` for one that it has not."""
    setter = f"set{name[:1].upper()}{name[1:]}"
    if not hasattr(factory, setter):
        known = sorted({one[3].lower() + one[4:] for one in dir(factory) if one.startswith("set") and len(one) > 4})
        near = suggestion(name, known)
        raise wrong(
            f"properties.{name}", f"{factory.getClass().getName()} has no {setter}; {near}it has {', '.join(known)}"
        )
    try:
        getattr(factory, setter)(value)
    except TypeError:
        raise wrong(
            f"properties.{name}", f"{setter} takes no {type(value).__name__} ({value!r}); give another type"
        ) from None
    except jpype.JException as error:
        raise wrong(f"properties.{name}", f"{setter} refuses {value!r}: {error}") from None

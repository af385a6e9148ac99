"""A JMS workload in a process of its own: the stock Java client, one scenario per line in, its outcome as JSON out.

A scenario tells what a JMS application sees: bodies, headers, order, counts, the classes of exceptions. It names its
destinations after a tag, so that one broker can play it many times. Started by ``test_openwire_client.py``.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jpype

from brokerproof.chaos.tools import find_java, java_home

AUTO, CLIENT, DUPS_OK, INDIVIDUAL = 1, 2, 3, 4
PATIENCE_MS = 20_000
#: How long to wait for what must not come.
ABSENCE_MS = 300
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx160m", "-Djava.net.preferIPv4Stack=true")

Scenario = Callable[["Stage"], object]
SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    """Register one under its function's name."""
    SCENARIOS[play.__name__] = play
    return play


class Stage:
    """One broker's address, and destinations that nobody else uses."""

    def __init__(self, url: str, tag: str) -> None:
        self.url = url
        self.tag = tag
        self._connections: list[Any] = []

    def connect(self, *, client_id: str = "", options: str = "", start: bool = True, url: str = "") -> Any:
        base = url or self.url
        address = base + (("&" if "?" in base else "?") + options if options else "")
        connection = jpype.JClass("org.apache.activemq.ActiveMQConnectionFactory")(address).createConnection()
        self._connections.append(connection)
        if client_id:
            connection.setClientID(f"{client_id}-{self.tag}")
        if start:
            connection.start()
        return connection

    def session(self, mode: int = AUTO, **options: Any) -> Any:
        connection = self.connect(**options)
        return connection.createSession(mode == 0, mode)

    def queue(self, session: Any, name: str = "q") -> Any:
        stem, mark, options = name.partition("?")
        return session.createQueue(f"{stem}.{self.tag}{mark}{options}")

    def topic(self, session: Any, name: str = "t") -> Any:
        return session.createTopic(f"{name}.{self.tag}")

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


@contextmanager
def refused(found: dict[str, object], name: str) -> Iterator[None]:
    """Note the class of the exception that is thrown."""
    try:
        yield
        found[name] = "accepted"
    except jpype.JException as error:
        found[name] = str(error.getClass().getName())


def send(session: Any, destination: Any, *texts: str, **settings: Any) -> None:
    producer = session.createProducer(destination)
    for name, value in settings.items():
        getattr(producer, name)(value)
    for text in texts:
        producer.send(session.createTextMessage(text))
    producer.close()


def text_of(message: Any) -> str | None:
    return None if message is None else str(message.getText())


def take(consumer: Any, count: int, timeout_ms: int = PATIENCE_MS) -> list[str | None]:
    return [text_of(consumer.receive(timeout_ms)) for _ in range(count)]


def nothing(consumer: Any) -> bool:
    return consumer.receive(ABSENCE_MS) is None


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


# -- the simplest things


@scenario
def queue_in_order(stage: Stage) -> object:
    session = stage.session()
    send(session, stage.queue(session), *numbers(0, 20))
    consumer = session.createConsumer(stage.queue(session))
    return take(consumer, 20), nothing(consumer)


@scenario
def topic_reaches_who_is_there(stage: Stage) -> object:
    session = stage.session()
    topic = stage.topic(session)
    send(session, topic, "early")
    first, second = session.createConsumer(topic), session.createConsumer(topic)
    send(session, topic, *numbers(0, 5))
    return take(first, 5), take(second, 5), nothing(first)


@scenario
def headers_of_a_message(stage: Stage) -> object:
    session = stage.session()
    queue, answers = stage.queue(session), stage.topic(session, "answers")
    message = session.createTextMessage("h\u00e9llo \u4e16\u754c \U0001f600 \0 end")
    message.setJMSCorrelationID("corr-\u00e9")
    message.setJMSType("kind")
    message.setJMSReplyTo(answers)
    producer = session.createProducer(queue)
    producer.setPriority(7)
    producer.setDeliveryMode(1)
    producer.setTimeToLive(3_600_000)
    producer.send(message)
    got = session.createConsumer(queue).receive(PATIENCE_MS)
    return {
        "text": str(got.getText()),
        "id": got.getJMSMessageID() == message.getJMSMessageID(),
        "correlation": str(got.getJMSCorrelationID()),
        "type": str(got.getJMSType()),
        "reply": got.getJMSReplyTo() == answers,
        "destination": got.getJMSDestination() == queue,
        "priority": int(got.getJMSPriority()),
        "mode": int(got.getJMSDeliveryMode()),
        "timestamp": got.getJMSTimestamp() == message.getJMSTimestamp(),
        "expiration": got.getJMSExpiration() - got.getJMSTimestamp(),
        "redelivered": bool(got.getJMSRedelivered()),
        "count": int(got.getIntProperty("JMSXDeliveryCount")),
        "properties": sorted(str(name) for name in got.getPropertyNames()),
    }


@scenario
def properties_of_every_type(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session)
    message = session.createMessage()
    message.setBooleanProperty("boolean", True)
    message.setByteProperty("byte", -7)
    message.setShortProperty("short", -300)
    message.setIntProperty("int", 70_000)
    message.setLongProperty("long", 5)
    message.setFloatProperty("float", 1.5)
    message.setDoubleProperty("double", 2.25)
    message.setStringProperty("text", "gr\u00fc\u00dfe")
    message.setStringProperty("long_text", "x" * 20_000)
    many = jpype.JClass("java.util.ArrayList")()
    many.add("one")
    message.setObjectProperty("list", many)
    session.createProducer(queue).send(message)
    got = session.createConsumer(queue, "byte < 0 AND text = 'gr\u00fc\u00dfe'").receive(PATIENCE_MS)
    return sorted(
        (str(name), str(got.getObjectProperty(name).getClass().getName()), str(got.getObjectProperty(name))[:40])
        for name in got.getPropertyNames()
    )


def _bodies(session: Any) -> dict[str, Any]:
    """A message of each kind, with something in it."""
    mapped = session.createMapMessage()
    mapped.setInt("int", 1)
    mapped.setString("text", "zw\u00f6lf")
    mapped.setBytes("bytes", jpype.JArray(jpype.JByte)(b"\0\1\xff"))
    mapped.setChar("char", "c")
    stream = session.createStreamMessage()
    stream.writeInt(3)
    stream.writeString("three")
    stream.writeDouble(0.5)
    octets = session.createBytesMessage()
    octets.writeBytes(jpype.JArray(jpype.JByte)(bytes(range(256)) * 8))
    held = session.createObjectMessage(jpype.JClass("java.lang.Integer").valueOf(42))
    return {
        "text": session.createTextMessage("some text \u4e16 " * 20),
        "map": mapped,
        "stream": stream,
        "bytes": octets,
        "object": held,
        "plain": session.createMessage(),
        "no text": session.createTextMessage(),
        "empty text": session.createTextMessage(""),
        "no bytes": session.createBytesMessage(),
    }


def _content(message: Any) -> object:
    """What is in a message, and its class."""
    name = str(message.getClass().getSimpleName())
    if name == "ActiveMQTextMessage":
        return name, None if message.getText() is None else str(message.getText())
    if name == "ActiveMQMapMessage":
        return name, sorted((str(key), str(message.getObject(key))) for key in message.getMapNames() if key != "bytes")
    if name == "ActiveMQStreamMessage":
        return name, message.readInt(), str(message.readString()), message.readDouble()
    if name == "ActiveMQBytesMessage":
        data = jpype.JArray(jpype.JByte)(int(message.getBodyLength()))
        message.readBytes(data)
        return name, bytes(data).hex()
    return name, str(message.getObject()) if name == "ActiveMQObjectMessage" else None


def _play_bodies(stage: Stage, options: str) -> object:
    session = stage.session(options="jms.trustAllPackages=true" + options)
    queue = stage.queue(session)
    producer, consumer = session.createProducer(queue), session.createConsumer(queue)
    found: dict[str, object] = {}
    for kind, message in _bodies(session).items():
        message.setStringProperty("kind", kind)
        producer.send(message)
        got = consumer.receive(PATIENCE_MS)
        found[kind] = (bool(got.isCompressed()), _content(got))
    return found


@scenario
def every_kind_of_body(stage: Stage) -> object:
    return _play_bodies(stage, "")


@scenario
def every_kind_of_body_compressed(stage: Stage) -> object:
    return _play_bodies(stage, "&jms.useCompression=true")


@scenario
def a_blob_by_its_address(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session)
    message = session.createBlobMessage(jpype.JClass("java.net.URL")("http://127.0.0.1:9/blob"))
    message.setMimeType("text/plain")
    session.createProducer(queue).send(message)
    got = session.createConsumer(queue).receive(PATIENCE_MS)
    return str(got.getURL()), str(got.getMimeType()), bool(got.isDeletedByBroker())


@scenario
def a_message_of_a_mebibyte(stage: Stage) -> object:
    session = stage.session()
    text = "0123456789abcdef" * 65536
    send(session, stage.queue(session), text)
    return take(session.createConsumer(stage.queue(session)), 1) == [text]


# -- who gets what


@scenario
def selectors_choose(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session)
    producer = session.createProducer(queue)
    for number in range(6):
        message = session.createTextMessage(str(number))
        message.setIntProperty("number", number)
        message.setStringProperty("colour", "red" if number % 2 else "blue")
        producer.send(message)
    found: dict[str, object] = {}
    odd = session.createConsumer(queue, "colour = 'red' AND number > 1")
    found["odd"] = take(odd, 2), nothing(odd)
    odd.close()
    found["rest"] = take(session.createConsumer(queue), 4)
    with refused(found, "bad"):
        session.createConsumer(queue, "colour = = 1")
    return found


@scenario
def a_browser_takes_nothing(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session)
    send(session, queue, *numbers(0, 7))
    shown = [str(message.getText()) for message in session.createBrowser(queue).getEnumeration()]
    empty = [str(message) for message in session.createBrowser(stage.queue(session, "empty")).getEnumeration()]
    return shown, empty, take(session.createConsumer(queue), 7)


@scenario
def an_exclusive_consumer_gets_all(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session, "q?consumer.exclusive=true")
    first, second = session.createConsumer(queue), session.createConsumer(queue)
    send(session, stage.queue(session), *numbers(0, 10))
    whole = take(first, 10), nothing(second)
    first.close()
    send(session, stage.queue(session), "later")
    return whole, take(second, 1)


@scenario
def groups_stick_to_a_consumer(stage: Stage) -> object:
    session = stage.session(options="jms.prefetchPolicy.queuePrefetch=1")
    queue = stage.queue(session)
    others = stage.connect(options="jms.prefetchPolicy.queuePrefetch=1").createSession(False, AUTO)
    consumers = [session.createConsumer(queue), others.createConsumer(queue)]
    producer = session.createProducer(queue)
    for number in range(12):
        message = session.createTextMessage(f"{'abc'[number % 3]}{number // 3}")
        message.setStringProperty("JMSXGroupID", "abc"[number % 3])
        producer.send(message)
    got: list[list[tuple[str, bool]]] = [[], []]
    while sum(map(len, got)) < 12:
        for which, consumer in enumerate(consumers):
            message = consumer.receive(100)
            if message is not None:
                first = message.getBooleanProperty("JMSXGroupFirstForConsumer")
                got[which].append((str(message.getText()), bool(first)))
    split = [sorted({text[0] for text, _ in part}) for part in got]
    in_order = all(
        [text for text, _ in part if text[0] == g] == [f"{g}{n}" for n in range(4)]
        for part, groups in zip(got, split, strict=True)
        for g in groups
    )
    firsts = sorted(text for part in got for text, first in part if first)
    return sorted(group for groups in split for group in groups), in_order, firsts


@scenario
def a_publisher_does_not_hear_itself(stage: Stage) -> object:
    session = stage.session()
    topic = stage.topic(session)
    mine = session.createConsumer(topic, None, True)
    other = stage.session().createConsumer(topic)
    send(session, topic, "x")
    return take(other, 1), nothing(mine)


@scenario
def wildcards_and_composites(stage: Stage) -> object:
    session = stage.session()
    all_of_it = session.createConsumer(session.createTopic(f"w.{stage.tag}.>"))
    one_level = session.createConsumer(session.createTopic(f"w.{stage.tag}.*"))
    for name in ("a", "b", "a.c"):
        send(session, session.createTopic(f"w.{stage.tag}.{name}"), name)
    found = take(all_of_it, 3), take(one_level, 2), nothing(one_level)
    send(session, session.createQueue(f"x.{stage.tag},topic://w.{stage.tag}.d,y.{stage.tag}"), "many")
    queues = [take(session.createConsumer(session.createQueue(f"{name}.{stage.tag}")), 1) for name in "xy"]
    return found, queues, take(one_level, 1)


@scenario
def a_virtual_topic_fills_its_queues(stage: Stage) -> object:
    session = stage.session()
    queues = [session.createQueue(f"Consumer.{name}.VirtualTopic.v.{stage.tag}") for name in "AB"]
    consumers = [session.createConsumer(queue) for queue in queues]
    send(session, session.createTopic(f"VirtualTopic.v.{stage.tag}"), *numbers(0, 3))
    return [take(consumer, 3) for consumer in consumers]


# -- acknowledging


@scenario
def client_acknowledgement_and_recover(stage: Stage) -> object:
    session = stage.session(CLIENT)
    queue = stage.queue(session)
    send(session, queue, *numbers(0, 6))
    consumer = session.createConsumer(queue)
    take(consumer, 2)
    message = consumer.receive(PATIENCE_MS)
    message.acknowledge()
    before = take(consumer, 2)
    session.recover()
    after = [(text_of(m), bool(m.getJMSRedelivered())) for m in (consumer.receive(PATIENCE_MS) for _ in range(2))]
    session.close()
    again = stage.session()
    consumer = again.createConsumer(queue)
    rest = [(text_of(m), bool(m.getJMSRedelivered())) for m in (consumer.receive(PATIENCE_MS) for _ in range(3))]
    return before, after, rest, nothing(consumer)


@scenario
def individual_acknowledgement(stage: Stage) -> object:
    session = stage.session(INDIVIDUAL)
    queue = stage.queue(session)
    send(session, queue, *numbers(0, 4))
    consumer = session.createConsumer(queue)
    messages = [consumer.receive(PATIENCE_MS) for _ in range(4)]
    messages[1].acknowledge()
    messages[3].acknowledge()
    session.close()
    again = stage.session().createConsumer(queue)
    return take(again, 2), nothing(again)


@scenario
def acknowledging_in_blocks(stage: Stage) -> object:
    session = stage.session(DUPS_OK, options="jms.optimizeAcknowledge=true&jms.prefetchPolicy.queuePrefetch=20")
    queue, topic = stage.queue(session), stage.topic(session)
    reader, listener = session.createConsumer(queue), session.createConsumer(topic)
    send(session, queue, *numbers(0, 100))
    send(session, topic, *numbers(0, 100))
    return take(reader, 100) == numbers(0, 100), take(listener, 100) == numbers(0, 100)


@scenario
def acknowledging_late(stage: Stage) -> object:
    """What is not acknowledged yet when a consumer closes is acknowledged then, in one range, and nothing else."""
    session = stage.session(AUTO, options="jms.optimizeAcknowledge=true&jms.prefetchPolicy.queuePrefetch=20")
    left = []
    for count in (0, 5, 13, 25):
        queue = stage.queue(session, f"late-{count}")
        send(session, queue, *numbers(0, 30))
        consumer = session.createConsumer(queue)
        taken = take(consumer, count)
        consumer.close()
        other = stage.session(AUTO)
        rest = take(other.createConsumer(queue), 30 - count)
        # In any order: a real broker may dispatch what it still had before what the closed consumer gave back.
        left.append((taken == numbers(0, count), sorted(rest) == sorted(numbers(count, 30))))
    return left


@scenario
def a_close_marks_what_was_seen(stage: Stage) -> object:
    session = stage.session(CLIENT)
    queue = stage.queue(session)
    send(session, queue, *numbers(0, 4))
    consumer = session.createConsumer(queue)
    take(consumer, 2)
    consumer.close()
    session.close()
    session = stage.session(CLIENT)
    consumer = session.createConsumer(queue)
    marks = []
    for _ in range(4):
        message = consumer.receive(PATIENCE_MS)
        marks.append((text_of(message), bool(message.getJMSRedelivered()), message.getIntProperty("JMSXDeliveryCount")))
    message.acknowledge()
    return marks


@scenario
def a_pull_consumer_asks_each_time(stage: Stage) -> object:
    session = stage.session()
    consumer = session.createConsumer(stage.queue(session, "q?consumer.prefetchSize=0"))
    empty = consumer.receiveNoWait() is None, nothing(consumer)
    send(session, stage.queue(session), "a", "b", "c")
    return empty, text_of(consumer.receiveNoWait()), take(consumer, 2), nothing(consumer)


# -- transactions and redelivery


@scenario
def sends_wait_for_the_commit(stage: Stage) -> object:
    transacted, plain = stage.session(0), stage.session()
    queue = stage.queue(plain)
    consumer = plain.createConsumer(queue)
    send(transacted, queue, "lost")
    transacted.rollback()
    send(transacted, queue, *numbers(0, 3))
    early = nothing(consumer)
    transacted.commit()
    return early, take(consumer, 3), nothing(consumer)


@scenario
def a_rollback_brings_back(stage: Stage) -> object:
    session = stage.session(0, options="jms.redeliveryPolicy.initialRedeliveryDelay=0")
    queue = stage.queue(session)
    send(session, queue, "a", "b")
    session.commit()
    consumer = session.createConsumer(queue)
    seen = []
    for _ in range(3):
        for _ in range(2):
            message = consumer.receive(PATIENCE_MS)
            count = int(message.getIntProperty("JMSXDeliveryCount"))
            seen.append((text_of(message), bool(message.getJMSRedelivered()), count))
        session.rollback()
    take(consumer, 2)
    session.commit()
    return seen, nothing(consumer)


@scenario
def too_many_redeliveries_are_a_dead_letter(stage: Stage) -> object:
    options = "jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"
    session = stage.session(0, options=options + "&jms.redeliveryPolicy.maximumRedeliveries=2")
    queue = stage.queue(session)
    message = session.createTextMessage("poison")
    message.setIntProperty("number", 5)
    session.createProducer(queue).send(message)
    session.commit()
    consumer = session.createConsumer(queue)
    deliveries = 0
    while (message := consumer.receive(PATIENCE_MS if deliveries < 3 else 1000)) is not None:
        deliveries += 1
        session.rollback()
    dead = stage.session()
    letters = dead.createConsumer(dead.createQueue("ActiveMQ.DLQ"), "number = 5")
    letter = letters.receive(PATIENCE_MS)
    names = sorted(str(name) for name in letter.getPropertyNames())
    origin = letter.getOriginalDestination() == queue
    return deliveries, text_of(letter), names, origin, int(letter.getIntProperty("number"))


@scenario
def a_transaction_with_a_refused_send(stage: Stage) -> object:
    """Sends in a transaction wait for no answer: the commit is the first that can tell that one was refused."""
    plain = stage.session()
    queue = stage.queue(plain)
    send(plain, queue, "a", "b")
    options = "jms.watchTopicAdvisories=false&jms.redeliveryPolicy.initialRedeliveryDelay=0"
    session = stage.session(0, options=options)
    consumer = session.createConsumer(queue)
    found: dict[str, object] = {"taken": take(consumer, 1)}
    producer, out = session.createProducer(None), stage.queue(session, "out")
    producer.send(out, session.createTextMessage("good"))
    producer.send(session.createQueue("temp-queue://nobody:1"), session.createTextMessage("lost"))
    with refused(found, "commit"):
        session.commit()
    found["again"] = take(consumer, 2)
    producer.send(out, session.createTextMessage("next"))
    session.commit()
    reader = plain.createConsumer(out)
    return found, take(reader, 1), nothing(reader)


@scenario
def a_producer_of_what_is_gone(stage: Stage) -> object:
    mine, theirs = stage.session(), stage.session()
    queue = mine.createTemporaryQueue()
    send(theirs, queue, "heard")
    queue.delete()
    found: dict[str, object] = {}
    with refused(found, "producer"):
        theirs.createProducer(queue)
    return found


@scenario
def a_lost_transaction_is_rolled_back(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session)
    send(session, queue, "kept")
    transacted = stage.session(0)
    send(transacted, queue, "never")
    take(transacted.createConsumer(queue), 1)
    transacted.close()
    consumer = session.createConsumer(queue)
    return take(consumer, 1), nothing(consumer)


# -- durable subscriptions, temporary destinations


@scenario
def a_durable_subscription_collects(stage: Stage) -> object:
    connection = stage.connect(client_id="durable")
    session = connection.createSession(False, AUTO)
    topic = stage.topic(session)
    session.createDurableSubscriber(topic, "news").close()
    other = stage.session()
    send(other, topic, *numbers(0, 3))
    connection.close()
    connection = stage.connect(client_id="durable")
    session = connection.createSession(False, AUTO)
    subscriber = session.createDurableSubscriber(topic, "news")
    found: dict[str, object] = {"collected": take(subscriber, 3)}
    with refused(found, "twice"):
        session.createDurableSubscriber(topic, "news")
    with refused(found, "in use"):
        session.unsubscribe("news")
    with refused(found, "unknown"):
        session.unsubscribe("olds")
    with refused(found, "client id"):
        stage.connect(client_id="durable")
    subscriber.close()
    session.unsubscribe("news")
    send(other, topic, "nobody")
    found["gone"] = nothing(session.createDurableSubscriber(topic, "news"))
    return found


@scenario
def request_and_reply_between_connections(stage: Stage) -> object:
    asking, answering = stage.session(), stage.session()
    requests = stage.queue(asking)
    server = answering.createConsumer(requests)
    replies = asking.createTemporaryQueue()
    reader = asking.createConsumer(replies)
    got = []
    for number in range(5):
        request = asking.createTextMessage(str(number))
        request.setJMSReplyTo(replies)
        request.setJMSCorrelationID(f"c{number}")
        asking.createProducer(requests).send(request)
        heard = server.receive(PATIENCE_MS)
        answer = answering.createTextMessage("re: " + str(heard.getText()))
        answer.setJMSCorrelationID(heard.getJMSCorrelationID())
        answering.createProducer(None).send(heard.getJMSReplyTo(), answer)
        reply = reader.receive(PATIENCE_MS)
        got.append((str(reply.getText()), str(reply.getJMSCorrelationID())))
    return got


@scenario
def temporary_destinations_end(stage: Stage) -> object:
    mine, theirs = stage.session(), stage.session()
    found: dict[str, object] = {}
    queue, topic = mine.createTemporaryQueue(), mine.createTemporaryTopic()
    reader = mine.createConsumer(topic)
    send(theirs, topic, "heard")
    found["topic"] = take(reader, 1)
    with refused(found, "foreign"):
        theirs.createConsumer(queue)
    with refused(found, "in use"):
        topic.delete()
    reader.close()
    topic.delete()
    queue.delete()
    mine.createTemporaryQueue()  # its advisory comes after those of the deletions
    for _ in range(100):
        with refused(found, "deleted"):
            send(theirs, queue, "nobody")
        if found["deleted"] != "accepted":
            found["deleted"] = "refused"  # by the client or by the broker, whoever hears of it first
            break
    return found


# -- time, and how much at once


@scenario
def an_expired_message_is_not_seen(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session)
    send(session, queue, "short", setTimeToLive=50)
    send(session, queue, "long", setTimeToLive=600_000)
    jpype.JClass("java.lang.Thread").sleep(120)
    consumer = session.createConsumer(queue)
    return take(consumer, 1), nothing(consumer)


@scenario
def a_delayed_message_comes_later(stage: Stage) -> object:
    session = stage.session()
    queue = stage.queue(session)
    message = session.createTextMessage("later")
    message.setLongProperty("AMQ_SCHEDULED_DELAY", 700)
    session.createProducer(queue).send(message)
    send(session, queue, "now")
    consumer = session.createConsumer(queue)
    early = take(consumer, 1), nothing(consumer)
    late = consumer.receive(PATIENCE_MS)
    return early, str(late.getText()), bool(late.propertyExists("AMQ_SCHEDULED_DELAY"))


@scenario
def five_listeners_share_five_thousand(stage: Stage) -> object:
    latch = jpype.JClass("java.util.concurrent.CountDownLatch")(5000)
    seen: list[str] = []

    @jpype.JImplements("javax.jms.MessageListener")
    class Listener:
        @jpype.JOverride
        def onMessage(self, message: Any) -> None:  # noqa: N802 - Java's name
            seen.append(str(message.getText()))
            latch.countDown()

    connection = stage.connect()
    sessions = [connection.createSession(False, AUTO) for _ in range(5)]
    for session in sessions:
        session.createConsumer(stage.queue(session, "q?consumer.prefetchSize=50")).setMessageListener(Listener())
    producing = stage.session()
    send(producing, stage.queue(producing), *numbers(0, 5000), setDeliveryMode=1)
    whole = latch.await_(60, jpype.JClass("java.util.concurrent.TimeUnit").SECONDS)
    return bool(whole), sorted(seen, key=int) == numbers(0, 5000)


@scenario
def a_producer_window(stage: Stage) -> object:
    session = stage.session(options="jms.producerWindowSize=4096&jms.useAsyncSend=true")
    send(session, stage.queue(session), *numbers(0, 100))
    return take(session.createConsumer(stage.queue(session)), 100) == numbers(0, 100)


@scenario
def failover_goes_on_where_it_was(stage: Stage) -> object:
    """The connection's socket is closed under the client, which comes back by itself."""
    session = stage.session(CLIENT, url=f"failover:({stage.url})?initialReconnectDelay=10&maxReconnectDelay=50")
    queue = stage.queue(session)
    consumer = session.createConsumer(queue)
    send(session, queue, "a", "b")
    first = consumer.receive(PATIENCE_MS)
    first.acknowledge()
    connection = stage._connections[-1]
    connection.getTransport().narrow(jpype.JClass("java.net.Socket")).close()
    send(session, queue, "c")
    texts = [text_of(first)]
    while (message := consumer.receive(3000)) is not None:
        texts.append(text_of(message))
        message.acknowledge()
    return sorted(set(texts)), len(texts) - len(set(texts)) <= 1


def play(name: str, url: str, tag: str) -> dict[str, object]:
    """The outcome of one scenario, or what went wrong."""
    stage = Stage(url, tag)
    try:
        return {"outcome": SCENARIOS[name](stage)}
    except BaseException as error:  # noqa: BLE001 - told to the test, whatever it is
        return {"error": f"{error}", "trace": traceback.format_exc()}
    finally:
        stage.close()


def main() -> int:
    """Answer until the input ends."""
    jvm = java_home(find_java()) / "lib" / "server" / "libjvm.so"
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    class_path = [*sys.argv[1].split(os.pathsep), str(Path(__file__).parent)]
    jpype.startJVM(*JVM_OPTIONS, jvmpath=str(jvm), classpath=class_path, convertStrings=False)
    for line in sys.stdin:
        asked = json.loads(line)
        answers.write(json.dumps(play(asked["scenario"], asked["url"], asked["tag"])) + "\n")
    os._exit(0)  # a connection that did not close would keep the process alive


if __name__ == "__main__":
    sys.exit(main())

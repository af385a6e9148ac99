"""Contents: what a message carries, from its producer to its consumer or its dead letter. Judges GEN-011, EXP-015,
EXP-023 and RDL-015.

Model. A broker hands on what it was given: body, properties, group, priority. A JMS library stamps an expiration that
is its own clock's reading at the send plus the time to live, or none. Nothing that a producer writes makes a first
delivery look like a later one. A dead letter of an expired message says when it expired and why it died, and is
otherwise the message.

Events: the books, and the fields ``body``, ``ttl_ms``, ``forged``, ``original_expiration_ms`` and ``cause``.

Analyses:

1. GEN-011: a message arrives with another body, kind, group or priority than it was sent with.
2. EXP-015: the dead letter of a message that expired for certain lacks its original expiration or shows another one, or
   its cause does not name that expiration; or its timestamp, priority, body or kind is not the message's.
3. EXP-023: a JMS client stamped an expiration that is not its clock's reading between the beginning and the end of the
   send, plus the time to live; or any, without a time to live; or another one arrives where nobody re-stamps.
4. RDL-015: headers pretended a delivery count, and the first delivery is marked as redelivered or counts more than one.

Not checked: 1 where one of both ends does not tell the body; kinds and groups where an observer outside of the
simulation shows none; 2 for messages that somebody gave up or rolled back, and its timestamp and expiration with
time-stamping, a delay or a life by the broker's clock; 4 for messages that another consumer may have had before.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Ack, Arrive, Send
from brokerproof.conformance.oracles.base import NS_PER_MS
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import JMS_DELIVERIES, LATE, Message, is_limited

#: A client's clock may be read so much before the instant that it shows (``agents/stamps.py``).
SLACK_MS = 1


class ContentOracle(BookOracle):
    """See the module's header."""

    name = "contents"
    requirements = ("GEN-011", "EXP-015", "EXP-023", "RDL-015")

    def judge(self) -> None:
        for message in self.books.messages.values():
            send = message.send
            if send is None:
                continue
            for passage in (*message.passages, *message.dead):
                self._arrived(send, passage.event)
            if message.dead and send.dest != DEAD_LETTERS:
                self._letter(message, send, message.dead[0].event)
            if send.ttl_ms is not None and self.books.host(send.host).via == "jms":
                self._stamped(message, send, send.ttl_ms)
            if send.forged > 1 and message.passages:
                self._pretended(message, send)

    def _is_stamped(self, send: Send) -> bool:
        """Whether the broker may have given it other times; of delayed messages DLY-006 and DLY-015 say so."""
        delayed = send.delay_ms > 0 or send.deliver_at_ms is not None
        return delayed or self.ask.maybe_restamped(send)

    # -- GEN-011

    def _differences(self, send: Send, event: Arrive) -> list[tuple[str, object, object]]:
        """What is not as it was sent: name, sent, arrived."""
        looked = self.books.simulated
        pairs: list[tuple[str, object, object]] = [
            ("body", send.body, event.body),
            ("kind", send.message_kind, event.message_kind or ("" if looked else send.message_kind)),
            ("group", send.group, event.group or ("" if looked else send.group)),
            ("priority", send.priority, send.priority if event.priority is None else event.priority),
        ]
        return [pair for pair in pairs if pair[1] != pair[2]]

    def _arrived(self, send: Send, event: Arrive) -> None:
        if send.body is None or event.body is None:
            return
        claim = self.claims["GEN-011"]
        for name, sent, arrived in self._differences(send, event):
            text = f"{send.message} was sent with {name} {sent!r}, and arrived at {event.consumer} with {arrived!r}"
            claim.fail(text, [send.seq, event.seq], outcome="changed")
            return
        situation = "as a dead letter" if event.dest == DEAD_LETTERS else ""
        claim.hold("with properties" if send.message_kind or send.group else situation, outcome="as-sent")

    # -- EXP-015

    def _letter(self, message: Message, send: Send, letter: Arrive) -> None:
        if not send.mortal() or send.body is None or letter.body is None or self._given_up(message, send):
            return
        claim = self.claims["EXP-015"]
        wrong = [f"{name} {arrived!r} instead of {sent!r}" for name, sent, arrived in self._differences(send, letter)]
        expiration_ms = letter.original_expiration_ms
        if not expiration_ms:
            wrong.append("no originalExpiration")
        else:
            if not self._is_stamped(send) and expiration_ms != send.expiration_ms:
                wrong.append(f"originalExpiration {expiration_ms} instead of {send.expiration_ms}")
            if letter.cause is None or str(expiration_ms) not in letter.cause:
                wrong.append(f"cause {letter.cause!r}, which does not name {expiration_ms}")
        if not self._is_stamped(send) and send.timestamp_ms and letter.timestamp_ms != send.timestamp_ms:
            wrong.append(f"timestamp {letter.timestamp_ms} instead of {send.timestamp_ms}")
        if wrong:
            text = f"the dead letter of {send.message}, which expired on {send.dest}, has {', '.join(wrong)}"
            claim.fail(text, [send.seq, letter.seq], outcome="incomplete")
        else:
            claim.hold("a client had seen it expire" if message.passages else "the broker found it", outcome="complete")

    def _given_up(self, message: Message, send: Send) -> bool:
        """Whether it may have died of something else."""
        if message.name in self.books.rejected or is_limited(self.books.header.declared.destinations, send.dest):
            return True
        return any(
            (isinstance(passage.settle, Ack) and passage.settle.tx is not None)
            or (passage.event.delivery_count or 0) >= JMS_DELIVERIES
            for passage in message.passages
        )

    # -- EXP-023

    def _stamped(self, message: Message, send: Send, ttl_ms: int) -> None:
        if send.result == "fail" or send.life_ms or not self.clocks.known(send.host):
            return
        claim = self.claims["EXP-023"]
        shown = send.expiration_ms
        if ttl_ms <= 0:
            if shown > 0:
                text = f"{send.message} was sent without a time to live, and its expiration is {shown}"
                claim.fail(text, [send.seq], outcome="another")
                return
        else:
            low_ns, high_ns = self.clocks.bounds_ns(send.host, send.t0, send.t1)
            slack_ms = 0 if self.books.simulated else SLACK_MS
            low_ms, high_ms = low_ns // NS_PER_MS + ttl_ms - slack_ms, high_ns // NS_PER_MS + ttl_ms
            if not low_ms <= shown <= high_ms:
                text = (
                    f"{send.message} was sent between {ms(send.t0)} and {ms(send.t1)} with a time to live of "
                    f"{ttl_ms} ms; by its producer's clock it expires between {low_ms} and {high_ms}, by its "
                    f"expiration at {shown}"
                )
                claim.fail(text, [send.seq], outcome="another")
                return
        for passage in message.passages:
            if not self._is_stamped(send) and passage.event.expiration_ms != shown:
                text = (
                    f"{send.message} was stamped with expiration {shown} by its producer's library, and arrived at "
                    f"{passage.consumer.name} with {passage.event.expiration_ms}"
                )
                claim.fail(text, [send.seq, passage.event.seq], outcome="another")
                return
        claim.hold("with a time to live" if ttl_ms > 0 else "without a time to live", outcome="send-plus-life")

    # -- RDL-015

    def _pretended(self, message: Message, send: Send) -> None:
        first = message.passages[0]
        if first.fate == LATE or self.books.lens.clouded(send.dest):
            return
        if not first.queue.topic and self.ask.maybe_elsewhere(message, first):
            return
        claim = self.claims["RDL-015"]
        event = first.event
        if event.redelivered or event.delivery_count not in {None, 1}:
            count = "" if event.delivery_count is None else f" with delivery count {event.delivery_count}"
            mark = " marked redelivered" if event.redelivered else ""
            text = (
                f"headers of {send.message} pretended delivery count {send.forged}, and its first delivery, to "
                f"{event.consumer}, came{mark}{count}"
            )
            claim.fail(text, [send.seq, event.seq], outcome="believed")
        else:
            claim.hold(
                "to a STOMP consumer" if event.delivery_count is None else "to a JMS consumer", outcome="ignored"
            )

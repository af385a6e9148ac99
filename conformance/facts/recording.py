"""Recording: one pass over a history that makes the rows of the tables. It trusts events only, and never assumes that
the broker did what it should.

Model. A queue's copy is *waiting*, or *held* by the one session that it arrived at, or gone. A settlement takes it from
held to gone; the end of a session takes what it held, unsettled, back to waiting. What nobody can know is *doubtful*:
unknown results, settlements in open transactions, a client's expired-ack, whose effect depends on the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Acknowledge,
    Arrive,
    Begin,
    Browse,
    ClockSample,
    Closed,
    Commit,
    Connect,
    Consume,
    Counters,
    Crash,
    Discard,
    Event,
    Fault,
    History,
    Kill,
    Leave,
    Nack,
    Operate,
    Pause,
    Phase,
    Poll,
    Probe,
    Start,
    Stop,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.asked import NOTED
from brokerproof.conformance.facts.attachments import Attachments, heard, unheard
from brokerproof.conformance.facts.epochs import OVERHEAD_MAX_BYTES
from brokerproof.conformance.facts.managed import is_report, mark_commands
from brokerproof.conformance.facts.operating import is_copied, moved_from, moved_to, operate
from brokerproof.conformance.facts.policy import gets_expiration, surely_believes_clients
from brokerproof.conformance.facts.pressure import may_block
from brokerproof.conformance.facts.reading import read
from brokerproof.conformance.facts.requests import Requests
from brokerproof.conformance.facts.rows import (
    DOUBTFUL,
    HELD,
    LATE,
    RETURNED,
    SETTLED,
    Copy,
    Delivery,
    Destination,
    Send,
    Session,
    Subscription,
    Transaction,
)
from brokerproof.conformance.facts.settling import (
    accept,
    call_dead,
    enlist,
    expect_no_dead_letter,
    hold,
    is_unclear,
    leave_to,
    note_volatile,
    release,
    requeue,
    settle,
    settled_by,
    take,
    tell_apart,
    unpledge,
)
from brokerproof.conformance.facts.slow_links import mark_slow_links
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS
from brokerproof.conformance.facts.tables import Tables
from brokerproof.conformance.facts.transacting import begin, end, ends_by_reject, send_in_transaction

Handler = Callable[[Any], None]


def record(history: History, tables: Tables) -> None:
    """Fill the tables of a run, before any tightening."""
    announced, crossed, changes = dict[str, SendEvent](), dict[str, list[SendEvent]](), False
    for event in history.events:
        if type(event) is SendEvent:
            if event.message and announced.setdefault(event.message, event).dest != event.dest and event.network:
                crossed.setdefault(event.message, []).append(event)
        elif type(event) is Commit:
            tables.commits[event.tx] = event
        elif type(event) is Operate:
            if event.op == "limit":
                changes = True
            elif event.op == "move" and event.result != "fail":
                tables.moves.append(event)
    mark_commands(tables, history, announced.values())
    tables.blocks = may_block(tables, announced.values(), changes)
    mark_slow_links(tables, history)
    handlers = Recording(tables, announced, crossed).handlers()
    requests = Requests(tables)
    begun = sorted(announced.values(), key=lambda event: -event.t0)
    for event in history.events:
        if begun and begun[-1].t0 < event.t1:
            tables.begin(begun, event.t1)
        kind = type(event)
        if kind in NOTED:
            requests.note(event)  # type: ignore[arg-type] # as compared
        handler = handlers.get(kind)
        if handler is not None:
            handler(event)
        tables.note(event)


class Recording:
    """The pass. ``tables`` is what it fills."""

    def __init__(self, tables: Tables, announced: dict[str, SendEvent], crossed: dict[str, list[SendEvent]]) -> None:
        self.tables = tables
        self._attachments = Attachments(tables)
        #: Message -> the event of its send, which may still be to come in the order of the history.
        self._announced = announced
        #: The same of its other copies that a bridge brings.
        self._crossed = crossed
        self._expired_ack_settles = surely_believes_clients(tables.declared, simulated=tables.simulated)

    def handlers(self) -> dict[type[Event], Handler]:
        """Kind of event -> what takes it."""
        to, tables = self._attachments, self.tables
        return {
            SendEvent: self._send,
            Arrive: self._arrive,
            Consume: self._consume,
            Ack: self._ack,
            Nack: self._ack,
            Discard: self._discard,
            Acknowledge: self._acknowledge,
            Counters: lambda event: read(tables, event),
            ClockSample: lambda event: tables.clock(event.host).sample(event),
            Connect: to.connect,
            Subscribe: to.subscribe,
            Unsubscribe: to.unsubscribe,
            Leave: to.leave,
            Closed: to.closed,
            Start: to.process,
            Stop: to.process,
            Kill: to.process,
            Fault: to.fault,
            Pause: self._pause,
            Crash: tables.crashes.append,
            Phase: self._phase,
            Begin: lambda event: begin(tables, event),
            Commit: lambda event: end(tables, event),
            Abort: lambda event: end(tables, event),
            Browse: self._browse,
            Operate: lambda event: operate(tables, event),
            Poll: self._poll,
            Probe: tables.probes.append,
        }

    # -- sends

    def _send(self, event: SendEvent) -> None:
        tables = self.tables
        if event.result == "ok":
            heard(tables.client(event.host), event)
        else:
            unheard(tables, event)
        send = self._row(event.message)
        if send is None or send.event is not event:
            self._count(event, None)
            return
        send.connection = send.client.connection
        send.after_seq, send.still_seq = tables.freed_seq, tables.moved_seq
        self._count(event, send)
        if event.tx is not None:
            send_in_transaction(tables, send, event.tx)
        elif event.result == "ok":
            accept(tables, send, (event.t0, event.t1))

    def _count(self, event: SendEvent, send: Send | None) -> None:
        """What is known of destinations, now that something was sent there. None: it is the same message once more, of
        which the first one counts, or has no name, as bridges forward some: nobody can tell it from others.
        """
        tables, bytes_max = self.tables, event.size + OVERHEAD_MAX_BYTES
        tables.unnamed = tables.unnamed or not event.message
        tables.epoch.send(event)
        delayed = event.delay_ms > 0 or event.deliver_at_ms is not None
        unsure = event.result != "fail" and (event.result != "ok" or event.tx is not None or delayed)
        timed = event.mortal() or delayed or gets_expiration(tables.declared)
        for part in tables.parts(event):
            tables.sent_bytes += bytes_max
            if send is not None:
                part.sends.append(send)
            else:
                tables.marks.put(marks.REPEATED, part.name, (event.t0, NEVER))
            part.epoch.send(event)
            part.sent_bytes += bytes_max
            part.timed += timed
            for queue in tables.virtual_queues.get(part.name, ()):
                queue.timed += timed  # it may get a copy of which nobody knows
            part.ledger.sent += 1
            part.ledger.loose += unsure or send is None
            part.ledger.stirred = part.ledger.stirred or part.topic or send is None
            part.priorities[event.priority] = True
            part.grouped = part.grouped or event.group != ""
            if event.group:
                tables.marks.put(marks.SELECTIVE, part.name, (event.t0, NEVER))
            if len(part.priorities) == 2:
                tables.marks.put(marks.PRIORITY, part.name, (0, NEVER))

    def _row(self, message: str) -> Send | None:
        """The row of a message; frames can overtake the receipt of their send. None: nobody ever sent it."""
        tables = self.tables
        send = tables.sends.get(message)
        if send is None:
            event = self._announced.get(message)
            if event is None:
                return None
            send = tables.sends[message] = Send(event, tables.client(event.host), tables.destination(event.dest))
            if send.delayed:
                tables.delayed.append(send)
            if send.mortal:
                tables.mortal.append(send)
            for part in (part for one in (event, *self._crossed.get(message, ())) for part in tables.parts(one)):
                if part.name in send.copies:
                    tables.marks.put(marks.REPEATED, part.name, (event.t0, NEVER))
                elif not part.topic:
                    self._copy(send, part.name, part, None)
        return send

    def _copy(self, send: Send, holder: str, dest: Destination, subscription: Subscription | None) -> Copy:
        copy = send.copies[holder] = Copy(send, holder, dest, subscription)
        send.copy = send.copy or copy
        dest.copies.append(copy)
        self.tables.copies.append(copy)
        return copy

    # -- deliveries

    def _arrive(self, event: Arrive) -> None:
        tables = self.tables
        session = tables.sessions.get(event.consumer)
        if session is None:
            session = self._attachments.enlist(event.consumer, event.host, event.dest, None)
        session.client.last_heard_ns = event.t1
        dest = session.dest if session.dest.name == event.dest else tables.destination(event.dest)
        send = self._row(event.message)
        if dest.kind == "advisory" or (send is not None and send.dest.kind == "advisory"):
            tables.advisories.append(event)
            return
        if send is None or is_report(tables, event):  # of a message, whose body it may show
            tables.ghosts.append(event)
            dest.ledger.ghosts += 1
            dest.ledger.arrived += 1
            return
        send.seen = send.seen or event
        copy = self._copy_at(send, dest, session, event)
        if session.end:
            state = LATE
        elif session.auto:
            state = SETTLED
        elif session.ack == "auto" and session.traits.settles_what_arrives:
            state = DOUBTFUL
        else:
            state = HELD
        delivery = Delivery(copy, dest, session, event, state)
        tables.deliveries.append(delivery)
        session.deliveries.append(delivery)
        tell_apart(tables, session.seen.get(event.message), delivery)
        session.seen[event.message] = delivery
        dest.arrived += 1
        dest.ledger.arrived += state != LATE or not tables.restarts
        dest.ledger.tardy += state == LATE and not tables.restarts
        if delivery.is_dead_letter:
            self._dead_letter(copy, delivery)
        else:
            dest.again += bool(copy.deliveries)
            leave_to(delivery)
            copy.deliveries.append(delivery)
            if state != LATE:
                hold(tables, delivery)

    def _dead_letter(self, copy: Copy, delivery: Delivery) -> None:
        """What died is found again."""
        expect_no_dead_letter(self.tables, copy)
        copy.dead_letters.append(delivery)
        release(self.tables, copy)
        take(delivery)

    def _copy_at(self, send: Send, dest: Destination, session: Session, event: Arrive) -> Copy:
        """Which of a message's copies this is."""
        subscription, holder = session.subscription, dest.name
        if dest.topic:
            # Without a subscription its receipt is still to come; one to a wildcard gets a copy from each topic.
            holder = subscription.name if subscription is not None else session.name
            holder = f"{holder} of {dest.name}" if session.wild else holder
        origin = self._moved_by_its_word(send, dest, event)
        if origin is not None:
            return send.copies.get(origin.name) or self._copy(send, origin.name, origin, None)
        source_name = event.original_dest if dest.kind == "dead-letters" else None
        found = send.copies.get(holder) or send.copies.get(source_name or holder)
        if found is not None:
            return found
        if dest.kind == "dead-letters" and event.original_dest and send.dest.kind in {"composite", "virtual"}:
            origin = self.tables.destination(event.original_dest)
            if origin.topic:
                return self._copy(send, holder, origin, None)  # it died before any queue got its copy
            copied = is_copied(self.tables, send, origin)
            source = origin if copied else moved_from(self.tables, send, origin, event.t1)
        else:
            source = moved_from(self.tables, send, dest, event.t1)
        if source is not None:
            return send.copies.get(source.name) or self._copy(send, source.name, source, None)
        if (
            not dest.topic
            and send.copy is not None
            and send.copy.subscription is None
            and not is_copied(self.tables, send, dest)
        ):
            return send.copy  # a dead letter, or what an operator moved
        home = dest if dest.topic is send.dest.topic or is_copied(self.tables, send, dest) else send.dest
        return self._copy(send, holder, home if home.kind != "dead-letters" else send.dest, subscription)

    def _moved_by_its_word(self, send: Send, dest: Destination, event: Arrive) -> Destination | None:
        """From where an operator moved it here, as the message itself says: one of the queues that got a copy."""
        name = event.original_dest or ""
        if dest.topic or name in {"", send.dest.name} or name not in moved_to(self.tables, send, dest, event.t1):
            return None
        origin, there = self.tables.destination(name), send.copies.get(name)
        gone = there is not None and there.deliveries and there.deliveries[-1].state == SETTLED
        if gone and moved_to(self.tables, send, origin, event.t1):
            return None  # another one had been moved there before
        return origin if name in send.copies or is_copied(self.tables, send, origin) else None

    def _poll(self, event: Poll) -> None:
        self.tables.polls.append(event)
        # A library that asks for one at each call has asked once more than it got: it keeps ahead from then on.
        late = event.timeout_ms is not None and event.t1 - event.t0 > event.timeout_ms * NS_PER_MS
        unseen = self.tables.unseen.get(event.consumer, 0)
        self.tables.unseen[event.consumer] = max(1, unseen) if event.message is None else unseen + late

    def _consume(self, event: Consume) -> None:
        delivery = self._delivery(event.consumer, event.message)
        if delivery is None:
            return
        delivery.consumed = event
        delivery.given += 1
        session = delivery.session
        if session.traits.widens_window:
            session.freed_ns.append(event.t0)
        if session.ack == "auto" and delivery.state in {HELD, RETURNED}:
            # The library settles it by itself, at a moment that nobody sees unless it is recorded.
            settle(self.tables, delivery, DOUBTFUL)

    def _delivery(self, consumer: str, message: str) -> Delivery | None:
        session = self.tables.sessions.get(consumer)
        return session.seen.get(message) if session is not None else None

    # -- settlements

    def _ack(self, event: Ack | Nack) -> None:
        tables = self.tables
        if event.result == "ok":
            heard(tables.client(event.host), event)
        session = tables.sessions.get(event.consumer)
        if session is None:
            return
        transaction = self._part_of(event) if event.tx is not None else None
        certain = SETTLED if event.result == "ok" and transaction is None else DOUBTFUL
        unclear = is_unclear(tables, session, event)
        for message in event.messages:
            delivery = settled_by(session, message, event)
            if delivery is None:
                session.dest.ledger.stirred = True
                continue
            twin = unclear or message in session.twins
            if not session.traits.widens_window:
                session.freed_ns.append(event.t0)
            self._settled_by(delivery, event)
            if isinstance(event, Nack) and not twin and requeue(tables, delivery, event):
                continue
            waits = tables.declared.transacted_nacks and transaction is not None and event.result == "ok" and not twin
            for one in self._meant(event.consumer, message) if isinstance(event, Nack) and not waits else ():
                one.copy.rejected = one.copy.rejected or not one.is_dead_letter  # also if it was refused: who knows
            if event.result == "fail":
                if delivery.state != HELD or not delivery.rollbacks:  # what was rolled back stays as it was
                    settle(tables, delivery, DOUBTFUL)
            elif isinstance(event, Nack):
                self._reject(delivery, event, DOUBTFUL if twin else certain)
            else:
                settle(tables, delivery, DOUBTFUL if twin else certain)
            if transaction is not None:
                enlist(delivery, transaction, "unknown" if twin else event.result)

    def _part_of(self, event: Ack | Nack) -> Transaction:
        """The transaction that it is part of."""
        transaction = self.tables.transaction(event.tx or "", event.host)
        transaction.acks.append(event)
        if not transaction.mixed and (event.result == "fail" or isinstance(event, Nack)):
            transaction.mixed = True
            for delivery in transaction.settled:
                unpledge(delivery)
        return transaction

    def _settled_by(self, delivery: Delivery, event: Ack | Nack | Discard) -> None:
        """The first try counts, or what came after a refusal, or a discard after a rollback."""
        was = delivery.settlement
        delivery.settlements.append(event)
        if was is None:
            delivery.session.tried += 1
            delivery.settlement = event
        elif not isinstance(was, Discard):
            undone = isinstance(event, Discard) and was.tx is not None and delivery.rollbacks > 0
            if undone or was.result == "fail":
                delivery.settlement = event

    def _reject(self, delivery: Delivery, event: Nack, state: int) -> None:
        """A dead letter follows at once where that is promised; the broker may try again where it is told to."""
        tables, copy = self.tables, delivery.copy
        if delivery.dest.applied.entry.redelivery is not None:
            tables.marks.put(marks.REDELIVERY, delivery.dest.name, (event.t0, NEVER))
        if not ends_by_reject(self.tables, delivery):
            state = DOUBTFUL
        settle(tables, delivery, state)
        if state != SETTLED or delivery.dest.topic or not delivery.session.traits.awaits_receipt or copy.dead_letters:
            return
        applied = copy.dest.applied
        mortal = copy.send.mortal or gets_expiration(tables.declared)
        kept = applied.is_shared() and applied.keeps_dead_letter(persistent=copy.send.event.persistent, expired=mortal)
        taken = any(operation.t1 >= copy.send.event.t0 for operation in copy.dest.purges)
        if kept and not taken and not copy.dead_letter_due and not delivery.is_dead_letter:
            copy.dead_letter_due = True
            tables.rejected += 1
            note_volatile(tables, copy)

    def _meant(self, consumer: str, message: str) -> list[Delivery]:
        """Which deliveries a consumer may mean that names a message."""
        delivery = self._delivery(consumer, message)
        if delivery is None:
            return []
        session = delivery.session
        twins = message in session.twins
        return [one for one in session.deliveries if one.event.message == message] if twins else [delivery]

    def _discard(self, event: Discard) -> None:
        meant = self._meant(event.consumer, event.message)
        meant = [one for one in meant if one.state != SETTLED] or meant
        for delivery in meant:
            client = delivery.session.client
            if client.traits.widens_window and delivery is meant[-1]:
                delivery.session.freed_ns.append(event.t0)
            self._settled_by(delivery, event)
            # The broker may wait with the rest of its connection.
            sure = self._expired_ack_settles and not client.unanswered and len(meant) == 1
            settle(self.tables, delivery, SETTLED if sure else DOUBTFUL)

    def _acknowledge(self, event: Acknowledge) -> None:
        self.tables.acknowledges.append(event)
        session = self.tables.sessions.get(event.consumer)
        if session is not None:
            ledger = session.dest.ledger
            ledger.stirred = ledger.stirred or ledger.act is not None
            ledger.act = event
        for message in event.messages if event.type in {"expired", "poison"} else ():
            if meant := self._meant(event.consumer, message):
                call_dead(self.tables, event, meant)

    # -- operators, browsers, phases

    def _browse(self, event: Browse) -> None:
        tables = self.tables
        tables.browses.append(event)
        tables.destination(event.dest).browsed.append(event)
        looker = tables.lookers.get(event.consumer)
        if looker is not None:
            looker.shown += len(event.messages)
        for message in event.messages:
            send = self._row(message)
            if send is not None and send.seen is None:
                send.seen = event

    def _pause(self, event: Pause) -> None:
        self.tables.pauses.append(event)
        self.tables.marks.put(marks.PAUSE, "", (event.t0, event.t1 if event.t1 > event.t0 else NEVER))

    def _phase(self, event: Phase) -> None:
        self.tables.phases[event.name] = event
        self.tables.phase = event.name

"""Attachments: which hosts were connected, which consumers were attached, which subscriptions there were, which links
were silent, as an outside observer can know it. The half of the recording pass that is not about messages.

Rules
* What a session held, unsettled, goes back to its queue when it ends (``_end``).
* A session of a wildcard belongs to every destination that its pattern covers, those that are named later too.
* A durable subscription is its host's (whose client id never changes) and begins with the session that made it; it
  ends when it is unsubscribed, or when its name is used for another destination, selector or noLocal. From an end of
  unknown result on, and from a restart of a broker that need not remember, nobody knows whether it is there.
"""

from __future__ import annotations

from msgspec.structs import replace

from brokerproof.conformance.experiment import destinations as names
from brokerproof.conformance.experiment.history import (
    Closed,
    Connect,
    Event,
    Fault,
    Kill,
    Leave,
    Send,
    Start,
    Stop,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.experiment.policies import UNASKED
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.ledger import Browser
from brokerproof.conformance.facts.presence import ended_since, open_until
from brokerproof.conformance.facts.rows import DOUBTFUL, HELD, SETTLED, Client, Session, Subscription
from brokerproof.conformance.facts.settling import (
    come_back,
    expect_no_dead_letter,
    lose,
    no_longer_open,
    release,
    settle,
    spend,
)
from brokerproof.conformance.facts.spans import NEVER, touches
from brokerproof.conformance.facts.stalls import Stall
from brokerproof.conformance.facts.strains import note
from brokerproof.conformance.facts.tables import Tables, covers, looks_at
from brokerproof.conformance.facts.traits import traits_of


class Attachments:
    """Feed it events in order; it fills the tables."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        #: (host, name) -> the durable subscription; a subscription of that name may exist that nobody saw beginning.
        self._current: dict[tuple[str, str], Subscription] = {}
        self._doubted: dict[tuple[str, str], bool] = {}
        #: (host, name) of which a subscription has ended.
        self._ended: dict[tuple[str, str], bool] = {}

    # -- connections

    def connect(self, event: Connect) -> None:
        """A host tried to connect."""
        client = self.tables.client(event.host)
        self._connection_lost(client, event)
        client.via = event.via
        client.traits = traits_of(event)
        if client.traits.known and not self.tables.simulated and "numeric-selectors" in self.tables.header.capabilities:
            client.traits = replace(client.traits, keeps_numbers=True)
        client.connection += 1
        client.connects.append(event)
        if event.result == "ok":
            client.connected = True
            client.last_request_ns = event.t0
            client.last_heard_ns = event.t1

    def _connection_lost(self, client: Client, event: Event) -> None:
        """Its open transaction is rolled back, its temporary queue is gone, if it was still there."""
        client.goodbyes = []
        client.behind, client.unanswered = client.unanswered and not client.connected, False
        transaction = client.transaction
        if transaction is not None:
            transaction.lost = event
            commit = self.tables.commits.get(transaction.name)
            asked = transaction.end is not None or (commit is not None and commit.t0 <= event.t1)
            transaction.committed = None if asked else False
            client.transaction = None
            lose(self.tables, transaction)
            for send in transaction.sends:
                send.refused = send.refused or transaction.committed is False
                if send.event.result == "ok" and not asked:
                    no_longer_open(self.tables, send, sure=False)
        temporary = self.tables.destinations.get(self.tables.names.temporary_of(client.name))
        if temporary is not None:
            self.tables.marks.put(marks.OPERATOR, temporary.name, (event.t0, NEVER))
            temporary.ledger.restart()
            for copy in temporary.copies:
                release(self.tables, copy)

    def closed(self, event: Closed) -> None:
        """A connection ended, as seen at one end."""
        at_broker = event.host == self.tables.broker
        name = event.link if at_broker else event.host
        if name is None:
            return
        client = self.tables.client(name)
        client.closes.append(event)
        client.connected = False
        connection = client.connection
        client.connection += 1
        self._all_look_away(client, event, unread=client.unanswered and not at_broker)
        for session in list(client.open.values()):
            session.closed = event
            session.uncertain = True
            # A broker that reads no further does not notice; what it ends then may be a later connection.
            unread = (client.unanswered and not at_broker) or session.connection != connection
            if unread or (event.who == "unknown" and self._maybe_cut_short(client)):
                self._doubt(session, event)
                continue
            # Seen at the client's end only, the broker may have closed long before: bytes on their way hide it.
            low_ns = event.t0 if at_broker or event.who == "client" else open_until(self.tables, session)
            if at_broker and event.who == "broker" and not self.tables.simulated:
                # A process gives back what a connection held, and then closes it; a tap sees that later still.
                low_ns = min(low_ns, max(session.opened[0], client.last_heard_ns))
            self._end(session, "closed", low_ns, event.t1, event)
            if at_broker:
                session.gone_ns = event.t1
        self._connection_lost(client, event)

    def _maybe_cut_short(self, client: Client) -> bool:
        """Whether the network may have ended its connection in the midst of a request that the broker does not take: it
        reads no further, and does not notice.
        """
        limited = bool(client.resets) and client.resets[-1].fault == "limit"
        return self.tables.blocks and (client.unanswered or limited)

    def process(self, event: Start | Stop | Kill) -> None:
        """A process was started, stopped or killed."""
        if event.target == self.tables.broker:
            self._broker_down(event)
        elif not isinstance(event, Start):
            self._host_gone(self.tables.client(event.target), "kill", event)

    def _host_gone(self, client: Client, how: str, event: Event) -> None:
        client.ends.append(event)
        late = touches(client.busy, (event.t0, event.t1))
        self._all_look_away(client, event, unread=late or client.unanswered)
        connection = client.connection
        client.connection += 1
        client.connected = False
        for session in list(client.open.values()):
            # Of a connection before this nobody heard that the broker noticed its end.
            if late or client.unanswered or session.closed is not None or session.connection != connection:
                self._doubt(session, event)
            else:
                self._end(session, how, min(event.t0, client.refused_ns), event.t1, event)
        client.refused_ns = NEVER
        self._connection_lost(client, event)

    def _broker_down(self, event: Event) -> None:
        """All connections end, and what is not kept in a store."""
        tables = self.tables
        tables.restarts.append(event)
        tables.marks.put(marks.RESTART, "", (event.t0, event.t1))
        for client in tables.clients.values():
            client.connected = False
            client.connection += 1
            for session in list(client.open.values()):
                self._end(session, "broker", event.t0, event.t1, event)
                session.gone_ns = min(session.gone_ns, event.t1)
            self._connection_lost(client, event)
        tables.uncommitted.clear()
        tables.unsure.clear()
        tables.epoch.restart()
        for browser in tables.lookers.values():
            browser.left_ns, browser.leave = min(browser.left_ns, event.t0), event
        tables.lookers.clear()
        if not tables.declared.persistent:
            for key, subscription in self._current.items():
                subscription.sure_ns = min(subscription.sure_ns, event.t0)
                self._doubted[key] = True
        for dest in tables.destinations.values():
            dest.epoch.restart()
            dest.ledger.restart()
        for copy in tables.volatile:
            release(tables, copy)
            expect_no_dead_letter(tables, copy)
        tables.volatile = []

    # -- links

    def fault(self, event: Fault) -> None:
        """A clock, a link or the broker was disturbed."""
        if event.evidence is None:
            self.tables.unproved.setdefault(event.fault, event)
        if event.fault == "clock":
            self.tables.clock_steps.append(event)
            self.tables.clock(event.target or "").jump(event)
        elif event.fault == "restart":
            self._broker_down(event)
        elif event.fault in ("exhaust", "relieve"):
            note(self.tables.strains, self.tables.marks, event)
        elif event.link is not None and event.fault == "stall":
            client = self.tables.client(event.link)
            client.stall = Stall(event, client.last_request_ns, client.last_heard_ns)
            client.stalls.append(client.stall)
            for session in client.open.values():
                self._suspect(session, event.t0)
        elif event.link is not None and event.fault == "resume":
            client = self.tables.client(event.link)
            if client.stall is not None:
                client.stall.end, client.stall = event, None
        elif event.link is not None and event.fault in {"reset", "limit"}:
            self.tables.client(event.link).resets.append(event)

    def _suspect(self, session: Session, since_ns: int) -> None:
        """A link stalls that the broker watches: it may close it without anybody seeing it."""
        declared = self.tables.declared
        monitor, connector = declared.monitor.get(session.client.name), declared.connector
        watched = connector is not None and (connector.read_timeout_ms > 0 or connector.write_timeout_ms > 0)
        if watched or (monitor is not None and monitor.read_ms > 0):
            session.lost_ns = min(session.lost_ns, since_ns)
            session.client.suspected = True

    # -- sessions

    def subscribe(self, event: Subscribe) -> None:
        """A consumer or a browser attached, or may have."""
        tables = self.tables
        if event.result == "fail":
            unheard(tables, event)
            return
        client = tables.client(event.host)
        if event.result == "ok":
            heard(client, event)
        if event.browser:
            tables.browsers[event.consumer] = event
            # What a browser over a library of its own holds is that library's affair.
            holds = event.ack != "auto" and client.traits.awaits_receipt
            sure = event.result == "ok" and client.traits.awaits_receipt and not names.is_pattern(event.dest)
            browser = tables.lookers[event.consumer] = Browser(event, holds=holds, sure=sure)
            tables.browsings.append(browser)
            tables.destination(event.dest).epoch.touched += 1
            for dest in tables.destinations.values():
                dest.ledger.browsed += looks_at(event, dest)
                dest.ledger.stirred = dest.ledger.stirred or looks_at(event, dest)
            tables.epoch.touched += 1
            tables.marks.put(marks.BROWSER, event.dest, (event.t0, NEVER))
            return
        session = tables.sessions.get(event.consumer)
        if session is None:
            session = self.enlist(event.consumer, event.host, event.dest, event)
            if not session.known and client.behind:
                self._doubt(session, event)  # the broker may read it yet
            elif not client.connected and (not session.known or ended_since(client, event.t0)):
                self._end(session, "closed", event.t0, event.t1, event)  # before an answer came, or as it came
        elif session.event is None:
            self._describe(session, event)
        if session.selective:
            self._mark(session, session.selective)
        if session.event is event:
            self._subscription(session, event)

    def _describe(self, session: Session, event: Subscribe) -> None:
        """Messages had overtaken the receipt."""
        session.describe_by(event)
        if names.is_pattern(event.dest):
            session.dest.sessions.remove(session)
            session.dest.open.pop(session.name, None)
            session.dest = self.tables.destination(event.dest)
            session.dest.sessions.append(session)
            if not session.end:
                session.dest.open[session.name] = session
            self._spread(session)
        if not session.end:
            session.lost_ns = NEVER
        self._bound(session)
        if session.ack == "auto":
            for delivery in session.deliveries:
                if delivery.state == HELD:
                    settle(self.tables, delivery, SETTLED if session.auto else DOUBTFUL)

    def enlist(self, name: str, host: str, dest: str, event: Subscribe | None) -> Session:
        """A consumer is there; ``event`` None: nobody saw it subscribing."""
        client = self.tables.client(host)
        session = Session(name, client, self.tables.destination(dest), event)
        self.tables.sessions[name] = session
        session.dest.sessions.append(session)
        session.dest.open[name] = session
        client.open[name] = session
        self.tables.epoch.touched += 1
        session.dest.epoch.touched += 1
        self._bound(session)
        if names.is_pattern(dest):
            self._spread(session)
        return session

    def _bound(self, session: Session) -> None:
        unasked = session.event is not None and session.event.asked == UNASKED
        if unasked and not self.tables.promises("default-prefetch"):
            session.least = 1  # how much such a broker gives to who asks for no number is its own affair
        if not session.known:
            # It may never have existed, or have ended at any time without anybody seeing it.
            session.lost_ns = session.opened[0]
        elif session.client.stall is not None:
            self._suspect(session, session.opened[0])

    def _spread(self, session: Session) -> None:
        """A session of a wildcard is one of every destination's."""
        session.wild = True
        self.tables.wild.append(session)
        for dest in self.tables.destinations.values():
            if covers(session, dest):
                dest.sessions.append(session)
                dest.epoch.touched += 1
        self._mark(session, marks.WILDCARD)

    def _mark(self, session: Session, kind: int) -> None:
        """On every destination that it may consume from, from its coming on: what it took may come back later."""
        span = (session.opened[0], NEVER)
        if not session.wild:
            self.tables.marks.put(kind, session.dest.name, span)
            return
        for dest in self.tables.destinations.values():
            if session in dest.sessions:
                self.tables.marks.put(kind, dest.name, span)

    def leave(self, event: Leave) -> None:
        """A consumer said goodbye, or its host vanished."""
        if event.consumer is None:
            self._host_gone(self.tables.client(event.host), event.how, event)
            return
        if event.consumer in self.tables.lookers:
            unread = event.result != "ok" or self.tables.client(event.host).unanswered
            self._look_away(event.consumer, event, unread=unread)
        if (session := self.tables.sessions.get(event.consumer)) is None:
            return
        client = session.client
        if event.result == "fail" or client.unanswered or touches(client.uploads, (event.t0, event.t1)):
            self._doubt(session, event)
        elif session.end and event.t0 < session.ended_ns:
            session.known = False  # its goodbye met the end of its connection: nobody knows which of them counts
        else:
            self._end(session, event.how, event.t0, event.t1, event)

    def _look_away(self, name: str, event: Event, *, unread: bool) -> None:
        """A browser left. ``unread``: the broker may not have noticed."""
        browser = self.tables.lookers[name]
        browser.left_ns = min(browser.left_ns, event.t0)
        if unread:
            browser.sure = False
            return
        browser.leave = event
        del self.tables.lookers[name]
        self.tables.destination(browser.event.dest).ledger.shown += browser.shown

    def _all_look_away(self, client: Client, event: Event, *, unread: bool) -> None:
        """A connection ended: with it its browsers; of those of one before nobody heard that the broker noticed."""
        for name, begin in [(name, browser.event) for name, browser in self.tables.lookers.items()]:
            if begin.host == client.name:
                earlier = any(one.t0 >= begin.t0 for one in client.connects[-1:])
                self._look_away(name, event, unread=unread or earlier)

    def _doubt(self, session: Session, event: Event) -> None:
        """It may have ended: its goodbye was refused, or stands behind what the broker or a slow link has not taken."""
        session.known = False
        session.lost_ns = min(session.lost_ns, event.t0)
        for dest in self.tables.dests_of(session):
            dest.ledger.stirred = True
        self._spend(session)

    def _end(self, session: Session, how: str, low_ns: int, high_ns: int, event: Event) -> None:
        """It is gone from ``low_ns`` on, or the broker will come to think so; what it held goes back."""
        session.lost_ns = min(session.lost_ns, low_ns)
        if session.end:
            return
        session.end, session.leave = how, event
        session.end_connection = session.client.connection
        session.ended_ns = high_ns
        for dest in self.tables.dests_of(session):
            dest.ended += 1
            dest.ledger.departed += 1
            dest.ledger.stirred = True
        session.dest.open.pop(session.name, None)
        session.client.open.pop(session.name, None)
        session.held = session.doubted = session.undone = 0
        if how == "close":
            session.client.goodbyes.append(session)
        for delivery in session.deliveries:
            come_back(self.tables, delivery)
        self._spend(session)

    def _spend(self, session: Session) -> None:
        """What it had, or was on its way to it unseen, failed once more."""
        for dest in self.tables.dests_of(session) if self.tables.redeliveries_max < NEVER else ():
            moved = [one.copy for other in dest.sessions for one in other.deliveries if one.copy.dest is not dest]
            for copy in [*dest.copies, *moved]:
                if not copy.rejected:
                    spend(self.tables, copy)

    # -- subscriptions

    def _subscription(self, session: Session, event: Subscribe) -> None:
        """Whose copies it gets: its own, or a durable subscription's."""
        dest = session.dest
        if not event.durable:
            if dest.topic:
                session.subscription = Subscription(session.name, session.client, event, doubtful=not session.known)
                for delivery in session.deliveries:
                    delivery.copy.subscription = session.subscription
                session.subscription.sessions.append(session)
                dest.subscriptions.append(session.subscription)
                self.tables.subscriptions.append(session.subscription)
            return
        key = (event.host, event.durable)
        known = event.result == "ok"
        found = self._current.get(key)
        if found is None or not _is_same(found, event):
            known = known and (found is None or self.tables.promises("jms-semantics"))  # else it may be the same
            if found is not None:
                self._ended[key] = True
                found.end, found.ended = event, True
                found.sure_ns = min(found.sure_ns, event.t0)
            name = f"{event.host}:{event.durable}:{len(self.tables.subscriptions)}"
            found = Subscription(name, session.client, event, doubtful=not known or key in self._doubted)
            found.again = key in self._ended
            self._current[key] = found
            dest.subscriptions.append(found)
            self.tables.subscriptions.append(found)
            if not known:
                self._doubted[key] = True
            else:
                self._doubted.pop(key, None)
        session.subscription = found
        found.sessions.append(session)
        for delivery in session.deliveries:  # they had overtaken the receipt
            copy = delivery.copy
            if copy.subscription is None and copy.holder == session.name:
                copy.subscription, copy.holder = found, found.name
                copy.send.copies[found.name] = copy.send.copies.pop(session.name)

    def unsubscribe(self, event: Unsubscribe) -> None:
        """A durable subscription was ended, or may have been."""
        self.tables.durable_ends.append(event)
        key = (event.host, event.durable)
        found = self._current.get(key)
        if event.result == "ok":
            self._doubted.pop(key, None)
            if found is not None:
                self._ended[key] = True
                found.end, found.ended = event, True
                found.sure_ns = min(found.sure_ns, event.t0)
                del self._current[key]
        elif event.result == "unknown" and found is not None:
            found.sure_ns = min(found.sure_ns, event.t0)
            self._doubted[key] = True


def unheard(tables: Tables, event: Send | Subscribe) -> None:
    """A request was refused, which may be the end of its connection, or not answered: then, too, if its link stalls."""
    client = tables.client(event.host)
    if event.result == "fail":
        client.refused_ns = min(client.refused_ns, event.t0)
        return
    client.unanswered = client.unanswered or tables.blocks
    if client.stall is not None:
        client.suspected = True
        for session in client.open.values():
            session.lost_ns = min(session.lost_ns, event.t0)


def heard(client: Client, event: Event) -> None:
    """The broker confirmed a request: it had read what was written before on this connection, goodbyes too, and had not
    closed it when the request was written.
    """
    client.last_request_ns = event.t0
    client.last_heard_ns = event.t1
    client.refused_ns = NEVER
    client.unanswered = client.unanswered_ns > event.t1
    if not client.traits.awaits_receipt:
        return
    if client.suspected and client.stalls[-1].span()[1] <= event.t0:
        client.suspected = False
        for session in client.open.values():
            session.lost_ns = NEVER if session.known else session.lost_ns
    if client.goodbyes:
        for session in client.goodbyes:
            if session.leave is not None and session.leave.t0 <= event.t0:
                session.gone_ns = min(session.gone_ns, event.t1)
        client.goodbyes = [session for session in client.goodbyes if session.gone_ns == NEVER]


def _is_same(subscription: Subscription, event: Subscribe) -> bool:
    """Whether a session takes this subscription up again."""
    begin = subscription.begin
    same = begin is not None and (begin.dest, begin.selector, begin.no_local)
    return same == (event.dest, event.selector, event.no_local)

"""Inactivity monitors: judges INA-001 to -008, -012, -018, -020 and -021 from stalls, closes, and what links survived.

Model (seed 001). Each end closes a connection on which nothing arrived for a while; keep-alives see to it that on a
healthy link something always arrives. The windows of each generation, and how the time of the last byte is bounded,
are in ``silence.py``.

Events: ``connect``, ``closed`` (preferably at the broker's end, with ``idle_ns``), ``leave``, ``fault`` stall and
resume with evidence; and what the books follow.

Analyses, per connection with a declared monitor:

1. INA-001: the broker closes it too early or too late for any instant of the last byte, or never, though nothing can
   have reached it. ``idle_ns`` of the broker's end narrows the last byte where it agrees with the stall; without it
   the claim may stay undecided. "Never" needs a rest after the stall: by then a close would have been seen.
2. INA-002: it is closed for inactivity, at either end, though no stall touched that direction.
3. INA-003: a link without monitor is closed for inactivity.
4. INA-004: it is closed though all silence together was too short; it survives such a stall.
5. INA-005: what a consumer held, unsettled, when its connection was closed for inactivity arrives again (or is
   dead-lettered, or expires).
6. INA-006: as INA-001, at the client's end, for what is stalled toward the client. Its library may follow either
   generation.
7. INA-007: a stall that began before the initial delay was over is noticed all the same.
8. INA-008: on a link whose broker was told to offer something of its own, 1, 3, 4, 6 and 7 hold for the shorter of the
   two offers, each value by itself, and without a monitor if either offered none.
9. INA-018: where several links have monitors, 1, 4, 6 and 7 hold for each of them, and one at least was closed in time.
10. INA-020: where the broker's or the client's clock stepped, 1, 2, 4, 6 and 7 hold all the same.
11. INA-021: the broker's process stood still, and afterwards did not close a link that nothing stalled.
12. INA-012: a large message was on its way to the broker, over a link that nothing stalled, when the broker closed it;
   it survives if it took longer than the limit.

Not checked: brokers whose own end is told to watch otherwise than by what was agreed (``connector``: ``visits.py``
judges those); connections of paused processes and of brokers that were restarted; closes that give no reason; health
over STOMP with the classic generation, which may close healthy links; anything while two ends race (the other end
left before the deadline).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.configuration import ConnectorSpec
from brokerproof.conformance.experiment.history import Closed, Pause
from brokerproof.conformance.oracles.base import Claim
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import NEVER, RETURNED, Host
from brokerproof.conformance.oracles.silence import Connection, Silence, Terms, connections_of, is_inactivity

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import MonitorSpec

#: A link without monitor proves something only when it was silent for so long.
SILENT_NS = 1_000_000_000
#: Messages of this size may take long.
LARGE_BYTES = 64 * 1024
#: What shows which periods two ends agreed on.
WINDOWS = ("INA-001", "INA-003", "INA-004", "INA-006", "INA-007")
#: Outcome of what holds under another name as well.
MIRRORED = {"INA-008": "the-shorter", "INA-018": "independent", "INA-020": "unmoved"}


class InactivityOracle(BookOracle):
    """The claims about silent links."""

    name = "inactivity"
    requirements = (
        "INA-001",
        "INA-002",
        "INA-003",
        "INA-004",
        "INA-005",
        "INA-006",
        "INA-007",
        "INA-008",
        "INA-012",
        "INA-018",
        "INA-020",
        "INA-021",
    )
    faults = ("stall",)

    def judge(self) -> None:
        books = self.books
        if books.paused:
            self._stood_still()
        if books.paused or books.restarted:
            return
        self._cleaned_up()
        declared = books.header.declared
        connector = declared.connector or ConnectorSpec()
        if not connector.use_monitor or not connector.use_keep_alive or connector.heart_beat_grace > 1:
            return
        watched = {name for name, monitor in declared.monitor.items() if monitor.read_ms > 0}
        generation = declared.generation.get("monitor", "documented" if books.simulated else "")
        for host in books.hosts.values():
            monitor = declared.monitor.get(host.name)
            if declared.monitor_offer is not None and host.via == "jms":
                offer = declared.monitor_offer
                told = f"the broker offered {offer.read_ms} and {offer.initial_delay_ms} ms; "
                self._mirror("INA-008", host, monitor, generation, told)
            if monitor is not None and sum(1 for other in books.hosts.values() if other.name in watched) > 1:
                self._mirror("INA-018", host, monitor, generation, "beside other links with monitors ")
            steps = [step for step in books.steps if step.target in {host.name, books.broker}]
            if monitor is not None and steps:
                self._mirror("INA-020", host, monitor, generation, f"a clock stepped at {ms(steps[0].t1)}; ")
            self._judge_host(host, monitor, generation)

    def _judge_host(self, host: Host, monitor: MonitorSpec | None, generation: str) -> None:
        books = self.books
        if monitor is None or monitor.read_ms <= 0:
            self._unmonitored(host)
            return
        broker = Terms(monitor.read_ms, monitor.initial_delay_ms, generation, host.via, books.simulated)
        client = Terms(
            monitor.read_ms,
            monitor.initial_delay_ms,
            generation if books.simulated else "",
            host.via,
            books.simulated,
        )
        for connection in connections_of(books, host):
            self._healthy(connection, broker, client)
            self._broker_end(connection, broker)
            self._slow_frames(connection, broker)
            self._client_end(connection, client)

    def _mirror(self, requirement: str, host: Host, monitor: MonitorSpec | None, generation: str, prefix: str) -> None:
        """INA-008, INA-018, INA-020: all that is judged of such a link, once more under another name."""
        whole = self.claims
        self.claims = {name: Claim(name) for name in whole}
        self._judge_host(host, monitor, generation)
        found, self.claims = self.claims, whole
        claim = whole[requirement]
        for name in (*WINDOWS, "INA-002") if requirement == "INA-020" else WINDOWS:
            one = found[name]
            if one.violated:
                claim.fail(f"{prefix}{one.text}", one.witness, outcome="other", slack_ns=one.violated_slack_ns)
            elif one.exercised and not one.unsure_text and (requirement != "INA-018" or name == "INA-001"):
                claim.hold(self._mirrored(requirement, name, monitor), outcome=MIRRORED[requirement])

    def _mirrored(self, requirement: str, name: str, monitor: MonitorSpec | None) -> str:
        if requirement == "INA-020":
            return "a healthy link" if name == "INA-002" else "a silent link"
        return "no monitor" if monitor is None else "a monitor"

    # -- INA-021

    def _stood_still(self) -> None:
        """The broker's process was stopped and went on; nobody else's was."""
        books = self.books
        pauses = books.pauses
        declared = books.header.declared
        if books.restarted or declared.connector is not None or any(one.target != books.broker for one in pauses):
            return
        generation = declared.generation.get("monitor", "documented" if books.simulated else "")
        for host in books.hosts.values():
            monitor = declared.monitor.get(host.name)
            if monitor is None or monitor.read_ms <= 0:
                continue
            terms = Terms(monitor.read_ms, monitor.initial_delay_ms, generation, host.via, books.simulated)
            for connection in connections_of(books, host):
                if terms.watches_health() and not connection.silences("broker", terms):
                    self._outlived(connection, terms, pauses)

    def _outlived(self, connection: Connection, terms: Terms, pauses: list[Pause]) -> None:
        claim = self.claims["INA-021"]
        close = connection.broker_close
        for pause in pauses:
            if connection.connect.t1 > pause.t0 or connection.end_ns < pause.t0:
                continue
            if close is not None and close.t1 >= pause.t0:
                text = (
                    f"the broker stood still from {ms(pause.t0)} to {ms(pause.t1)}, and closed the link of "
                    f"{connection.host.name} at {ms(close.t1)} ({close.reason}), which nothing had stalled"
                )
                claim.fail(text, [connection.connect.seq, pause.seq, close.seq], outcome="closed")
            elif connection.end_ns != NEVER and connection.end_ns > pause.t1 + terms.delay_ns + terms.high_ns:
                longer = pause.t1 - pause.t0 > terms.high_ns
                claim.hold("longer than the limit" if longer else "no longer than the limit", outcome="stays-open")

    # -- INA-002, INA-003

    def _healthy(self, connection: Connection, broker: Terms, client: Terms) -> None:
        claim = self.claims["INA-002"]
        for terms, toward, close in (
            (broker, "broker", connection.broker_close),
            (client, "client", connection.client_close),
        ):
            if not terms.watches_health() or connection.silences(toward, terms):
                continue
            if close is not None:
                text = (
                    f"the link of {connection.host.name} was closed by the {toward} at {ms(close.t1)} "
                    f"({close.reason}), though nothing was stalled toward the {toward} since the handshake "
                    f"at {ms(connection.connect.t1)}"
                )
                claim.fail(text, [connection.connect.seq, close.seq], outcome="closed")
            elif (
                connection.end_ns != NEVER
                and connection.end_ns - connection.connect.t1 > terms.delay_ns + terms.high_ns
            ):
                claim.hold(f"a link outlived the limit of the {toward}", outcome="stays-open")

    def _unmonitored(self, host: Host) -> None:
        claim = self.claims["INA-003"]
        for event in host.closes:
            if is_inactivity(event):
                text = f"the link of {host.name} has no monitor, and was closed at {ms(event.t1)}: {event.reason}"
                claim.fail(text, [event.seq], outcome="closed")
                return
        for stall in host.stalls:
            if stall.end is not None and stall.end.t0 - stall.begin.t1 >= SILENT_NS:
                claim.hold("the link was stalled for a second or longer", outcome="stays-open")

    # -- INA-001, INA-004, INA-007

    def _broker_end(self, connection: Connection, terms: Terms) -> None:
        close = connection.broker_close
        silences = connection.silences("broker", terms)
        for index, silence in enumerate(silences):
            if close is None or index < len(silences) - 1:
                self._survived(connection, silence, terms)
                continue
            self._closed_after(connection, silence, terms, close)
            if silence.resumed_ns >= close.t0:
                self._window("INA-001", connection, silence, terms, close)
                if silence.in_delay:
                    self.claims["INA-007"].hold(self._situation(silence, close.t1), outcome="noticed")

    def _longest(self, connection: Connection, silence: Silence, terms: Terms) -> int:
        """Upper bound of a silence that was lifted: what was held arrives at once, else the next keep-alive does."""
        over_ns = max(silence.resumed_ns + connection.latency_ns + terms.late_ns, silence.high_ns + terms.gap_ns)
        return over_ns - silence.low_ns

    def _survived(self, connection: Connection, silence: Silence, terms: Terms) -> None:
        """The broker has not closed because of this silence: right if it was short, wrong if it was long enough."""
        deadline_ns = silence.high_ns + terms.high_ns + terms.late_ns
        if silence.end_ns < deadline_ns:
            short = self._longest(connection, silence, terms) < terms.low_ns
            if short and silence.resumed_ns < connection.end_ns:
                self.claims["INA-004"].hold("the stall was shorter than the limit", outcome="stays-open")
            return
        close = connection.client_close
        if connection.left_ns < deadline_ns or (close is not None and close.t0 < deadline_ns):
            return
        if silence.resumed_ns == NEVER or self.ask.rest_after(silence.resumed_ns) == NEVER:
            return  # a close may be on its way still
        text = (
            f"nothing can have reached the broker from {connection.host.name} since {ms(silence.high_ns)}; it had to "
            f"close the link by {ms(deadline_ns)}, and had not when the stall was lifted at {ms(silence.resumed_ns)}"
        )
        slack_ns = deadline_ns - silence.end_ns
        witness = [connection.connect.seq, *silence.seqs]
        self.claims["INA-001"].fail(text, witness, outcome="never", slack_ns=slack_ns)
        if silence.in_delay:
            self.claims["INA-007"].fail(text, witness, outcome="unnoticed")

    def _closed_after(self, connection: Connection, silence: Silence, terms: Terms, close: Closed) -> None:
        """The broker closed, during or after this silence: wrong if it was short, or over."""
        longest_ns = self._longest(connection, silence, terms)
        flowing_ns = silence.low_ns + longest_ns
        witness = [*silence.seqs, close.seq]
        closed = f"the link of {connection.host.name} was closed by the broker at {ms(close.t1)}"
        if longest_ns < terms.low_ns - terms.early_ns:
            text = f"{closed}, though bytes were missing for {ms(longest_ns)} at most; the limit is {ms(terms.low_ns)}"
            slack_ns = longest_ns - terms.low_ns
            self.claims["INA-004"].fail(text, witness, outcome="closed", slack_ns=slack_ns)
        elif close.host == self.books.broker and close.t0 > flowing_ns + terms.late_ns and terms.watches_health():
            text = f"{closed}, though it had been flowing again since {ms(flowing_ns)} at the latest"
            self.claims["INA-002"].fail(text, witness, outcome="closed")

    def _window(self, requirement: str, connection: Connection, silence: Silence, terms: Terms, close: Closed) -> None:
        """A close while the stall lasted: neither too early nor too late after the monitor's count began."""
        byte_low = silence.byte_low_ns
        byte_high = silence.byte_high_ns
        t0 = close.t0
        end = "client" if requirement == "INA-006" else "broker"
        own = close.host == (connection.host.name if end == "client" else self.books.broker)
        if not own:
            t0 -= connection.latency_ns + terms.late_ns
        elif (
            close.idle_ns is not None and byte_low <= close.t1 - close.idle_ns and close.t0 - close.idle_ns <= byte_high
        ):
            # What this end says of its last byte agrees with the stall: take it.
            byte_low = max(byte_low, close.t0 - close.idle_ns)
            byte_high = min(byte_high, close.t1 - close.idle_ns)
        low_ns = max(byte_low, silence.base_low_ns)
        high_ns = max(byte_high, silence.base_high_ns)
        claim = self.claims[requirement]
        text = (
            f"the {end} closed the link of {connection.host.name} at {ms(close.t1)}; its count began between "
            f"{ms(low_ns)} and {ms(high_ns)}, so the close was due from {ms(low_ns + terms.low_ns)} "
            f"to {ms(high_ns + terms.high_ns)}"
        )
        witness = [connection.connect.seq, *silence.seqs, close.seq]
        early_ns = close.t1 - low_ns - terms.low_ns
        late_ns = high_ns + terms.high_ns - t0
        # The handshake is an interval: the delay ends no earlier than after its begin, no later than after its end.
        sure_early_ns = t0 - max(byte_high, silence.base_low_ns) - terms.low_ns
        sure_late_ns = max(byte_low, silence.base_high_ns) + terms.high_ns - close.t1
        if early_ns < -terms.early_ns:
            claim.fail(f"too early: {text}", witness, outcome="early", slack_ns=early_ns)
        elif not own and silence.veiled:
            return  # when it happened is hidden by the stall
        elif late_ns < -terms.late_ns:
            claim.fail(f"too late: {text}", witness, outcome="late", slack_ns=late_ns)
        elif sure_early_ns >= -terms.early_ns and sure_late_ns >= -terms.late_ns:
            slack_ns = min(sure_early_ns, sure_late_ns)
            claim.hold(self._situation(silence, close.t1), slack_ns=slack_ns, outcome="in-time")
        else:
            claim.doubt(text, witness, byte_high - byte_low + close.t1 - t0)

    def _situation(self, silence: Silence, until_ns: int) -> str:
        if any(silence.begin_ns <= step.t1 <= until_ns for step in self.books.steps):
            return "a clock stepped during the silence"
        return "the stall began during the initial delay" if silence.in_delay else "the stall began on a running link"

    # -- INA-012

    def _slow_frames(self, connection: Connection, terms: Terms) -> None:
        if not terms.watches_health() or connection.silences("broker", terms):
            return
        close = connection.broker_close
        claim = self.claims["INA-012"]
        for message in self.books.messages.values():
            send = message.send
            if send is None or send.host != connection.host.name or send.size < LARGE_BYTES:
                continue
            if not connection.connect.t1 <= send.t0 < connection.end_ns:
                continue
            if close is not None and send.t0 <= close.t1 <= send.t1:
                text = (
                    f"{send.message} ({send.size} bytes) had been on its way from {send.host} to the broker since "
                    f"{ms(send.t0)}, over a link that nothing stalled; the broker closed it at {ms(close.t1)} "
                    f"({close.reason})"
                )
                claim.fail(text, [connection.connect.seq, send.seq, close.seq], outcome="cut-off")
            elif send.result == "ok" and send.t1 - send.t0 > terms.delay_ns + terms.high_ns:
                claim.hold("a message took longer than the limit", outcome="survives")

    # -- INA-006

    def _client_end(self, connection: Connection, terms: Terms) -> None:
        close = connection.client_close
        for silence in connection.silences("client", terms):
            if close is not None and silence.begin_ns <= close.t1 <= silence.end_ns:
                self._window("INA-006", connection, silence, terms, close)
                return
            deadline_ns = silence.high_ns + terms.high_ns + terms.late_ns
            gone_ns = min(connection.left_ns, close.t0 if close is not None else NEVER)
            if deadline_ns <= silence.end_ns < NEVER and gone_ns > deadline_ns:
                text = (
                    f"nothing can have reached {connection.host.name} since {ms(silence.high_ns)}; its library had to "
                    f"close the link by {ms(deadline_ns)}, and had not when the stall ended at {ms(silence.end_ns)}"
                )
                witness = [connection.connect.seq, *silence.seqs]
                slack_ns = deadline_ns - silence.end_ns
                self.claims["INA-006"].fail(text, witness, outcome="never", slack_ns=slack_ns)

    # -- INA-005

    def _cleaned_up(self) -> None:
        claim = self.claims["INA-005"]
        for consumer in self.books.consumers.values():
            close = consumer.close
            if close is None or not is_inactivity(close) or consumer.queue.topic or not consumer.known:
                continue
            for passage in consumer.passages:
                message = passage.message
                if passage.fate != RETURNED or passage.settle is not None:
                    continue
                if message.dead or message.passages[-1] is not passage:
                    claim.hold("the consumer had been given it" if passage.consumed else "", outcome="given-to-others")
                elif self.ask.missing(message):
                    text = (
                        f"{message.name} was held by {consumer.name} when its link was closed for inactivity at "
                        f"{ms(close.t1)}, and was never seen again"
                    )
                    claim.fail(text, [passage.event.seq, close.seq], outcome="stuck")

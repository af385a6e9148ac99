"""Oracle: waits and lives where the other folds are silent, because browsers, restarts or transactions take part
(DLY-010, DLY-023, DLY-024, EXP-022). It keeps a small account of its own.

Analyses:

1. DLY-010: a browser is not shown a message before it can be due, ``send.t0 + D``.
2. DLY-023: a persistent message whose wait a restart of the broker interrupted arrives, not before it can be due (where
   no clock of the broker's jumped), and within the lateness after it was due where a consumer waited for it.
3. DLY-024: one that became due for certain while the broker was down arrives within the lateness after a consumer came.
4. EXP-022: a message that was dead for certain from the commit of its transaction on reaches nobody.

Not checked: in 2 and 3 messages with a time to live, topics, destinations with consumers that settle unseen or choose,
runs with stalls, small memory limits or an operator's operations, and lateness after a consumer left; relative lives
and time-stamping brokers in 4. Must change together: delay.toml, expiry.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import (
    Arrive,
    Browse,
    ClockSample,
    Closed,
    Commit,
    Event,
    Fault,
    Header,
    Leave,
    Operate,
    Phase,
    Send,
    Subscribe,
)
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.dial import NS_PER_MS, Dial
from brokerproof.conformance.oracles.lens import is_choosy

if TYPE_CHECKING:
    from brokerproof.conformance.oracles.wall import WallClocks

#: The worst rate error of a wall clock: what is left of a delay is computed from stored wall times.
RATE_PPM = 200
#: Memory limits from here on play no part.
ROOMY = 16 * 1024 * 1024


class UnseenOracle(Oracle):
    """See the module's header."""

    name = "unseen"
    requirements = ("DLY-010", "DLY-023", "DLY-024", "EXP-022")
    kinds = (
        "send",
        "arrive",
        "browse",
        "commit",
        "subscribe",
        "operate",
        "fault",
        "clock_sample",
        "phase",
        "leave",
        "closed",
    )
    faults = ("clock", "stall")

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._header = Header("", "")
        self._dial = Dial(clocks, "")
        self._sends: list[Send] = []
        #: Message -> its arrivals, dead letters included.
        self._arrivals: dict[str, list[Arrive]] = {}
        self._browses: list[Browse] = []
        self._commits: dict[tuple[str, str], Commit] = {}
        self._subscribes: dict[str, list[Subscribe]] = {}
        self._restarts: list[Fault] = []
        self._leaves: list[Event] = []
        #: Something interferes that is not followed.
        self._disturbed = False
        self._end_ns: int | None = None

    def start(self, header: Header) -> None:
        self._header = header
        self._dial = Dial(self.clocks, header.broker_host)

    def feed(self, event: Event) -> None:
        if isinstance(event, Send):
            if event.delay_ms or (event.tx is not None and event.expiration_ms > 0):
                self._sends.append(event)
        elif isinstance(event, Arrive):
            self._arrivals.setdefault(event.message, []).append(event)
        elif isinstance(event, ClockSample):
            if event.host == self._dial.host:
                self._dial.sample(event)
        elif isinstance(event, Browse):
            self._browses.append(event)
        elif isinstance(event, Commit):
            self._commits[event.host, event.tx] = event
        elif isinstance(event, Subscribe):
            self._subscribes.setdefault(event.dest, []).append(event)
        else:
            self._feed_rare(event)

    def _feed_rare(self, event: Event) -> None:
        if isinstance(event, Operate):
            self._disturbed = True
        elif isinstance(event, Fault):
            self._disturbed = self._disturbed or event.fault == "stall"
            if event.fault == "restart":
                self._restarts.append(event)
            elif event.fault == "clock" and event.target == self._dial.host:
                self._dial.fault(event)
        elif isinstance(event, Leave | Closed):
            self._leaves.append(event)
        elif isinstance(event, Phase) and event.name == "end":
            self._end_ns = event.t1

    def conclude(self) -> None:
        for send in self._sends:
            if send.result != "ok":
                continue
            if send.tx is not None:
                self._judge_commit(send)
            elif not is_topic(send.dest) and send.delay_ms:
                self._judge_browsers(send)
                if self._restarts and self._is_followed(send):
                    self._judge_restart(send)

    # -- browsers

    def _judge_browsers(self, send: Send) -> None:
        """DLY-010."""
        claim = self.claims["DLY-010"]
        due_ns = send.t0 + send.delay_ms * NS_PER_MS
        for browse in self._browses:
            if browse.dest != send.dest or browse.t0 <= send.t1:
                continue
            shown = send.message in browse.messages
            if shown and browse.t1 < due_ns and not self._restarts:
                claim.fail(
                    f"{send.message} was sent with a delay of {send.delay_ms} ms; a browser was shown it "
                    f"{(due_ns - browse.t1) / NS_PER_MS:.3f} ms before it can have been due",
                    [send.seq, browse.seq],
                    outcome="shown-early",
                    slack_ns=browse.t1 - due_ns,
                )
            elif shown and browse.t0 > send.t1 + send.delay_ms * NS_PER_MS:
                claim.hold("looked at after its delivery time", outcome="shown-when-due")
            elif not shown and browse.complete and browse.t1 < due_ns:
                claim.hold("looked for before its delivery time", outcome="shown-when-due")

    # -- restarts

    def _is_followed(self, send: Send) -> bool:
        if self._disturbed or not send.persistent or send.mortal() or send.group or send.dest == DEAD_LETTERS:
            return False
        declared = self._header.declared
        limits = [declared.memory_limit_bytes, *(entry.memory_limit_bytes for entry in declared.destinations)]
        if (
            not declared.persistent
            or declared.timestamping is not None
            or any(limit and limit < ROOMY for limit in limits)
        ):
            return False
        patterns = self._subscribes.get("q*")
        return not patterns and not any(
            event.ack == "auto" or (not event.browser and is_choosy(event))
            for event in self._subscribes.get(send.dest, [])
        )

    def _judge_restart(self, send: Send) -> None:
        """DLY-023, DLY-024."""
        due_low = send.t0 + send.delay_ms * NS_PER_MS
        due_high = send.t1 + send.delay_ms * NS_PER_MS
        down = [fault for fault in self._restarts if send.t1 < fault.t0 < due_low]
        if not down:
            return
        missed = next((fault for fault in down if due_high <= fault.t1), None)
        claim = self.claims["DLY-023" if missed is None else "DLY-024"]
        asked = f"{send.message} was sent with a delay of {send.delay_ms} ms"
        told = f"{asked}; the broker was {_how(down[-1])} while it waited"
        witness = [send.seq, *(fault.seq for fault in down)]
        arrivals = self._arrivals.get(send.message, [])
        lateness_ns = self._header.declared.lateness_ms * NS_PER_MS
        if not arrivals:
            if self._end_ns is not None and due_high + lateness_ns < self._end_ns and self._drained(send.dest):
                claim.fail(f"{told}, and it was never seen again", witness, outcome="lost")
            return
        first = arrivals[0]
        if self._dial.known and self._dial.jump_between(send.t0, first.t1):
            return
        slack_ns = send.delay_ms * NS_PER_MS * RATE_PPM // 1_000_000
        if first.t1 < due_low - slack_ns:
            claim.fail(
                f"{told}; it arrived {(due_low - first.t1) / NS_PER_MS:.3f} ms before it can have been due",
                [*witness, first.seq],
                outcome="early",
                slack_ns=first.t1 - due_low,
            )
            return
        ready_ns = max(due_high, down[-1].t1, self._waited_since(send, down[-1]))
        left = any(leave.t1 > down[-1].t1 and leave.t0 < first.t0 for leave in self._leaves)
        if first.t0 > ready_ns + lateness_ns + slack_ns and not left and not self._crowded(send.dest):
            claim.fail(
                f"{told}; it arrived {(first.t0 - ready_ns) / NS_PER_MS:.3f} ms after it was due and somebody waited",
                [*witness, first.seq],
                outcome="late",
                slack_ns=ready_ns + lateness_ns - first.t0,
            )
        elif first.t0 <= ready_ns + lateness_ns:
            claim.hold(f"the broker was {_how(down[-1])}", outcome="in-time")

    def _waited_since(self, send: Send, restart: Fault) -> int:
        """When a consumer came for certain after the restart; the end of the run if none did."""
        came = [event.t1 for event in self._subscribes.get(send.dest, []) if event.t0 > restart.t1 and _takes(event)]
        return min(came) if came else (self._end_ns or send.t1)

    def _crowded(self, dest: str) -> bool:
        """Whether a window may have been full, or a consumer have left: more than one came, or it wanted little."""
        came = [event for event in self._subscribes.get(dest, []) if not event.browser]
        return any(event.prefetch < len(self._arrivals) for event in came)

    def _drained(self, dest: str) -> bool:
        return any(_takes(event) and event.t0 > self._restarts[-1].t1 for event in self._subscribes.get(dest, []))

    # -- transactions

    def _judge_commit(self, send: Send) -> None:
        """EXP-022."""
        commit = self._commits.get((send.host, send.tx or ""))
        if commit is None or commit.result != "ok" or not self._dial.known or self._end_ns is None:
            return
        if send.expiration_ms <= 0 or self._header.declared.timestamping is not None or self._restarts:
            return
        low_ns, _ = self._dial.bounds_ns(commit.t0, self._end_ns, commit.seq)
        if low_ns // NS_PER_MS <= send.expiration_ms:
            return
        claim = self.claims["EXP-022"]
        got = next((a for a in self._arrivals.get(send.message, []) if a.dest != DEAD_LETTERS), None)
        if got is None:
            claim.hold("it died before the commit", outcome="to-nobody")
            return
        claim.fail(
            f"{send.message} was sent in {send.tx} with expiration {send.expiration_ms}, and the broker's clock read "
            f"{low_ns // NS_PER_MS} or more from the commit on; {got.consumer} got it",
            [send.seq, commit.seq, got.seq],
            outcome="delivered",
        )


def _takes(event: Subscribe) -> bool:
    return event.result == "ok" and not event.browser and event.prefetch > 0


def _how(restart: Fault) -> str:
    return "killed" if restart.how == "kill" else "stopped"

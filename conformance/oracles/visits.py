"""Visits: judges INA-009 to -011, -013 to -017, -019 and -022 to -025 from what strangers saw of the broker.

Model (seed 001). A stranger says what it is told to, and then nothing. The agreement between it and the broker follows
from its own offer, from what the broker declares (OpenWire) or answers (STOMP), and from the broker's connector;
``terms.py`` has the windows of each generation. Each visit is judged by itself.

Events: ``visit``.

Analyses, per visit:

1. INA-014: nothing that is a hello came: the broker hangs up after the connect timeout, neither earlier nor later;
   never if there is none. What is no hello may be refused before.
2. INA-015: a hello that must be refused: it hangs up at once.
3. The stranger is silent after a good hello: the broker hangs up within the window of its generation. This is INA-024
   over STOMP (and never, if nothing was promised), INA-010 if the broker sends no keep-alives itself, INA-013 if the
   last thing was part of a frame, INA-022 for periods of 100 ms or less or beyond 2^31 ms, INA-023 if reads time out
   before.
4. INA-009: between two things that the broker writes there is never more than it may be silent (two write periods); no
   keep-alive follows anything sooner than the write period. INA-024 says the same of STOMP, and that a broker that
   promised no heart-beats sends none; INA-010 that a broker without keep-alives sends none.
5. INA-011: OpenWire keep-alives that ask are answered, one for one, and those that do not are not.
6. INA-016: a stranger that sends but does not read is ended by the write timeout, within five seconds more. INA-019: if
   the broker did not take all that it sent, it is not hung up on.
7. INA-017: the last thing heard before a close of INA-001's kind is no error and no goodbye, and it was reported once.
8. INA-024: a heart-beat header of the broker's that is no pair of numbers.
9. INA-025: many strangers were hung up on, and the broker has no more connections, timers, threads or sockets than
   before. In real processes others may come and go: growth by less than a tenth of the visits is no leak.

Not checked: strangers that were refused although their hello was good; 1 and INA-019 where nobody declares the broker's
``connector``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.configuration import ConnectorSpec
from brokerproof.conformance.experiment.history import Header, Visit
from brokerproof.conformance.oracles.base import NS_PER_MS, Oracle
from brokerproof.conformance.oracles.inference import ms
from brokerproof.conformance.oracles.terms import Agreement, agreement

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Event

#: "At once" is no more than this.
AT_ONCE_NS = 500_000_000
#: How long the links without a promise must have lasted to prove something.
SILENT_NS = 1_000_000_000
#: ActiveMQ looks for blocked writes every so often.
WRITE_CHECK_NS = 5_000_000_000
SMALL_MS = 100
LARGE_MS = 2**31


class VisitOracle(Oracle):
    """The claims about what a bare socket sees."""

    name = "visits"
    requirements = (
        "INA-009",
        "INA-010",
        "INA-011",
        "INA-013",
        "INA-014",
        "INA-015",
        "INA-016",
        "INA-017",
        "INA-019",
        "INA-022",
        "INA-023",
        "INA-024",
        "INA-025",
    )
    kinds = ("visit",)

    def start(self, header: Header) -> None:
        self.declared = header.declared
        self.simulated = header.world == "simulated"
        self.generation = header.declared.generation.get("monitor", "documented" if self.simulated else "")
        #: Whether anybody knows how the broker's end is set; the simulated broker's defaults are known.
        self.known = self.simulated or header.declared.connector is not None
        self.connector = header.declared.connector or ConnectorSpec()
        self.early_ns = 0 if self.simulated else 50 * NS_PER_MS
        self.late_ns = 0 if self.simulated else 500 * NS_PER_MS

    def feed(self, event: Event) -> None:
        assert isinstance(event, Visit)
        if event.said.times > 1:
            self._many(event)
        elif event.said.hello == "bad":
            self._bad_hello(event)
        elif event.said.hello != "good":
            self._no_hello(event)
        elif event.said.deaf:
            self._deaf(event)
        else:
            self._welcomed(event)

    # -- INA-014, INA-015

    def _no_hello(self, event: Visit) -> None:
        if event.heard.refused or not self.known:
            return
        timeout_ns = self.connector.connect_timeout_ms * NS_PER_MS
        who = f"a stranger that said no hello ({event.said.hello}) at {ms(event.t0)}"
        claim = self.claims["INA-014"]
        ended_ns = event.heard.ended_ns
        if event.said.hello == "early" and ended_ns is not None and not self._is_due(ended_ns, event.t0 + timeout_ns):
            # Something else than a hello may be refused as soon as it is seen, as a listener does that guesses the
            # protocol by the first bytes.
            claim.hold("early instead of a hello", outcome="refused")
            return
        if timeout_ns <= 0 or not self.connector.use_monitor:
            if event.heard.ended_ns is not None:
                text = f"{who} was hung up on at {ms(event.heard.ended_ns)}, though there is no connect timeout"
                claim.fail(text, [event.seq], outcome="closed-all-the-same")
            elif event.t1 - event.t0 >= SILENT_NS:
                claim.hold("there was no timeout", outcome="stays-open")
            return
        low_ns, high_ns = event.t0 + timeout_ns, event.said.opened_ns + timeout_ns
        self._in_window("INA-014", event, low_ns, high_ns, who, f"{event.said.hello} instead of a hello")

    def _is_due(self, ended_ns: int, low_ns: int) -> bool:
        timed = self.connector.use_monitor and self.connector.connect_timeout_ms > 0
        return timed and ended_ns >= low_ns - self.early_ns

    def _bad_hello(self, event: Visit) -> None:
        if event.said.hello_ns is None:
            return
        claim = self.claims["INA-015"]
        latest_ns = event.said.hello_ns[1] + AT_ONCE_NS
        who = f"a stranger whose hello was bad ({event.said.fault})"
        if event.heard.ended_ns is None and event.t1 > latest_ns + self.late_ns:
            text = f"{who} at {ms(event.said.hello_ns[1])} was still connected at {ms(event.t1)}"
            claim.fail(text, [event.seq], outcome="tolerated")
        elif event.heard.ended_ns is not None and event.heard.ended_ns > latest_ns + self.late_ns:
            text = f"{who} at {ms(event.said.hello_ns[1])} was hung up on at {ms(event.heard.ended_ns)} only"
            claim.fail(text, [event.seq], outcome="late", slack_ns=latest_ns - event.heard.ended_ns)
        elif event.heard.ended_ns is not None:
            claim.hold(event.said.fault, outcome="refused", slack_ns=latest_ns - event.heard.ended_ns)

    def _in_window(self, requirement: str, event: Visit, low_ns: int, high_ns: int, who: str, situation: str) -> bool:
        """The broker hangs up between two instants, the earliest and the latest; whether it did."""
        claim = self.claims[requirement]
        due = f"it was due from {ms(low_ns)} to {ms(high_ns)}"
        ended_ns = event.heard.ended_ns
        if ended_ns is None:
            if event.t1 > high_ns + self.late_ns:
                slack_ns = high_ns - event.t1
                text = f"{who} was still connected at {ms(event.t1)}; {due}"
                claim.fail(text, [event.seq], outcome="never", slack_ns=slack_ns)
            return False
        text = f"{who} was hung up on at {ms(ended_ns)}; {due}"
        if ended_ns < low_ns - self.early_ns:
            claim.fail(f"too early: {text}", [event.seq], outcome="early", slack_ns=ended_ns - low_ns)
        elif ended_ns > high_ns + self.late_ns:
            claim.fail(f"too late: {text}", [event.seq], outcome="late", slack_ns=high_ns - ended_ns)
        else:
            claim.hold(situation, outcome="in-time", slack_ns=min(ended_ns - low_ns, high_ns - ended_ns))
            return True
        return False

    # -- a good hello

    def _welcomed(self, event: Visit) -> None:
        terms = agreement(event, self.declared, self.connector, self.generation)
        if terms is None:
            text = f"CONNECTED says heart-beat:{event.heard.heart_beat}; two numbers were expected"
            self.claims["INA-024"].fail(text, [event.seq], outcome="broken")
            return
        if event.heard.welcome_ns is None or event.said.hello_ns is None or event.said.last_ns is None:
            return
        self._written(event, terms)
        self._asked(event)
        if event.heard.refused and event.heard.last != "error":
            return
        self._silent(event, terms, event.said.hello_ns, event.said.last_ns)

    def _silent(self, event: Visit, terms: Agreement, hello_ns: tuple[int, int], last_ns: tuple[int, int]) -> None:
        """Claims about when the broker hung up, and about how."""
        if not self.connector.use_monitor:
            return
        names = self._about(event, terms)
        if terms.read_ns <= 0:
            if names:
                self._never(event)
            return
        low_ns = max(last_ns[0], hello_ns[0] + terms.delay_ns) + terms.low_ns(event.said.says)
        high_ns = max(last_ns[1], hello_ns[1] + terms.delay_ns) + terms.high_ns
        if (
            event.said.says != "nothing"
            and event.said.every_ms * NS_PER_MS >= terms.low_ns(event.said.says) - self.late_ns
        ):
            return  # it may have been given up while it was still talking
        who = f"a stranger that was silent since {ms(last_ns[1])} (its hello was at {ms(hello_ns[1])})"
        for name, situation in names.items():
            self._in_window(name, event, low_ns, high_ns, who, situation)
        if terms.read_ns > LARGE_MS * NS_PER_MS and event.heard.ended_ns is None and event.t1 - last_ns[1] >= SILENT_NS:
            self.claims["INA-022"].hold(names["INA-022"], outcome="stays-open")
        self._manner(event, low_ns)

    def _about(self, event: Visit, terms: Agreement) -> dict[str, str]:
        """Requirement -> situation, of those that a silent stranger is about."""
        about: dict[str, str] = {}
        read_ms = terms.read_ns // NS_PER_MS
        if event.said.via == "stomp":
            about["INA-024"] = "a client's beats were promised" if read_ms > 0 else "no beats were promised"
        if read_ms <= 0:
            return about
        if not self.connector.use_keep_alive:
            about["INA-010"] = f"over {event.said.via}"
        if event.said.says == "part":
            about["INA-013"] = f"over {event.said.via}"
        if read_ms <= SMALL_MS:
            about["INA-022"] = "a period of 100 ms or less"
        elif read_ms > LARGE_MS:
            about["INA-022"] = "a period beyond 2^31 ms"
        if 0 < self.connector.read_timeout_ms < read_ms:
            about["INA-023"] = f"over {event.said.via}"
        return about

    def _never(self, event: Visit) -> None:
        """INA-024: a client that has promised nothing."""
        claim = self.claims["INA-024"]
        if event.heard.ended_ns is not None:
            text = f"a stranger that owed the broker nothing was hung up on at {ms(event.heard.ended_ns)}"
            claim.fail(text, [event.seq], outcome="broken")
        elif event.said.last_ns is not None and event.t1 - event.said.last_ns[1] >= SILENT_NS:
            claim.hold("no beats were promised", outcome="in-time")

    def _manner(self, event: Visit, low_ns: int) -> None:
        """INA-017, of strangers that were given up because they were silent."""
        heard = event.heard
        if heard.ended_ns is None or heard.ended_ns < low_ns - self.early_ns:
            return
        claim = self.claims["INA-017"]
        what = f"the broker hung up on a silent stranger at {ms(heard.ended_ns)}"
        if heard.last == "error":
            claim.fail(f"{what}, and said before: {heard.refused!r}", [event.seq], outcome="said-something")
        elif heard.reports is not None and heard.reports != 1:
            claim.fail(f"{what}, and reported it {heard.reports} times", [event.seq], outcome="not-reported-once")
        else:
            claim.hold("" if heard.reports is None else "its report was seen", outcome="silently")

    # -- INA-009, INA-010, INA-011, INA-024: what the broker writes

    def _written(self, event: Visit, terms: Agreement) -> None:
        stomp = event.said.via == "stomp"
        if not self.connector.use_keep_alive or not self.connector.use_monitor or terms.write_ns <= 0:
            silent = terms.write_ns > 0 and not self.connector.use_keep_alive
            if event.heard.beats and (silent or stomp):
                text = f"the broker sent {event.heard.beats} keep-alives, though it was to send none"
                self.claims["INA-010" if silent else "INA-024"].fail(text, [event.seq], outcome="broken")
            return
        names = ["INA-009", "INA-024"] if stomp else ["INA-009"]
        end_ns = event.heard.ended_ns if event.heard.ended_ns is not None else event.t1
        welcome_ns = event.heard.welcome_ns or 0
        first_ns = (event.heard.first_ns if event.heard.first_ns is not None else end_ns) - welcome_ns
        # Answers come in the initial delay already, and then nothing until it is over.
        limit_ns = terms.own_gap_ns + (terms.delay_ns if event.heard.answers else 0)
        for name in names:
            claim = self.claims[name]
            wrong = "broken" if name == "INA-024" else "silent"
            if first_ns > terms.delay_ns + terms.own_gap_ns + self.late_ns:
                text = f"nothing came from the broker in the {ms(first_ns)} since its welcome at {ms(welcome_ns)}"
                claim.fail(text, [event.seq], outcome=wrong, slack_ns=terms.delay_ns + terms.own_gap_ns - first_ns)
            elif event.heard.gap_ns is not None and event.heard.gap_ns > limit_ns + self.late_ns:
                text = f"the broker wrote nothing for {ms(event.heard.gap_ns)}; its limit is {ms(limit_ns)}"
                claim.fail(text, [event.seq], outcome=wrong, slack_ns=limit_ns - event.heard.gap_ns)
            elif name == "INA-009" and self._needless(event, terms):
                text = (
                    f"a keep-alive came {ms(event.heard.closest_ns or 0)} after something else; "
                    f"the write period is {ms(terms.write_ns)}"
                )
                claim.fail(text, [event.seq], outcome="needless")
            elif event.heard.beats or event.heard.answers > 1:
                traffic = event.said.says == "asks" and event.said.every_ms * NS_PER_MS < terms.write_ns
                claim.hold(
                    "traffic" if traffic else "idle", outcome="in-time" if stomp and name != "INA-009" else "kept"
                )

    def _needless(self, event: Visit, terms: Agreement) -> bool:
        early_ns = 0 if self.simulated else self.late_ns
        return (
            bool(terms.sure_write)
            and event.heard.closest_ns is not None
            and event.heard.closest_ns < terms.write_ns - early_ns
        )

    def _asked(self, event: Visit) -> None:
        if event.said.via != "openwire" or event.said.last_ns is None or event.said.says not in {"asks", "beats"}:
            return
        claim = self.claims["INA-011"]
        if event.said.says == "asks":
            over_ns = event.heard.ended_ns if event.heard.ended_ns is not None else event.t1
            if event.heard.answers == event.said.asked:
                claim.hold("answers were asked for", outcome="as-asked")
            elif over_ns > event.said.last_ns[1] + AT_ONCE_NS + self.late_ns or event.heard.answers > event.said.asked:
                text = f"{event.said.asked} keep-alives asked for an answer, and {event.heard.answers} came"
                claim.fail(text, [event.seq], outcome="unanswered")
        elif event.heard.answers:
            text = f"no keep-alive asked for an answer, and {event.heard.answers} answers came"
            claim.fail(text, [event.seq], outcome="unasked")
        else:
            claim.hold("no answers were asked for", outcome="as-asked")

    # -- INA-016, INA-025

    def _deaf(self, event: Visit) -> None:
        if event.heard.welcome_ns is None or event.said.last_ns is None or event.said.says not in {"beats", "asks"}:
            return
        timeout_ns = self.connector.write_timeout_ms * NS_PER_MS
        if not event.said.flooded_ns:
            self._blocked(event)
            return
        if timeout_ns <= 0:
            return
        who = f"a stranger that read nothing after its welcome at {ms(event.heard.welcome_ns)}"
        # It notices the end when it next says something; the buffers are full as soon as it has written all.
        high_ns = event.said.flooded_ns + timeout_ns + WRITE_CHECK_NS + event.said.every_ms * NS_PER_MS
        if event.heard.ended_ns is None and high_ns > event.said.last_ns[1]:
            return  # it had stopped talking by then
        low_ns = event.heard.welcome_ns + timeout_ns
        self._in_window("INA-016", event, low_ns, high_ns, who, "the buffers were full")

    def _blocked(self, event: Visit) -> None:
        """INA-019: the broker has stopped reading what a stranger sends, and then cannot blame it for its silence."""
        terms = agreement(event, self.declared, self.connector, self.generation)
        refusing = any(entry.send_fail_if_no_space for entry in self.declared.destinations)
        if terms is None or terms.read_ns <= 0 or refusing or self.connector.write_timeout_ms > 0 or not self.known:
            return
        claim = self.claims["INA-019"]
        welcome_ns = event.heard.welcome_ns or 0
        if event.heard.ended_ns is not None:
            text = (
                f"a stranger whose messages the broker did not take any more (welcome at {ms(welcome_ns)}) was hung up "
                f"on at {ms(event.heard.ended_ns)}; its read period is {ms(terms.read_ns)}"
            )
            claim.fail(text, [event.seq], outcome="dropped")
        elif event.t1 - welcome_ns > terms.delay_ns + terms.high_ns + self.late_ns:
            claim.hold("a producer was blocked for longer than the limit", outcome="kept")

    def _many(self, event: Visit) -> None:
        if event.heard.left is None or event.heard.closed < event.said.times:
            return
        claim = self.claims["INA-025"]
        allowed = 0 if self.simulated else event.said.times // 10
        grown = {what: more for what, more in event.heard.left.items() if more > allowed}
        if grown:
            rest = ", ".join(f"{more} {what}" for what, more in grown.items())
            text = f"the broker hung up on {event.said.times} strangers, and {rest} more than before are left"
            claim.fail(text, [event.seq], outcome="left-behind")
        else:
            claim.hold(f"{', '.join(event.heard.left)} were counted", outcome="nothing-left")

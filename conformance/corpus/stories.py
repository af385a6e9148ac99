"""The live stories: programs that were told by people before they were run, and what must become of every message.

``live-000-*`` are the rows of the tables of clocks: three clocks, one message, a time to live (seed 000 and the
questions below it). ``live-*`` others tell one behaviour each. All are plain programs; the files beside this module are
made from this table (``python -m brokerproof.conformance.corpus.stories``), and a test asserts that they agree.

Rules
* A story is short: real seconds are spent only where a wait is its point.
* ``outcomes`` says for each message: ``consumed`` (the application got it), ``dead-letter``, ``drained`` (still on its
  queue at the end), ``gone``. It must hold on the reference broker in the simulated world and on ActiveMQ 5.17.2 live.
* A row that only a JMS client can show uses JMS; where the library makes no difference STOMP is used as well (``…s``),
  so that brokers without JMS run it too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import msgspec

from brokerproof.conformance.corpus.chapters import feature_stories
from brokerproof.conformance.corpus.story import C0, P0, SURE_MS, VAIN_MS, Story, hosts, stomp, told
from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    ClockSpec,
    HostSpec,
    LinkSpec,
    MonitorSpec,
    PolicySpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Leave, Nack, Subscribe, Take
from brokerproof.conformance.experiment.steps.fault import Clock, Resume, Stall
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Advance, Settle

Via = Literal["stomp", "jms"]

#: The post's numbers: five minutes of skew, two minutes to live.
SKEW_MS = 300_000
TTL_MS = 120_000
PLUGIN = TimeStampingSpec()
FUTURE_ONLY = TimeStampingSpec(future_only=True)
#: How long it waits for one that comes and that its library throws away: nothing ends this wait early.
_THROWN_MS = 3_000


class Row:
    """A row of the table of clocks: skews in seconds, and one message that is consumed or becomes a dead letter."""

    def __init__(
        self,
        outcome: str,
        skews_s: tuple[int, int, int],
        plugin: TimeStampingSpec | None = None,
        *,
        ttl_ms: int = TTL_MS,
        vias: tuple[Via, Via] = ("jms", "jms"),
        check: bool = True,
        persistent: bool = True,
        stamp: Literal["client", "none"] = "client",
    ) -> None:
        broker, producer, consumer = (ClockSpec(skew_s * 1000) for skew_s in skews_s)
        hosts = [
            HostSpec("b", "broker", clock=broker),
            HostSpec("p0", "client", vias[0], producer),
            HostSpec("c0", "client", vias[1], consumer, check),
        ]
        arrives = self._arrives(plugin, broker, producer, ttl_ms, stamp)
        wait_ms = SURE_MS if outcome == "consumed" else _THROWN_MS if arrives else VAIN_MS
        steps: list[AnyStep] = [
            Send(host=0, ttl_ms=ttl_ms, persistent=persistent, stamp=stamp),
            Subscribe(host=1, prefetch=10),
            Take(deadline_ms=wait_ms),
            Ack(),
        ]
        spec = BrokerSpec(timestamping=plugin, dead_letter_non_persistent=True)
        self.program = Program(FORMAT, spec, hosts, [], queues("q0"), steps)
        self.outcome = outcome

    @staticmethod
    def _arrives(
        plugin: TimeStampingSpec | None, broker: ClockSpec, producer: ClockSpec, ttl_ms: int, stamp: str
    ) -> bool:
        """Whether the broker lets the message in: restamped, or alive by the broker's clock."""
        restamped = plugin is not None and stamp == "client"
        return restamped or ttl_ms == 0 or producer.offset_ms + ttl_ms > broker.offset_ms


#: Row of the table -> (what it tells, the row).
ROWS: dict[str, tuple[str, Row]] = {
    "1": ("the broker is ahead by more than the time to live", Row("dead-letter", (300, 0, 0))),
    "2": ("the broker is behind", Row("consumed", (-300, 0, 0))),
    "1-plugin": ("the broker is ahead and stamps by its own clock", Row("consumed", (300, 0, 0), PLUGIN)),
    "2-plugin": ("the broker is behind and stamps by its own clock", Row("dead-letter", (-300, 0, 0), PLUGIN)),
    "2-future": ("the same with futureOnly", Row("consumed", (-300, 0, 0), FUTURE_ONLY)),
    "2-unchecked": (
        "the same without futureOnly, and the consumer does not check",
        Row("consumed", (-300, 0, 0), PLUGIN, check=False),
    ),
    "3": ("only the consumer is ahead (AMQ-5406)", Row("dead-letter", (0, 0, 300))),
    "3-unchecked": ("the same, and the consumer does not check", Row("consumed", (0, 0, 300), check=False)),
    "3-stomp": (
        "the same with a STOMP consumer, which never checks",
        Row("consumed", (0, 0, 300), vias=("jms", "stomp")),
    ),
    "6": ("only the consumer is ahead, with the plug-in", Row("dead-letter", (0, 0, 300), PLUGIN)),
    "4": (
        "the broker is behind by more than a short time to live and stamps",
        Row("dead-letter", (-30, 0, 0), PLUGIN, ttl_ms=20_000),
    ),
    "7": ("the broker is ahead by less than the time to live", Row("consumed", (60, 0, 0))),
    "8": ("the broker is ahead, the message has no time to live", Row("consumed", (300, 0, 0), ttl_ms=0)),
    "9": (
        "a message without a time to live is given one by a broker that is behind",
        Row("dead-letter", (-300, 0, 0), TimeStampingSpec(zero_expiration_override_ms=60_000), ttl_ms=0),
    ),
    "12": ("only the producer is behind", Row("dead-letter", (0, -300, 0))),
    "13": ("only the producer is behind, with the plug-in", Row("consumed", (0, -300, 0), PLUGIN)),
    "14": (
        "broker and consumer are behind, the time to live is capped",
        Row("consumed", (-300, 0, -300), TimeStampingSpec(ttl_ceiling_ms=60_000)),
    ),
    "1-stomp": ("row 1 over STOMP", Row("dead-letter", (300, 0, 0), vias=("stomp", "stomp"))),
    "2-stomp": ("row 2 over STOMP", Row("consumed", (-300, 0, 0), vias=("stomp", "stomp"))),
    "12-stomp": ("row 12 over STOMP", Row("dead-letter", (0, -300, 0), vias=("stomp", "stomp"))),
    "13-stomp": ("row 13 over STOMP", Row("consumed", (0, -300, 0), PLUGIN, vias=("stomp", "stomp"))),
    "10": (
        "a STOMP producer sends expires alone: the plug-in does not help",
        Row("dead-letter", (300, 0, 0), PLUGIN, vias=("stomp", "jms"), stamp="none"),
    ),
    "11": (
        "a STOMP producer sends expires and timestamp: the plug-in helps",
        Row("consumed", (300, 0, 0), PLUGIN, vias=("stomp", "jms")),
    ),
    "10-stomp": (
        "row 10 with a STOMP consumer",
        Row("dead-letter", (300, 0, 0), PLUGIN, vias=("stomp", "stomp"), stamp="none"),
    ),
    "11-stomp": ("row 11 with a STOMP consumer", Row("consumed", (300, 0, 0), PLUGIN, vias=("stomp", "stomp"))),
    "1-volatile": ("row 1 with a message that is not persistent", Row("dead-letter", (300, 0, 0), persistent=False)),
}


def _request_reply() -> Story:
    requester = HostSpec("p0", "client", "jms", ClockSpec(SKEW_MS))
    responder = HostSpec("c0", "client", "jms")
    steps: list[AnyStep] = [
        Send(host=0, dest=0, ttl_ms=TTL_MS),
        Subscribe(host=1, dest=0, prefetch=10),
        Take(deadline_ms=SURE_MS),
        Ack(),
        Send(host=1, dest=1, ttl_ms=TTL_MS),
        Leave(),
        Subscribe(host=0, dest=1, prefetch=10),
        Take(deadline_ms=_THROWN_MS),
    ]
    program = Program(FORMAT, BrokerSpec(), hosts(requester, responder), [], queues("q0", "q1"), steps)
    telling = "the requester is ahead: its request is answered, the answer never reaches it"
    return told("live-000-5", telling, program, p0_1="consumed", c0_1="dead-letter")


def _waiting_jump() -> Story:
    steps: list[AnyStep] = [
        Send(ttl_ms=600_000),
        Send(),
        Advance(ms=100),
        Clock(host=0, jump_ms=3_600_000),
        Advance(ms=1500),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=SURE_MS),
        Ack(),
    ]
    telling = "the broker's clock jumps past the expiration of a waiting message: the sweep finds it"
    return told("live-jump-forward", telling, stomp(steps), p0_1="dead-letter", p0_2="consumed")


def _delay() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=10),
        Send(delay_ms=1500),
        Send(),
        Send(delay_ms=700),
        Take(deadline_ms=SURE_MS),
        Take(deadline_ms=SURE_MS),
        Take(deadline_ms=SURE_MS),
        Ack(upto=2),
    ]
    telling = "delayed messages come when they are due, to a consumer that was waiting"
    outcomes = {"p0_1": "consumed", "p0_2": "consumed", "p0_3": "consumed"}
    return told("live-delay", telling, stomp(steps), **outcomes)


def _delay_skewed() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=10),
        Send(delay_ms=1500, ttl_ms=TTL_MS),
        Clock(host=1, jump_ms=-SKEW_MS),
        Send(delay_ms=1500),
        Take(deadline_ms=SURE_MS, count=2),
        Ack(upto=1),
    ]
    program = Program(FORMAT, BrokerSpec(), hosts(P0, C0, broker_ms=-20_000), [], queues("q0"), steps)
    telling = "neither the broker's skew nor a jump of the producer's clock makes a delayed message early"
    return told("live-delay-skewed", telling, program, p0_1="consumed", p0_2="consumed")


def _redelivery() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=3),
        Send(count=5),
        Take(deadline_ms=SURE_MS, count=3),
        Ack(upto=0),
        Leave(how="kill"),
        Settle(),
        Subscribe(host=1, prefetch=10, ack="individual"),
        Take(deadline_ms=SURE_MS, count=4),
        Nack(upto=1),
        Ack(upto=0),
        Ack(upto=0),
        Ack(upto=0),
    ]
    telling = "a killed consumer's messages come again, marked and in order; a rejected one becomes a dead letter"
    outcomes = {f"p0_{number}": "consumed" for number in (1, 2, 4, 5)}
    return told("live-redelivery", telling, stomp(steps), **outcomes, p0_3="consumed+dead-letter")


def _in_flight() -> Story:
    steps: list[AnyStep] = [
        Send(count=12),
        Subscribe(host=1, prefetch=10),
        Settle(),
        Take(deadline_ms=SURE_MS, count=2),
        Leave(how="close"),
        Subscribe(host=1, prefetch=2, ack="individual"),
        Take(deadline_ms=SURE_MS),
        Leave(how="drop"),
        Settle(),
        Subscribe(host=1, prefetch=1000),
        Take(deadline_ms=SURE_MS, count=12),
        Ack(upto=11),
        Settle(),
    ]
    telling = "consumers come and go with messages in flight; at rest the count is what it must be"
    outcomes = {f"p0_{number}": "consumed" for number in range(1, 13)}
    return told("live-in-flight", telling, stomp(steps), **outcomes)


def _sweep() -> Story:
    spec = BrokerSpec(policies=[PolicySpec(">", 500)])
    steps: list[AnyStep] = [Send(ttl_ms=300), Send(ttl_ms=60_000), Advance(ms=1600), Settle()]
    telling = "a message that nobody wants expires on its queue and becomes a dead letter"
    return told("live-sweep", telling, stomp(steps, spec), p0_1="dead-letter", p0_2="drained")


def _future_only() -> Story:
    """A producer that is ahead: nothing may be lowered, and a message without expiration has nothing to lower."""
    producer = HostSpec("p0", "client", "stomp", ClockSpec(SKEW_MS))
    steps: list[AnyStep] = [
        Send(ttl_ms=TTL_MS),
        Send(),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=SURE_MS, count=2),
        Ack(upto=1),
    ]
    spec = BrokerSpec(timestamping=FUTURE_ONLY)
    program = Program(FORMAT, spec, hosts(producer, C0), [], queues("q0"), steps)
    telling = "futureOnly and a producer that is ahead: expirations stay as they are"
    return told("live-future-only", telling, program, p0_1="consumed", p0_2="consumed")


def _future_ceiling() -> Story:
    producer = HostSpec("p0", "client", "stomp", ClockSpec(SKEW_MS))
    steps: list[AnyStep] = [
        Send(ttl_ms=TTL_MS),
        Subscribe(host=1, prefetch=10),
        Take(deadline_ms=SURE_MS),
        Ack(),
    ]
    spec = BrokerSpec(timestamping=TimeStampingSpec(future_only=True, ttl_ceiling_ms=60_000))
    program = Program(FORMAT, spec, hosts(producer, C0), [], queues("q0"), steps)
    telling = "futureOnly and a ceiling: it counts from the clock of a producer that is ahead, or not at all (classic)"
    return told("live-future-ceiling", telling, program, p0_1="consumed")


def _delay_ttl() -> Story:
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=10),
        Send(delay_ms=1000, ttl_ms=TTL_MS),
        Take(deadline_ms=SURE_MS),
        Ack(),
    ]
    telling = "a delayed message with a time to live: its life begins at the send, not at its release"
    return told("live-delay-ttl", telling, stomp(steps), p0_1="consumed")


def _returns_twice() -> Story:
    steps: list[AnyStep] = [
        Send(count=4),
        Subscribe(host=1, prefetch=2),
        Advance(ms=100),
        Leave(how="drop"),
        Settle(),
        Subscribe(host=1, prefetch=1),
        Take(deadline_ms=SURE_MS),
        Leave(),
        Settle(),
        Subscribe(host=1, prefetch=10, ack="individual"),
        Take(deadline_ms=SURE_MS, count=4),
        *(Ack() for _ in range(4)),
    ]
    telling = "two messages come back, the first is taken again and comes back again: the order is still theirs"
    outcomes = {f"p0_{number}": "consumed" for number in range(1, 5)}
    return told("live-returns-twice", telling, stomp(steps), **outcomes)


def _limit() -> Story:
    spec = BrokerSpec(policies=[PolicySpec(">"), PolicySpec("q0", memory_limit_bytes=16 * 1024)])
    rounds: list[AnyStep] = [step for _ in range(12) for step in (Take(deadline_ms=SURE_MS), Ack())]
    steps: list[AnyStep] = [
        Send(count=12, size=4096),
        Settle(),
        Subscribe(host=1, prefetch=100, ack="individual"),
        Settle(),
        *rounds,
    ]
    telling = "a queue with a memory limit of its own, a backlog beyond it, and a consumer with a wide window"
    return told("live-limit", telling, stomp(steps, spec), **{f"p0_{number}": "consumed" for number in range(1, 13)})


#: Read period of the monitored links: short, because two of them are waited for.
MONITOR = MonitorSpec(1000, 500)


def _silence(*, stalled: bool) -> Story:
    steps: list[AnyStep] = [Subscribe(host=1, prefetch=1), Send(), Take(deadline_ms=SURE_MS), Ack(), Advance(ms=200)]
    if stalled:
        # The consumer's link, the second of the two; the other way stays open, so that only one monitor has a reason.
        steps += [Stall(link=1, toward="broker"), Advance(ms=3500), Resume(), Advance(ms=100)]
    else:
        steps += [Advance(ms=3500)]
    name = "live-silent-link" if stalled else "live-quiet-link"
    telling = (
        "a link falls silent: the broker closes it in its window"
        if stalled
        else "the same link without the stall: heart-beats keep it open"
    )
    links = [LinkSpec("c0", monitor=MONITOR)]
    return told(name, telling, stomp(steps, None, links), p0_1="consumed")


def stories() -> dict[str, Story]:
    """All of them, by name, in the order in which they are told."""
    table = [
        Story(f"live-000-{row}", telling, entry.program, {"p0/1": entry.outcome})
        for row, (telling, entry) in ROWS.items()
    ]
    table += [
        _request_reply(),
        _waiting_jump(),
        _sweep(),
        _delay(),
        _delay_skewed(),
        _delay_ttl(),
        _redelivery(),
        _returns_twice(),
        _limit(),
        _in_flight(),
        _future_only(),
        _future_ceiling(),
        _silence(stalled=True),
        _silence(stalled=False),
        *feature_stories(),
    ]
    return {story.name: story for story in table}


def file_text(program: Program) -> bytes:
    """A program as the corpus keeps it: readable, the same bytes for the same program."""
    return msgspec.json.format(program.encode(), indent=1) + b"\n"


def main() -> int:
    """Write the files beside this module."""
    folder = Path(__file__).parent
    for name, story in stories().items():
        (folder / f"{name}.json").write_bytes(file_text(story.program))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Sample results for the tests of ``reports``: small, written by hand, odd on purpose.

Long names, markup in texts, skewed and jumping clocks.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    ClockSpec,
    HostSpec,
    LinkSpec,
    MonitorSpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.history import (
    FORMAT,
    Ack,
    Arrive,
    ClockSample,
    Connect,
    Consume,
    Counters,
    Event,
    Fault,
    Header,
    History,
    Leave,
    Phase,
    Send,
    Skipped,
    Subscribe,
)
from brokerproof.conformance.experiment.program import FORMAT as PROGRAM_FORMAT
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps.consume import Ack as AckStep
from brokerproof.conformance.experiment.steps.consume import Subscribe as SubscribeStep
from brokerproof.conformance.experiment.steps.consume import Take as TakeStep
from brokerproof.conformance.experiment.steps.fault import Clock as ClockStep
from brokerproof.conformance.experiment.steps.fault import Stall as StallStep
from brokerproof.conformance.experiment.steps.send import Send as SendStep
from brokerproof.conformance.experiment.steps.waiting import Advance as AdvanceStep
from brokerproof.conformance.experiment.traits import JMS
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import Catalogue, Outcome, Requirement, Source

MS = 1_000_000
#: 2027-01-15 08:00 UTC, the wall time at true time 0.
EPOCH_MS = 1_800_000_000_000
CAPABILITIES = ["delay", "prefetch", "ttl"]


def requirement(ident: str, **changes: object) -> Requirement:
    """A judged requirement with everything filled in."""
    fields: dict[str, object] = {
        "id": ident,
        "sentence": f"The promise {ident} is kept, whatever the clocks of the hosts <say> & however they jump.",
        "level": "MUST",
        "profiles": ["core", "jms"],
        "source": [Source(seed="004", sentence=12), Source(clause="Jakarta Messaging 3.1, 7.9")],
        "status": "judged",
        "needs": ["delay"],
        "outcomes": [Outcome("on-or-after", "ok"), Outcome("late", "acceptable"), Outcome("early", "violated")],
        "situations": ["a clock stepped forward while a message was waiting", "a consumer was idle at the due time"],
        "mutants": ["delay-1ms-early"],
        "why": "A message that comes early is acted on before its time.",
        "remedy": "Run the delay on elapsed time from acceptance; never compare it with a wall clock.",
    }
    return Requirement(**{**fields, **changes})  # type: ignore[arg-type]  # the test's own business


def catalogue() -> Catalogue:
    """Three judged requirements in two areas, one planned."""
    planned = requirement("MEM-009", status="planned", outcomes=[], situations=[], mutants=[])
    return Catalogue([requirement("DLY-003"), requirement("DLY-004"), requirement("EXP-001"), planned])


def program(extra_steps: int = 0) -> Program:
    """A broker, a slow producer, a JMS consumer; one delayed message, one clock jump."""
    return Program(
        PROGRAM_FORMAT,
        BrokerSpec(timestamping=TimeStampingSpec(future_only=True)),
        [
            HostSpec("b", "broker"),
            HostSpec("p0", "client", clock=ClockSpec(-300_000)),
            HostSpec("c0", "client", "jms", ClockSpec(0, 100)),
        ],
        [LinkSpec("c0", 500, MonitorSpec(1000, 500))],
        [*queues("q0"), *topics("t1")],
        [
            SubscribeStep(host=1, dest=0, prefetch=10),
            SendStep(host=0, dest=0, ttl_ms=120_000, delay_ms=1000),
            ClockStep(host=0, jump_ms=3_600_000),
            StallStep(link=0, toward="client"),
            TakeStep(host=1, deadline_ms=1000),
            AckStep(host=1),
            *[AdvanceStep(ms=1 + number) for number in range(extra_steps)],
        ],
    )


def events() -> list[Event]:
    """The run of ``program``: p0/1 arrives 1.1 ms before its delay of 1000 ms has elapsed."""
    return [
        ClockSample(1, 0, 0, "b", EPOCH_MS),
        ClockSample(2, 0, 0, "p0", EPOCH_MS - 300_000),
        ClockSample(3, 0, 60_000, "c0", EPOCH_MS, 500_000),
        Phase(4, 60_000, 60_000, "", "work"),
        Connect(5, 70_000, 80_000, "c0", "ok", "jms", JMS),
        Subscribe(6, 90_000, 160_000, "c0", "ok", "c0/1", "q0", 10),
        Send(7, 200_000, 260_000, "p0", "ok", "p0/1", "q0", EPOCH_MS - 180_000, EPOCH_MS - 300_000, 1000),
        Send(8, 300_000, 9 * MS, "p0", "unknown", "p0/2", "q0"),
        ClockSample(9, 20 * MS, 20 * MS, "b", EPOCH_MS + 20),
        Fault(10, 20 * MS, 20 * MS, "", "clock", target="b", jump_ms=3_600_000, evidence={"wall_ms": 1}),
        ClockSample(11, 20 * MS, 20 * MS, "b", EPOCH_MS + 3_600_020),
        Fault(12, 30 * MS, 30 * MS, "", "stall", link="p0", toward="client", evidence={"bytes_in": 8, "bytes_out": 0}),
        Fault(13, 500 * MS, 500 * MS, "", "resume", link="p0", evidence={"bytes_out": 8}),
        Arrive(14, 999 * MS, 999 * MS, "c0", "c0/1", "p0/1", "q0", expiration_ms=EPOCH_MS - 180_000),
        Consume(15, 1000 * MS, 1000 * MS, "c0", "c0/1", "p0/1"),
        Ack(16, 1001 * MS, 1002 * MS, "c0", "ok", "c0/1", ["p0/1"]),
        Skipped(17, 1003 * MS, 1003 * MS, "", {"do": "nack", "host": 0}),
        Leave(18, 1004 * MS, 1005 * MS, "c0", "ok", "close", "c0/1"),
        Phase(19, 1100 * MS, 1100 * MS, "", "drain"),
        Counters(20, 1200 * MS, 1201 * MS, "b", "q0", at_rest=True, size=0, in_flight=0, enqueued=1, dequeued=1),
        ClockSample(21, 1210 * MS, 1210 * MS, "drain", EPOCH_MS + 1210),
        Phase(22, 1300 * MS, 1300 * MS, "", "end"),
    ]


def history(broker: str, seed: int | None = None, mutant: str | None = None) -> History:
    """The history of ``program``."""
    return History(Header(FORMAT, broker, "simulated", None, seed, mutant, "b", CAPABILITIES), events())


def early(ident: str = "DLY-003") -> Verdict:
    """A violation with a witness."""
    return Verdict(
        ident,
        VerdictKind.VIOLATED,
        "early",
        "violated",
        ["a clock stepped forward while a message was waiting"],
        [7, 14],
        -1_100_000,
        "p0/1 arrived 998.9 ms after it was accepted; its delay is 1000 ms <b>&amp;",
    )


def kept(ident: str, slack_ns: int | None = 2_000_000) -> Verdict:
    """A satisfied verdict."""
    return Verdict(
        ident, VerdictKind.SATISFIED, "on-or-after", "ok", ["a consumer was idle at the due time"], [], slack_ns
    )


def result(
    name: str,
    verdicts: list[Verdict],
    *,
    broker: str = "reference",
    world: str = "simulated",
    seed: int | None = None,
    mutant: str | None = None,
    extra_steps: int = 0,
) -> RunResult:
    """A judged run."""
    past = history(broker, seed, mutant)
    return RunResult(name, broker, world, program(extra_steps), verdicts, past, seed=seed, mutant=mutant)

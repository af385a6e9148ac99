"""All mutants, by id, and how a broker is built with or without one.

Order: by area, as the requirements. ``1ms`` in an id marks an error of one millisecond in time arithmetic.
"""

from __future__ import annotations

from conformance.mutants import books, clocks, cores, memory
from conformance.mutants.clocks import expiry, opposite, stamping
from conformance.mutants.registry import Build, Mutant, MutantError, build_with, check_known, fresh, letters
from reference_broker.core.config import BrokerConfig

_ALL = (
    # expiry
    Mutant("expiry-never", "EXP-001", "Nothing ever expires.", "expiry", expiry(clocks.Immortal), live=True),
    Mutant("expiry-zero-is-past", "EXP-002", "A message without an expiration gets one of a second.", "timestamping",
           stamping(clocks.GivesLife)),
    Mutant("expiry-not-strict-1ms", "EXP-003", "A message is dead at its very expiration, 1 ms early.", "expiry",
           expiry(clocks.NotStrict)),
    Mutant("expiry-1ms-late", "EXP-004", "A message lives 1 ms too long.", "expiry", expiry(clocks.LateByOne)),
    Mutant("dead-letter-never", "EXP-005", "Expired messages vanish.", "dead_letter",
           letters(clocks.ForgetsCopy)),
    Mutant("dead-letter-keeps-expiration", "EXP-005", "A dead letter keeps its expiration.", "dead_letter",
           letters(clocks.KeepsExpiration)),
    Mutant("expiry-fails-producer", "EXP-006", "A message expired on arrival fails its producer.",
           broker=cores.RefusesExpired),
    Mutant("expiry-table-ignored", "EXP-007", "No clock decides anything: nothing ever expires.", "expiry",
           expiry(clocks.Immortal)),
    Mutant("expired-ack-opposite", "EXP-008", "A client's expired-ack is treated as in the other generation.", "expiry",
           opposite),
    Mutant("sweep-never", "EXP-009", "The sweep never comes.", "expiry", expiry(clocks.NoSweep)),
    Mutant("stamp-extends-life", "EXP-010", "A re-stamped message lives ten minutes longer.", "timestamping",
           stamping(clocks.ExtendsLife)),
    # time-stamping
    Mutant("stamp-1ms-behind", "TSP-001", "The timestamp is 1 ms before the broker's time.", "timestamping",
           stamping(clocks.StampsBehind)),
    Mutant("stamp-1ms-short", "TSP-002", "The re-stamped time to live is 1 ms short.", "timestamping",
           stamping(clocks.ShortensLife)),
    Mutant("stamp-future-only-ignored", "TSP-003", "futureOnly is ignored.", "timestamping",
           stamping(clocks.ForgetsFutureOnly), live=True),
    Mutant("stamp-no-ceiling", "TSP-004", "ttlCeiling is ignored.", "timestamping", stamping(clocks.NoCeiling)),
    Mutant("stamp-no-override", "TSP-005", "zeroExpirationOverride is ignored.", "timestamping",
           stamping(clocks.NoOverride)),
    Mutant("stamp-unstamped", "TSP-006", "Messages without a timestamp are stamped too.", "timestamping",
           stamping(clocks.StampsUnstamped)),
    Mutant("stamp-without-plugin", "TSP-007", "Timestamps are replaced without the plug-in.", "timestamping",
           stamping(clocks.StampsWithoutPlugin)),
    Mutant("dead-letter-1ms-restamped", "TSP-008", "A dead letter's timestamp is 1 ms later.", "dead_letter",
           letters(clocks.RestampedByOne)),
    Mutant("stamp-rescues-dead", "TSP-009", "A message that its producer sent expired gets a new life.", "timestamping",
           stamping(clocks.RescuesDead)),
    Mutant("stamp-acts-on-equal", "TSP-010", "futureOnly replaces the timestamp although nothing is later.",
           "timestamping", stamping(clocks.ActsOnEqual)),
    Mutant("stamp-future-only-as-classic", "TSP-011", "futureOnly takes an absent expiration for the lowest.",
           "timestamping", stamping(clocks.AsClassic)),
    Mutant("stamp-1ms-back", "TSP-011", "futureOnly moves a timestamp back by 1 ms.", "timestamping",
           stamping(clocks.BackByOne)),
    Mutant("stamp-ceiling-as-classic", "TSP-012", "futureOnly switches the ceiling off.", "timestamping",
           stamping(clocks.AsClassic)),
    Mutant("stamp-ceiling-1ms-more", "TSP-012", "Under futureOnly the ceiling is 1 ms too high.", "timestamping",
           stamping(clocks.RoomyCeiling)),
    # delivery delay
    Mutant("delay-1ms-early", "DLY-001", "A delayed message is released 1 ms early.", "delay",
           fresh(clocks.EarlyByOne)),
    Mutant("delay-ignored", "DLY-001", "Delays are ignored.", "delay", fresh(clocks.Ignored), live=True),
    Mutant("delay-late", "DLY-002", "A delayed message is released five seconds late.", "delay", fresh(clocks.Late)),
    Mutant("delay-from-producer-clock", "DLY-003", "The delay counts from the producer's timestamp.", "delay",
           fresh(clocks.FromProducerClock)),
    Mutant("delay-holds-plain", "DLY-004", "Plain messages wait behind delayed ones.", "delay",
           fresh(clocks.HoldsPlain)),
    Mutant("delay-lost", "DLY-005", "A delayed message is never released.", "delay", fresh(clocks.Lost)),
    Mutant("delay-restarts-life", "DLY-006", "The time to live begins at the release.", "delay",
           fresh(clocks.RestartsLife)),
    Mutant("delay-in-single-file", "DLY-007", "A delayed message waits for all earlier delayed ones.", "delay",
           fresh(clocks.InSingleFile)),
    Mutant("delay-by-wall-clock", "DLY-008", "A step of the wall clock moves releases.", "delay",
           fresh(clocks.ByWallClock)),
    Mutant("delay-takes-slots", "DLY-009", "Waiting messages take slots of the window.", "prefetch",
           fresh(books.CountsWaiting)),
    # in-flight accounting
    Mutant("ledger-forgets-close", "INF-001", "A consumer that leaves keeps its messages on the books.", "ledger",
           fresh(books.ForgetsClose), live=True),
    Mutant("ledger-sync-negative", "INF-002", "A synchronous dispatch is subtracted instead of added.", "ledger",
           fresh(books.SubtractsEarly)),
    Mutant("ledger-dequeue-short", "INF-003", "Settled messages are not counted as dequeued.", "ledger",
           fresh(books.ForgetsDequeue)),
    Mutant("ledger-dispatch-falls", "INF-004", "The dispatch count falls when a consumer leaves.", "ledger",
           fresh(books.UncountsDispatch)),
    Mutant("ledger-close-not-booked", "INF-005", "A departure takes nothing off the books.", "ledger",
           fresh(books.ForgetsClose)),
    Mutant("ledger-close-again", "INF-006", "A departure is booked six times.", "ledger", fresh(books.SubtractsAgain)),
    Mutant("ledger-counts-twice", "INF-001", "An asynchronous dispatch is counted twice.", "ledger",
           fresh(books.CountsAtAssign)),
    # prefetch
    Mutant("prefetch-one-more", "PRE-001", "One message more than the window allows.", "prefetch", fresh(books.OneMore),
           live=True),
    Mutant("prefetch-one-less", "PRE-002", "Windows are never filled.", "prefetch", fresh(books.OneLess)),
    Mutant("prefetch-grudging", "PRE-003", "Acknowledgements open fewer slots than they settle.", "prefetch",
           fresh(books.Grudging)),
    # redelivery and dead letters
    Mutant("redelivery-marks-first", "RDL-001", "Every message looks redelivered.", "timestamping",
           stamping(clocks.MarksFirst)),
    Mutant("redelivery-unmarked", "RDL-002", "Redelivered messages are not marked.", "redelivery",
           fresh(books.MarksNothing), live=True),
    Mutant("ack-forgets-last", "RDL-003", "An acknowledgement of a range forgets its last message.", "acknowledgement",
           fresh(books.RoundsAcknowledgement)),
    Mutant("nack-vanishes", "RDL-004", "A rejected message gets no dead letter.", "dead_letter",
           letters(books.PoisonVanishes)),
    Mutant("returns-reversed", "RDL-005", "Messages that come back stand in reverse order.", "ordering",
           fresh(books.ReturnsReversed)),
    Mutant("nack-twice", "RDL-006", "A rejected message makes two dead letters.", broker=cores.DoublesLetters),
    # memory
    Mutant("memory-starves", "MEM-001", "Nothing is paged in while the broker is above the mark (generation G1).",
           "memory", fresh(memory.StarvingMemory), live=True),
    Mutant("memory-over-limit", "MEM-002", "Everything stays in memory, whatever the limit.", "memory",
           fresh(memory.OverLimit)),
    Mutant("memory-leaks", "MEM-003", "Every loaded message leaves a byte behind.", "memory", fresh(memory.Leaks)),
    Mutant("memory-own-limit-ignored", "MEM-004", "A destination's own limit does not count.", "memory",
           fresh(memory.IgnoresOwnLimit)),
    Mutant("memory-refuses", "MEM-005", "Persistent messages are refused while memory is half full.",
           broker=cores.RefusesWhenFull),
    # inactivity
    Mutant("monitor-twice-as-patient", "INA-001", "A silent link is closed after twice the period.",
           monitor=cores.patient(200), live=True),
    Mutant("monitor-hasty", "INA-002", "A healthy link is closed after a fifth of the period.",
           monitor=cores.patient(20)),
    Mutant("monitor-uninvited", "INA-003", "Links without a monitor are watched.", monitor=cores.uninvited),
    Mutant("monitor-short", "INA-004", "A stall of half the period closes the link.", monitor=cores.patient(50)),
    Mutant("returns-lost", "INA-005", "A message of a consumer that is gone is lost.", "ordering",
           fresh(books.ForgetsReturn)),
    Mutant("client-monitor-asleep", "INA-006", "The client's end notices nothing.",
           client_monitor=cores.patient_client(100_000)),
    Mutant("monitor-late-start", "INA-007", "Watching begins long after the initial delay.",
           monitor=cores.patient(100, 10_000)),
    # order, loss, duplication
    Mutant("returns-vanish", "GEN-001", "A message that comes back from a consumer is lost.", "ordering",
           fresh(books.ForgetsReturn), live=True),
    Mutant("ack-not-believed", "GEN-002", "The last message of an acknowledged range is delivered again.",
           "acknowledgement", fresh(books.RoundsAcknowledgement)),
    Mutant("order-shuffled", "GEN-003", "Every third message is held for 2 ms.", "delay", fresh(clocks.Shuffles)),
    Mutant("topic-first-only", "GEN-004", "On a topic only the first subscription is served.", "prefetch",
           fresh(books.FirstOnly)),
    Mutant("letters-astray", "GEN-005", "Dead letters go to the first queue.", "dead_letter",
           letters(books.LettersAstray)),
    Mutant("send-denied-but-kept", "GEN-006", "A send is refused and its message kept.", broker=cores.Liar),
)  # fmt: skip

MUTANTS: dict[str, Mutant] = {mutant.id: mutant for mutant in _ALL}


def check_mutant(mutant: str | None) -> None:
    """Raise ``MutantError`` for an unknown name, before any work is done; None is no mutant."""
    check_known(MUTANTS, mutant)


def build(mutant: str | None, config: BrokerConfig) -> Build:
    """The parts of a reference broker. Raises ``MutantError`` for an unknown mutant."""
    return build_with(MUTANTS, mutant, config)


__all__ = ["MUTANTS", "Build", "Mutant", "MutantError", "build", "check_mutant"]

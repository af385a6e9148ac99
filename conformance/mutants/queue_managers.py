"""Mutants of a queue manager's delivery delay (generation ``ibm-mq``)."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.mq.checks import SendChecks
from brokerproof.reference_broker.core.mq.definitions import Definitions
from brokerproof.reference_broker.core.mq.mqsc import MqscError, Value
from brokerproof.reference_broker.core.mq.processor import RUNNING, Processor
from brokerproof.reference_broker.core.mq.release import ReleaseFailure
from brokerproof.reference_broker.core.mq.reports import Reports


class Forgives(SendChecks):
    """Base of those that take what they should refuse, by what the refusal says."""

    forgiven = ""

    def delay(self, definitions: Definitions, message: Message, delay_ms: int, life_ms: int) -> tuple[str, str]:
        code, text = super().delay(definitions, message, delay_ms, life_ms)
        return ("", "") if self.forgiven in text else (code, text)


class TakesShortLives(Forgives):
    """A life that ends before the delay."""

    forgiven = "time to live"


class TakesGroups(Forgives):
    """A message of a group."""

    forgiven = "of a group"


class TakesGuarantees(Forgives):
    """A topic that promises more than ALLAVAIL."""

    forgiven = "MSGDLV("


class TakesLevels(Forgives):
    """A command level that has no delay."""

    forgiven = "command level"


class Agrees(SendChecks):
    """A producer's delay and life are never compared, nor is there a level."""

    def setting(self, level: int, delay_ms: int, life_ms: int) -> tuple[str, str]:  # noqa: ARG002 - the signature
        return "", ""


class KnowsNobody(SendChecks):
    """Whoever it is has everyone's authorities."""

    def authority(self, definitions: Definitions, principal: str, message: Message) -> tuple[str, str]:  # noqa: ARG002
        return super().authority(definitions, "nobody", message)

    def entrance(self, definitions: Definitions, principal: str, right: str, name: str) -> bool:  # noqa: ARG002
        return super().entrance(definitions, "nobody", right, name)


class CompletesNothing(SendChecks):
    """What a message leaves to its queue's definition stays as it came."""

    def complete(self, message: Message, first: dict[str, Value]) -> None:
        pass


class AsksNobody(SendChecks):
    """Whoever sends with a delay may."""

    def authority(self, definitions: Definitions, principal: str, message: Message) -> tuple[str, str]:
        return ("", "") if message.delay_ms else super().authority(definitions, principal, message)


class IgnoresPut(SendChecks):
    """PUT(DISABLED) is not looked at, at the send and when the delay is over."""

    def fault(self, attributes: dict[str, Value] | None, size_bytes: int, depth: int) -> str:
        enabled = None if attributes is None else {**attributes, "PUT": "ENABLED"}
        return super().fault(enabled, size_bytes, depth)


class TakesOptions(Forgives):
    """A retained publication, or a clustered queue that is bound when it is opened."""

    forgiven = "MQRC_OPTIONS_ERROR"


class FindsRoom(SendChecks):
    """No queue is full, inhibited or too small."""

    def room(self, target: str, fault: str, staging_fault: str) -> tuple[str, str]:  # noqa: ARG002 - the signature
        return "", ""


class NamesTheTarget(SendChecks):
    """The target is to blame, whichever queue it was."""

    def room(self, target: str, fault: str, staging_fault: str) -> tuple[str, str]:
        return super().room(target, fault or staging_fault, "")


class SaysFull(SendChecks):
    """Whatever is wrong with a queue, it is full."""

    def fault(self, attributes: dict[str, Value] | None, size_bytes: int, depth: int) -> str:
        return "MQRC_Q_FULL" if super().fault(attributes, size_bytes, depth) else ""


class TellsAnotherReason(Reports):
    """A report's feedback is the reason's number and one."""

    def make(self, message: Message, kind: str, feedback: int, now: Now) -> Message | None:
        return super().make(message, kind, feedback + 1, now)


class LetsEverybodyIn(SendChecks):
    """Who may consume is not asked."""

    def entrance(self, definitions: Definitions, principal: str, right: str, name: str) -> bool:  # noqa: ARG002
        return True


class RefusesToStop(Processor):
    """STOP is an error."""

    def stopped(self) -> str:
        raise MqscError("the processor cannot be stopped")


class KeepsTaken(Processor):
    """What somebody gets off the staging queue stays on it."""

    def leaves(self) -> bool:
        return False


class StaysStopped(Processor):
    """What has stopped runs again after START only."""

    def altered(self, state: str, before: dict[str, Value] | None, definitions: Definitions) -> str:
        after = super().altered(state, before, definitions)
        return after if state == RUNNING else state


class Drops(ReleaseFailure):
    """What can be put nowhere is gone."""

    def keeps(self, publication: bool) -> bool:  # noqa: ARG002 - the signature of the policy
        return False


class NeverStops(Processor):
    """STOP is not heard."""

    def stopped(self) -> str:
        return RUNNING


ALL = (
    Mutant("mq-short-life-taken", "DLY-016", "A life below the delay is taken.", "mq_checks", fresh(TakesShortLives)),
    Mutant("mq-groups-delayed", "DLY-039", "A message of a group is delayed.", "mq_checks", fresh(TakesGroups)),
    Mutant("mq-guarantees-ignored", "DLY-040", "PMSGDLV is not looked at.", "mq_checks", fresh(TakesGuarantees)),
    Mutant("mq-level-ignored", "DLY-041", "Delays are taken at command level 750.", "mq_checks", fresh(TakesLevels)),
    Mutant(
        "mq-authority-unasked", "DLY-033", "A send with a delay needs no authority.", "mq_checks", fresh(AsksNobody)
    ),
    Mutant("mq-put-attribute-ignored", "DLY-043", "PUT(DISABLED) is ignored.", "mq_checks", fresh(IgnoresPut)),
    Mutant("mq-failed-put-lost", "DLY-032", "What can be put nowhere is gone.", "mq_release", fresh(Drops)),
    Mutant("mq-options-delayed", "DLY-045", "A retained message is delayed.", "mq_checks", fresh(TakesOptions)),
    Mutant("mq-room-ignored", "DLY-046", "No queue is ever full or inhibited.", "mq_checks", fresh(FindsRoom)),
    Mutant(
        "mq-names-the-target-only", "DLY-047", "The staging queue is never named.", "mq_checks", fresh(NamesTheTarget)
    ),
    Mutant("mq-entrance-open", "DLY-048", "Everybody may consume.", "mq_checks", fresh(LetsEverybodyIn)),
    Mutant("mq-stop-refused", "DLY-049", "STOP is refused.", "mq_processor", fresh(RefusesToStop)),
    Mutant("mq-cancel-ignored", "DLY-038", "What was taken off comes nevertheless.", "mq_processor", fresh(KeepsTaken)),
    Mutant("mq-stays-stopped", "DLY-050", "Only START restarts the processor.", "mq_processor", fresh(StaysStopped)),
    Mutant("mq-always-full", "DLY-051", "Whatever is wrong with a queue, it is full.", "mq_checks", fresh(SaysFull)),
    Mutant(
        "mq-report-of-another-reason",
        "DLY-052",
        "A report tells another reason.",
        "mq_reports",
        fresh(TellsAnotherReason),
    ),
    Mutant("mq-users-are-nobody", "DLY-033", "Users have everyone's authorities.", "mq_checks", fresh(KnowsNobody)),
    Mutant("mq-setters-agree", "DLY-053", "A producer takes any delay and life.", "mq_checks", fresh(Agrees)),
    Mutant("mq-definition-ignored", "DLY-054", "DEFPRTY is not looked at.", "mq_checks", fresh(CompletesNothing)),
    Mutant("mq-stop-ignored", "DLY-042", "The delay processor cannot be stopped.", "mq_processor", fresh(NeverStops)),
)

"""Mutants of a queue manager's delivery delay (generation ``ibm-mq``)."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.mq.checks import SendChecks
from brokerproof.reference_broker.core.mq.definitions import Definitions
from brokerproof.reference_broker.core.mq.mqsc import Value
from brokerproof.reference_broker.core.mq.processor import RUNNING, Processor
from brokerproof.reference_broker.core.mq.release import ReleaseFailure


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


class AsksNobody(SendChecks):
    """Whoever sends with a delay may."""

    def authority(self, definitions: Definitions, principal: str, message: Message) -> tuple[str, str]:
        return ("", "") if message.delay_ms else super().authority(definitions, principal, message)


class IgnoresPut(SendChecks):
    """PUT(DISABLED) is not looked at, at the send and when the delay is over."""

    def fault(self, attributes: dict[str, Value] | None, size_bytes: int, depth: int) -> str:
        enabled = None if attributes is None else {**attributes, "PUT": "ENABLED"}
        return super().fault(enabled, size_bytes, depth)


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
    Mutant("mq-stop-ignored", "DLY-042", "The delay processor cannot be stopped.", "mq_processor", fresh(NeverStops)),
)

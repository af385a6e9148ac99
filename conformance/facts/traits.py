"""What a consumer asks for, and its client's library does, that makes it another than most."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Connect, Subscribe
from brokerproof.conformance.experiment.traits import UNKNOWN, Traits
from brokerproof.conformance.facts import marks


def traits_of(connect: Connect) -> Traits:
    """What a connection says of its client. Of a host that does not say nothing is taken for granted."""
    return connect.traits or UNKNOWN


def choice_of(event: Subscribe) -> int:
    """The marks of a consumer that may rightly be without a message that waits, or others because of it; 0: none."""
    wants = bool(event.selector) or bool(event.durable) or event.no_local or event.exclusive or event.priority != 0
    return (marks.SELECTIVE if wants else 0) | (marks.PULLED if event.prefetch == 0 else 0)

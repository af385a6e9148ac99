"""What a consumer asks for, and its client's library does, that makes it another than most."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Connect, Subscribe
from brokerproof.conformance.experiment.traits import UNKNOWN, Traits


def traits_of(connect: Connect) -> Traits:
    """What a connection says of its client. Of a host that does not say nothing is taken for granted."""
    return connect.traits or UNKNOWN


def is_selective(event: Subscribe) -> bool:
    """Whether this consumer may rightly be without a message that waits, or others because of it."""
    wants = bool(event.selector) or bool(event.durable) or event.no_local or event.exclusive
    return wants or event.priority != 0 or event.prefetch == 0

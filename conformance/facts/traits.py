"""Traits of a client: what its library does by itself, so that no rule need know a library by name.

``connect`` will declare them; until a history does, they follow from ``via`` and ``expiry_check``. Of a host that was
never seen to connect nothing is taken for granted.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import Connect, Subscribe

#: How often a JMS client delivers a message, by default, before it gives it up by itself.
JMS_DELIVERIES: Final = 7


class Traits:
    """What the library at a host does.

    * ``settles_on_write``: the broker settles what it writes to an ``auto`` consumer (STOMP).
    * ``settles_by_itself``: the library does, at a moment of its own (JMS).
    * ``awaits_receipt``: an ``ok`` is the broker's own answer.
    * ``checks_expiry``: it discards what its clock calls expired.
    * ``tells_given``: a consumer that closes says how far its application had got (JMS).
    * ``stamps_expiration``: it turns a time to live into an expiration, by its host's clock (JMS).
    * ``gives_up_after``: deliveries of one message, rolled back each time, after which it rejects it; 0: never.
    * ``widens_window``: what the application was given makes room for another message before it is settled.
    """

    # fmt: off
    __slots__ = ("awaits_receipt", "checks_expiry", "gives_up_after", "known", "settles_by_itself",
                 "settles_on_write", "stamps_expiration", "tells_given", "widens_window")
    # fmt: on

    def __init__(self, *, stomp: bool, jms: bool, checks_expiry: bool) -> None:
        self.known = stomp or jms
        self.settles_on_write = stomp
        self.settles_by_itself = jms
        self.awaits_receipt = stomp
        self.checks_expiry = checks_expiry
        self.stamps_expiration = jms
        self.gives_up_after = JMS_DELIVERIES if jms else 0
        self.widens_window = not stomp
        self.tells_given = jms


UNKNOWN: Final = Traits(stomp=False, jms=False, checks_expiry=False)
_STOMP: Final = Traits(stomp=True, jms=False, checks_expiry=False)
_JMS: Final = (
    Traits(stomp=False, jms=True, checks_expiry=False),
    Traits(stomp=False, jms=True, checks_expiry=True),
)


def traits_of(connect: Connect) -> Traits:
    """What a connection says of its client."""
    if connect.via == "stomp" and not connect.expiry_check:
        return _STOMP
    if connect.via == "stomp":
        return Traits(stomp=True, jms=False, checks_expiry=True)
    return _JMS[connect.expiry_check]


def is_selective(event: Subscribe) -> bool:
    """Whether this consumer may rightly be without a message that waits, or others because of it."""
    wants = bool(event.selector) or bool(event.durable) or event.no_local or event.exclusive
    return wants or event.priority != 0 or event.prefetch == 0

"""Traits of a client: what its library does by itself, so that nobody need know a library by name.

A ``connect`` declares them. Where it does not (histories of version 1, agents that do not tell) they follow from
``via``.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

#: How often a JMS client delivers a message, by default, before it gives it up by itself.
JMS_DELIVERIES: Final = 7


class Traits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the library at a host does.

    * ``settles_on_write``: the broker settles what it writes to an ``auto`` consumer (STOMP).
    * ``settles_by_itself``: the library does, at a moment of its own (JMS).
    * ``settles_on_arrival``: it does as soon as a message is here, whether or not the application is given it.
    * ``awaits_receipt``: an ``ok`` is the broker's own answer.
    * ``checks_expiry``: it discards what its clock calls expired.
    * ``stamps_expiration``: it turns a time to live into an expiration, by its host's clock (JMS).
    * ``tells_given``: a consumer that closes says how far its application had got (JMS).
    * ``transaction_scope``: what an open transaction of the host holds: nothing, what one session does (its sends),
      the same or what one ``consumer`` settles and what is sent from then on, by what is done first, or all that the
      connection sends and settles.
    * ``returns_rollbacks``: what it acknowledged in a transaction it does not hold any more, so after a rollback it is
      the broker's again (AMQP 1.0, whose deliveries are settled at once).
    * ``gives_up_after``: deliveries of one message, rolled back each time, after which it rejects it; 0: never.
    * ``widens_window``: what the application was given makes room for another message before it is settled.
    * ``seen_when_taken``: an arrival is seen only when the application is given it; one more may be here unseen.
    * ``keeps_types``: a property travels with its type, not as a text (OpenWire).
    * ``keeps_numbers``: one that says a number is a number to the broker's selectors, although it travels as a text.
    * ``resumes``: a durable consumer that comes back goes on with its session: what was in flight is sent again, and
      its delivery has begun before (MQTT 5, 3.3.2.3.3 and 4.4).
    * ``whole_seconds``: its protocol tells a time to live in seconds, and a broker may count them by a clock of whole
      seconds: a message lives up to one longer (MQTT 5).
    * ``anonymous``: its connections bear no name of the client's: no broker knows two of them to be one client's.
    * ``beats_twice``: it sends a heart-beat twice in each period that it has promised, from the hello on.
    * ``beats_in_seconds``: heart-beats are agreed on in whole seconds, from the hello on, and its end gives up when it
      has heard nothing for two intervals (AMQP 0-9-1, 4.2.7).
    * ``broker_waits_ms``: so long the broker waits for a sign of life, as it said itself, whatever was asked for; 0:
      for ever (AMQP 1.0, 2.4.5).
    * ``broker_closes_ms``: by then it has to end the connection of a silent client (MQTT 5, 3.1.2.10).
    """

    settles_on_write: bool = False
    settles_by_itself: bool = False
    settles_on_arrival: bool = False
    awaits_receipt: bool = False
    checks_expiry: bool = False
    stamps_expiration: bool = False
    tells_given: bool = False
    transaction_scope: Literal["none", "session", "consumer", "connection"] = "none"
    returns_rollbacks: bool = False
    gives_up_after: int = 0
    widens_window: bool = False
    seen_when_taken: bool = False
    keeps_types: bool = False
    keeps_numbers: bool = False
    resumes: bool = False
    whole_seconds: bool = False
    beats_twice: bool = False
    beats_in_seconds: bool = False
    anonymous: bool = False
    broker_waits_ms: int | None = None
    broker_closes_ms: int | None = None

    @property
    def known(self) -> bool:
        """Whether anybody has told them."""
        return self is not UNKNOWN

    @property
    def settles_what_arrives(self) -> bool:
        """Whether it settles in mode ``auto`` what is seen to arrive: as it comes, or because it is given out then;
        perhaps, if nobody has told.
        """
        return self.settles_on_arrival or self.seen_when_taken or not self.known

    @property
    def leaves_rollbacks(self) -> bool:
        """Nobody says who gives out again what it acknowledged in a transaction that was rolled back: of STOMP, whether
        the broker sends it once more; of a JMS library that nobody knows, whether it has kept it.
        """
        scope = self.transaction_scope
        return scope == "consumer" or (scope == "connection" and not self.settles_by_itself)


STOMP: Final = Traits(settles_on_write=True, awaits_receipt=True, transaction_scope="connection")
JMS: Final = Traits(
    settles_by_itself=True,
    checks_expiry=True,
    transaction_scope="connection",
    gives_up_after=JMS_DELIVERIES,
    stamps_expiration=True,
    tells_given=True,
    widens_window=True,
    keeps_types=True,
)
#: Of a host that nobody has told of; it may do what makes a claim doubtful.
UNKNOWN: Final = Traits(widens_window=True)


def traits_of(via: str, *, checks_expiry: bool) -> Traits:
    """What follows from the name of a library."""
    return msgspec.structs.replace(STOMP if via == "stomp" else JMS, checks_expiry=checks_expiry)

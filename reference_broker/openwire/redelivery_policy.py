"""Redelivery as ActiveMQ's Java client does it: how often, after what pause, and when a message is given up.

The broker knows nothing of this: after a rollback (or ``recover``, or an exception of a listener) the client keeps its
messages, raises their count, and delivers them to its own application again. plug-in, which uses the same numbers.

* ``maximum_redeliveries`` 6: seven deliveries, counts 1 to 7; the rollback of the seventh gives the message up. 0: one
  delivery. -1: it is never given up.
* The pause before the first redelivery is ``initial_redelivery_delay_ms``, before each later one
  ``redelivery_delay_ms``; with ``use_exponential_back_off`` it is the pause before, times ``back_off_multiplier``, at
  most ``maximum_redelivery_delay_ms`` (-1: no limit) but never less than ``redelivery_delay_ms``.
* ``use_collision_avoidance`` moves each pause after the first by up to ``collision_avoidance_factor`` of itself, either
  way. The chance comes from the caller, as a number from -1 to 1: nothing here is random.
* Each message is judged by its own count. ActiveMQ judges the whole batch by its newest message, so that a fresh one
  may be condemned and an old one spared by its neighbours: ``by_newest`` does the same.
* A commit ends the series: the next rollback begins with the initial pause again.
* ``pre_dispatch_check``: a transacted session gives up what arrives with a count above the maximum, undelivered.
"""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = -1


class PolicyError(ValueError):
    """An option is unusable. The text shows the value and what would be accepted."""


class RedeliveryPolicy:
    """The numbers, with ActiveMQ's defaults."""

    __slots__ = ("back_off_multiplier", "by_newest", "collision_avoidance_factor", "initial_redelivery_delay_ms",
                 "maximum_redeliveries", "maximum_redelivery_delay_ms", "pre_dispatch_check",
                 "redelivery_delay_ms", "use_collision_avoidance", "use_exponential_back_off")  # fmt: skip

    def __init__(
        self,
        *,
        maximum_redeliveries: int = 6,
        initial_redelivery_delay_ms: int = 1000,
        redelivery_delay_ms: int = 1000,
        maximum_redelivery_delay_ms: int = UNLIMITED,
        use_exponential_back_off: bool = False,
        back_off_multiplier: float = 5.0,
        use_collision_avoidance: bool = False,
        collision_avoidance_factor: float = 0.15,
        pre_dispatch_check: bool = True,
        by_newest: bool = False,
    ) -> None:
        for name, value, least in (
            ("maximumRedeliveries", maximum_redeliveries, UNLIMITED),
            ("initialRedeliveryDelay", initial_redelivery_delay_ms, 0),
            ("redeliveryDelay", redelivery_delay_ms, 0),
            ("maximumRedeliveryDelay", maximum_redelivery_delay_ms, UNLIMITED),
        ):
            if value < least:
                raise PolicyError(f"{name} is {value}; give {least} or more")
        if back_off_multiplier <= 0:
            raise PolicyError(f"backOffMultiplier is {back_off_multiplier}; give a number above 0")
        if not 0 <= collision_avoidance_factor <= 1:
            raise PolicyError(f"collisionAvoidanceFactor is {collision_avoidance_factor}; give a number from 0 to 1")
        self.maximum_redeliveries = maximum_redeliveries
        self.initial_redelivery_delay_ms = initial_redelivery_delay_ms
        self.redelivery_delay_ms = redelivery_delay_ms
        self.maximum_redelivery_delay_ms = maximum_redelivery_delay_ms
        self.use_exponential_back_off = use_exponential_back_off
        self.back_off_multiplier = back_off_multiplier
        self.use_collision_avoidance = use_collision_avoidance
        self.collision_avoidance_factor = collision_avoidance_factor
        self.pre_dispatch_check = pre_dispatch_check
        self.by_newest = by_newest

    def __str__(self) -> str:
        pairs = ", ".join(f"{option} = {_text(getattr(self, field))}" for option, field in OPTIONS.items())
        return f"RedeliveryPolicy {{{pairs}}}"

    def exhausted(self, redelivery_count: int) -> bool:
        """Whether a message that was delivered again so often must not be delivered once more."""
        return self.maximum_redeliveries != UNLIMITED and redelivery_count > self.maximum_redeliveries

    def first_ms(self) -> int:
        """The pause before the first redelivery."""
        return self.initial_redelivery_delay_ms

    def next_ms(self, before_ms: int, chance: float = 0.0) -> int:
        """The pause after one of ``before_ms``. ``chance`` (-1 to 1) moves it, if collisions are to be avoided."""
        pause_ms = self.redelivery_delay_ms
        if before_ms > 0 and self.use_exponential_back_off and self.back_off_multiplier > 1:
            pause_ms = int(before_ms * self.back_off_multiplier)
            most_ms = self.maximum_redelivery_delay_ms
            if most_ms != UNLIMITED and pause_ms > most_ms:
                pause_ms = max(most_ms, self.redelivery_delay_ms)
        if self.use_collision_avoidance:
            pause_ms += int(pause_ms * self.collision_avoidance_factor * chance)
        return pause_ms

    def cause(self, deliveries: int, cause: str = "null") -> str:
        """What the POISON acknowledgement says, in ActiveMQ's words. ``deliveries``: how often it was delivered."""
        return f"Delivery[{deliveries}] exceeds redelivery policy limit:{self}, cause:{cause}"


#: ActiveMQ's option -> the field here, in the order of ActiveMQ's text.
OPTIONS: Final[dict[str, str]] = {
    "collisionAvoidanceFactor": "collision_avoidance_factor",
    "maximumRedeliveries": "maximum_redeliveries",
    "maximumRedeliveryDelay": "maximum_redelivery_delay_ms",
    "initialRedeliveryDelay": "initial_redelivery_delay_ms",
    "useCollisionAvoidance": "use_collision_avoidance",
    "useExponentialBackOff": "use_exponential_back_off",
    "backOffMultiplier": "back_off_multiplier",
    "redeliveryDelay": "redelivery_delay_ms",
    "preDispatchCheck": "pre_dispatch_check",
}


def policy_from_options(options: dict[str, str]) -> RedeliveryPolicy:
    """A policy from the options of a URI (``jms.redeliveryPolicy.maximumRedeliveries=2``, without the prefix). Raises
    ``PolicyError`` for an unknown option or a value that is none.
    """
    policy = RedeliveryPolicy()
    fields: dict[str, object] = {}
    for option, text in options.items():
        field = OPTIONS.get(option)
        if field is None:
            raise PolicyError(f"redelivery option {option!r} is unknown; one of {', '.join(OPTIONS)}")
        fields[field] = _value(option, text, getattr(policy, field))
    return RedeliveryPolicy(**fields)  # type: ignore[arg-type] # _value gives each field its own type


def _value(option: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        if text in {"true", "false"}:
            return text == "true"
        raise PolicyError(f"{option} is {text!r}; give true or false")
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError:
        kind = "an integer" if isinstance(default, int) else "a number"
        raise PolicyError(f"{option} is {text!r}; give {kind}") from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Delivered:
    """One message that the application has got: its id, and how often it was delivered again before (0: never)."""

    __slots__ = ("message_id", "redelivery_count")

    def __init__(self, message_id: str, redelivery_count: int) -> None:
        self.message_id = message_id
        self.redelivery_count = redelivery_count


class GivenUp:
    """A message that is to be acknowledged as POISON, and why."""

    __slots__ = ("cause", "message_id")

    def __init__(self, message_id: str, cause: str) -> None:
        self.message_id = message_id
        self.cause = cause


class Decision:
    """What a rollback does: what is given up; what is delivered again (oldest first, with its new count), and when."""

    __slots__ = ("again", "given_up", "pause_ms")

    def __init__(self, given_up: list[GivenUp], again: list[Delivered], pause_ms: int) -> None:
        self.given_up = given_up
        self.again = again
        self.pause_ms = pause_ms


class Redeliveries:
    """The series of redeliveries of one consumer."""

    __slots__ = ("_pause_ms", "_rolled_back", "policy")

    def __init__(self, policy: RedeliveryPolicy) -> None:
        self.policy = policy
        self._rolled_back = False
        self._pause_ms = 0

    def committed(self) -> None:
        """The application went on: the series is over."""
        self._rolled_back = False
        self._pause_ms = 0

    def refused(self, message_id: str, redelivery_count: int) -> GivenUp | None:
        """What arrived in a transacted session is given up undelivered, if its count is above the maximum already."""
        policy = self.policy
        if policy.pre_dispatch_check and policy.exhausted(redelivery_count):
            return GivenUp(message_id, policy.cause(redelivery_count))
        return None

    def roll_back(self, batch: list[Delivered], chance: float = 0.0) -> Decision:
        """The application did not want them. ``batch`` is everything that it got since the last end, oldest first."""
        policy = self.policy
        again: list[Delivered] = []
        given_up: list[GivenUp] = []
        newest = batch[-1].redelivery_count + 1 if batch else 0
        for delivered in batch:
            count = delivered.redelivery_count + 1
            if policy.exhausted(newest if policy.by_newest else count):
                given_up.append(GivenUp(delivered.message_id, policy.cause(count)))
            else:
                again.append(Delivered(delivered.message_id, count))
        if again:
            self._pause_ms = policy.next_ms(self._pause_ms, chance) if self._rolled_back else policy.first_ms()
            self._rolled_back = True
        else:
            self.committed()
        return Decision(given_up, again, self._pause_ms)

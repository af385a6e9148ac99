"""Seed 002's list "how to identify": are consumers starved because memory is taken by destinations that nobody reads?

Rules
* The conditions are asked one by one with their values; the last two questions join them.
* From which share of the broker's memory on cursors read nothing depends on its rules: the queue's mark in G1 (70 % by
  default), 100 % in G2 and G3; G0 and ``fair`` never starve a queue for another's sake. Unknown rules: 70 %, as the
  seed has it.
* What the cursor itself says (``doesCursorHaveSpace``) decides; where it cannot be asked, the queue's 0 % does. A queue
  that got a few messages in before memory was full is starved as well, and shows more than 0 %.
* A consumer that gets nothing for a reason of its own (window full, selector, queue paused) is not starved.
* The remedy names the destinations that hold the memory. (The seed advises to purge the starved queue; there is nothing
  of it in memory, so that frees nothing.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.operating.answer import NO, UNKNOWN, YES, Answer, said
from brokerproof.reference_broker.core.selector import CONVERSION

if TYPE_CHECKING:
    from brokerproof.conformance.operating.sight import Sight

#: Rules of memory -> from which percentage of the broker's memory on other queues' cursors read nothing.
THRESHOLDS: Final = {"G0": None, "G1": 70, "G2": 100, "G3": 100, "fair": None}
SEEDS_PERCENT: Final = 70
#: The same for reading less than a page at a time: from 5.15.9 on a batch ends above 90 %.
SLOWING: Final = {**THRESHOLDS, "G3": 91}
#: A destination that holds this share of the broker's memory or more is told.
HOLDER_PERCENT: Final = 5


def threshold(sight: Sight) -> int | None:
    """From which percentage on this broker starves; None: it does not."""
    return THRESHOLDS.get(sight.memory_rules, SEEDS_PERCENT)


class _Seen:
    """Who is who in the seed's story."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        #: A: queues whose consumers get nothing; queues that look like it, with their own reason.
        self.idle, self.alike = _without_messages(sight)
        self.zero = [name for name in self.idle if sight.destinations[name][-1].get("MemoryPercentUsage") == 0]
        self.shut = [name for name in self.idle if sight.space.get(name) is False]
        self.percent = sight.broker[-1].get("MemoryPercentUsage")
        self.limit = threshold(sight)
        #: Whether cursors read nothing; None: the broker does not say how full it is.
        self.full = None if self.percent is None else self.limit is not None and self.percent >= self.limit
        #: B: who holds the memory, of these without consumers, of these with slow ones.
        self.holders = _holders(sight)
        self.unread = [name for name in self.holders if not sight.destinations[name][-1].get("ConsumerCount")]
        self.slow = [name for name in self.holders if name not in self.unread and name not in self.idle]
        undecided = [name for name in self.zero if name not in sight.space]
        self.starved = [name for name in self.idle if self.full and (name in self.shut or name in undecided)]
        self.held_up = [name for name in _waiting(sight) if name not in self.slow]


def starved(sight: Sight) -> list[str]:
    """The queues whose consumers are."""
    seen = _Seen(sight)
    return seen.starved if seen.holders else []


def share(sight: Sight, name: str) -> int:
    """How much of the broker's memory a destination holds, in percent; 0 where the broker does not say."""
    whole = sight.broker[-1].get("MemoryLimit") or 0
    used = int(sight.destinations[name][-1].get("MemoryUsageByteCount", 0))
    return 100 * used // whole if whole else 0


def questions(sight: Sight) -> list[Answer]:
    """The list, and what follows from it."""
    seen = _Seen(sight)
    return [*_conditions(sight, seen), _starvation(seen), _slowed(sight, seen)]


def _conditions(sight: Sight, seen: _Seen) -> list[Answer]:
    idle = seen.idle
    asked = [name for name in idle if name in sight.space]
    return [
        Answer(
            "idle-consumers",
            "Do consumers receive no messages despite a backlog?",
            said(bool(idle)),
            [_state(sight, name) for name in idle] + [f"not counted: {text}" for text in seen.alike],
        ),
        Answer(
            "no-memory",
            "Do the queues of those consumers show a MemoryPercentUsage of 0 %?",
            said(bool(seen.zero)),
            [f"{name}: MemoryPercentUsage {_percent(sight, name)} %" for name in idle],
        ),
        Answer(
            "broker-memory",
            "Is the broker's MemoryPercentUsage at the point where cursors stop reading?",
            said(seen.full),
            [_rule(sight, seen.percent, seen.limit)],
        ),
        Answer(
            "holders",
            "Do destinations without consumers hold a substantial part of that memory?",
            said(bool(seen.unread)),
            [_holding(sight, name) for name in seen.holders],
        ),
        Answer(
            "cursor-space",
            "Do the cursors of those queues say themselves that they have no space (doesCursorHaveSpace)?",
            said(bool(seen.shut)) if not idle or asked else UNKNOWN,
            [f"{name}: {'no space' if name in seen.shut else 'has space'}" for name in asked],
        ),
    ]


def _starvation(seen: _Seen) -> Answer:
    found = seen.starved if seen.holders else []
    guilty = seen.unread or seen.holders
    return Answer(
        "starvation",
        "Are consumers starved of memory that other destinations hold?",
        UNKNOWN if seen.full is None and seen.idle else said(bool(found)),
        [f"{name} waits for {', '.join(guilty)}" for name in found],
        _remedy(guilty, found) if found else "",
        problem=True,
    )


def _slowed(sight: Sight, seen: _Seen) -> Answer:
    question = "Are fast consumers slowed down to the speed of slow consumers elsewhere?"
    limit = SLOWING.get(sight.memory_rules, SEEDS_PERCENT)
    peak = max((one.get("MemoryPercentUsage", 0) for one in sight.broker), default=0)
    if limit is None or peak < limit or not seen.slow or not seen.held_up or seen.starved:
        return Answer("slowed", question, UNKNOWN if seen.full is None else NO, problem=True)
    names = ", ".join(seen.slow)
    values = [f"{', '.join(seen.held_up)}: messages wait for {names}", *(_holding(sight, name) for name in seen.slow)]
    remedy = (
        f"set a memoryLimit for {names}, or make their consumers faster: they hold the broker's memory, and other "
        "queues get only what those consumers free"
    )
    return Answer("slowed", question, YES, values, remedy, problem=True)


def _without_messages(sight: Sight) -> tuple[list[str], list[str]]:
    """(queues with a backlog whose consumers could take messages and get none, those with a reason of their own)."""
    idle: list[str] = []
    alike: list[str] = []
    for name in sight.destinations:
        samples = sight.steady(name)
        if not name.startswith("queue://") or len(samples) < 2:
            continue
        if not all(one.get("ConsumerCount", 0) > 0 and _backlog(one) > 0 for one in samples):
            continue
        if sight.moved(name, "DispatchCount") or sight.moved(name, "DequeueCount"):
            continue
        reason = _reason(sight, name)
        if reason:
            alike.append(f"{name}: {reason}")
        else:
            idle.append(name)
    return idle, alike


def _waiting(sight: Sight) -> list[str]:
    """Queues whose consumers could take messages that wait."""
    return [
        name
        for name, samples in sight.destinations.items()
        if name.startswith("queue://")
        and samples[-1].get("ConsumerCount", 0) > 0
        and _backlog(samples[-1]) > 0
        and not _reason(sight, name)
    ]


def _reason(sight: Sight, name: str) -> str:
    """Why its consumers get nothing although there is memory; "": no such reason is seen."""
    consumers = sight.of(name)
    if sight.destinations[name][-1].get("Paused"):
        return "the queue is paused"
    if consumers and all(one.get("DispatchedQueueSize", 0) >= max(one.get("PrefetchSize", 0), 1) for one in consumers):
        held = sum(one.get("DispatchedQueueSize", 0) for one in consumers)
        return f"its consumers hold {held} messages that they have not acknowledged, and their prefetch allows no more"
    if consumers and all(one.get("Selector") for one in consumers):
        selector = str(consumers[0]["Selector"]).removeprefix(CONVERSION)  # STOMP's consumers have it without knowing
        return f"all its consumers have a selector ({selector}) that may fit none of them"
    return ""


def _backlog(figures: dict[str, int]) -> int:
    return figures.get("QueueSize", 0) - max(figures.get("InFlightCount", 0), 0)


def _holders(sight: Sight) -> list[str]:
    """Who holds a share of the broker's memory, the largest first."""
    whole = sight.broker[-1].get("MemoryLimit") or 0
    held = {name: samples[-1].get("MemoryUsageByteCount", 0) for name, samples in sight.destinations.items()}
    chosen = [name for name, used in held.items() if whole and 100 * used >= HOLDER_PERCENT * whole]
    return sorted(chosen, key=lambda name: (-held[name], name))


def _state(sight: Sight, name: str) -> str:
    last = sight.destinations[name][-1]
    windows = ", ".join(f"{one.get('DispatchedQueueSize')} of {one.get('PrefetchSize')}" for one in sight.of(name)[:3])
    return (
        f"{name}: {last['ConsumerCount']} consumers (prefetch in use: {windows or 'unknown'}), "
        f"{_backlog(last)} messages wait, none dispatched in {sight.seconds:.1f} s"
    )


def _percent(sight: Sight, name: str) -> object:
    return sight.destinations[name][-1].get("MemoryPercentUsage", "unknown")


def _rule(sight: Sight, percent: int | None, limit: int | None) -> str:
    rules = f"memory rules {sight.memory_rules}"
    point = "no queue is starved for another's sake" if limit is None else f"cursors stop at {limit} %"
    return f"broker {sight.name}: MemoryPercentUsage {'unknown' if percent is None else percent} % ({rules}: {point})"


def _holding(sight: Sight, name: str) -> str:
    last = sight.destinations[name][-1]
    return (
        f"{name}: {share(sight, name)} % of the broker's memory ({last.get('MemoryUsageByteCount', 0)} bytes), "
        f"{last.get('ConsumerCount', 0)} consumers, {last.get('QueueSize', 0)} messages, "
        f"own limit {last.get('MemoryLimit', 'unknown')}"
    )


def _remedy(holders: list[str], starved: list[str]) -> str:
    names, hungry = ", ".join(holders), ", ".join(starved)
    return (
        f"now: consume from {names}, or purge it if its messages may be lost (not {hungry}), or restart the broker; "
        f"then send one message to {hungry} if it stays asleep. For good: set a memoryLimit in the policy entry of "
        "every destination that may build up a backlog without consumers, or with slow ones"
    )

"""Seed 003's questions: what do negative or strange in-flight counts mean here, and what to do about them?

Rules
* A negative count that moves is expected: consumers left before their messages were written (asynchronous dispatch and
  a prefetch larger than what they take). It costs dispatches, and comes back.
* At rest (nothing dispatched or dequeued while we looked) the count must equal what the consumers hold. If not, the
  counters are wrong for good: statistics were reset while messages were in flight, or a defect of the release. A count
  that is too low is not at rest while frames wait for a socket: it comes back when they are written, or thrown away.
* ``DispatchCount / DequeueCount`` is what churn costs; it is told from ``WASTE_RATIO`` on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.operating.answer import Answer, said

if TYPE_CHECKING:
    from brokerproof.conformance.operating.sight import Sight

WASTE_RATIO: Final = 2.0
#: Fewer dispatches than this say nothing about churn.
FEW: Final = 20


def questions(sight: Sight) -> list[Answer]:
    """The list, about queues."""
    queues = [name for name in sight.destinations if name.startswith("queue://") and sight.destinations[name]]
    negative = [name for name in queues if min(_series(sight, name)) < 0]
    moving = [name for name in queues if sight.moved(name, "DispatchCount") or sight.moved(name, "DequeueCount")]
    wrong = [name for name in queues if name not in moving and _difference(sight, name)]
    wasteful = [name for name in queues if _ratio(sight, name) >= WASTE_RATIO]
    churn = [name for name in negative if name not in wrong]
    eager = [one for one in sight.consumers if one.get("DispatchAsync")]
    return [
        Answer(
            "negative-in-flight",
            "Is an in-flight count negative?",
            said(bool(negative)),
            [_swing(sight, name) for name in negative],
            "none needed: consumers left before what was assigned to them was written, and the count comes back; to be "
            "rid of it see the next questions"
            if churn
            else "",
        ),
        Answer(
            "asynchronous-dispatch",
            "Are there consumers with asynchronous dispatch, which lets the count swing?",
            said(bool(eager)),
            [f"{len(eager)} of {len(sight.consumers)} consumers; prefetch {_prefetches(sight)}"] if eager else [],
        ),
        Answer(
            "wasted-dispatches",
            "Are many more messages dispatched than consumed, because consumers leave with a full prefetch?",
            said(bool(wasteful)),
            [_waste(sight, name) for name in wasteful],
            "set the prefetch to what a consumer takes before it leaves (10 in a batch of 10: "
            "?consumer.prefetchSize=10, activemq.prefetchSize:10), or dispatch synchronously (dispatchAsync=false)"
            if wasteful
            else "",
        ),
        Answer(
            "unbalanced-in-flight",
            "Are in-flight counts wrong at rest, so that they will not come back?",
            said(bool(wrong)),
            [
                f"{name}: InFlightCount {_series(sight, name)[-1]}, but its consumers hold {_held(sight, name)}"
                for name in wrong
            ],
            "the statistics were reset while messages were in flight, or the release miscounts: reset them "
            "(resetStatistics) when nothing is in flight; messages are not affected"
            if wrong
            else "",
            problem=True,
        ),
    ]


def _series(sight: Sight, name: str) -> list[int]:
    return [sample.get("InFlightCount", 0) for sample in sight.destinations[name]]


def _held(sight: Sight, name: str) -> int:
    return sum(one.get("DispatchedQueueSize", 0) for one in sight.of(name))


def _difference(sight: Sight, name: str) -> int:
    """How far a count that stands still is from what consumers hold; 0 if consumers came or went meanwhile."""
    samples = sight.steady(name)
    if len(samples) < 2 or len({one.get("ConsumerCount") for one in samples}) > 1 or len(set(_series(sight, name))) > 1:
        return 0
    if samples[-1].get("ConsumerCount", 0) != len(sight.of(name)):
        return 0
    difference = _series(sight, name)[-1] - _held(sight, name)
    return 0 if difference < 0 and sight.unwritten else difference


def _swing(sight: Sight, name: str) -> str:
    series = _series(sight, name)
    return f"{name}: from {min(series)} to {max(series)} in {sight.seconds:.1f} s, now {series[-1]}"


def _ratio(sight: Sight, name: str) -> float:
    last = sight.destinations[name][-1]
    dispatched = last.get("DispatchCount", 0) - max(last.get("InFlightCount", 0), 0)
    return dispatched / max(last.get("DequeueCount", 0), 1) if dispatched >= FEW else 0.0


def _waste(sight: Sight, name: str) -> str:
    last = sight.destinations[name][-1]
    dispatched, vain = last.get("DispatchCount", 0), last.get("WastedDispatchCount")
    # What was given back before it was written is wasted, and not counted as dispatched yet.
    wasted = f", {vain} of them in vain" if vain is not None and vain <= dispatched else ""
    return (
        f"{name}: {dispatched} dispatched{wasted}, {last.get('DequeueCount', 0)} dequeued "
        f"({_ratio(sight, name):.1f} for each)"
    )


def _prefetches(sight: Sight) -> str:
    sizes = sorted({one.get("PrefetchSize", 0) for one in sight.consumers})
    return ", ".join(str(size) for size in sizes[:5])

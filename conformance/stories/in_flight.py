"""Document 003: in-flight counts below zero.

Consumers take ten messages of a large prefetch and leave. Their links are stalled meanwhile, so that what was assigned
to them is not written yet: a departure takes off the count what has not been counted. ``crowd`` is the text's own case,
where links that are only slow do the same; there the count is sampled while everything moves.
"""

from __future__ import annotations

from typing import Literal

from brokerproof.conformance.experiment.configuration import LinkSpec
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Leave, Subscribe, Take
from brokerproof.conformance.experiment.steps.fault import Resume, Stall
from brokerproof.conformance.experiment.steps.parallel import Parallel
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Advance, Counters, Settle
from brokerproof.conformance.stories.story import SURE, Expects, Half, Story, client, plot

BATCH, BACKLOG = 10, 160
#: The text's: consumers, and what waits for them.
TEN, FILLED = 10, 30_000
#: A departure is not answered; it is booked by then.
BOOKED = Advance(ms=1000)
#: Large enough that a backlog does not fit into the buffers of a socket.
SIZE = 120_000
#: The same where ten links share it.
LARGE = 280_000
BALANCED: Expects = {"rest:q0": 0, "INF-001": "satisfied", "INF-006": "satisfied"}
SWINGS: Expects = {"lowest:q0": (-BACKLOG * 2, -1), **BALANCED}
NEVER: Expects = {"lowest:q0": (0, 0), **BALANCED, "INF-002": "satisfied"}


def quits(
    prefetch: int,
    dispatch: Literal["async", "sync"] = "async",
    *,
    consumers: int = 1,
    stays: bool = False,
    size: int = SIZE,
) -> Program:
    """Consumers take a batch each; then a backlog comes while their links hang, and they leave, but for one that
    ``stays``.
    """
    names = [f"c{number}" for number in range(consumers)]
    come: list[AnyStep] = [
        Subscribe(host=1 + n, prefetch=prefetch, dispatch=dispatch, ack="individual") for n in range(consumers)
    ]
    work: list[AnyStep] = [Send(count=BATCH * consumers, size=size)]
    for n in range(consumers):
        window = min(BATCH, prefetch)  # what it does not confirm in between it cannot get
        for _ in range(BATCH // window):
            work += [Take(host=n, deadline_ms=SURE, count=window), *(Ack(host=n) for _ in range(window))]
    leaving = consumers - stays
    hang: list[AnyStep] = [Stall(link=1, toward="client") for _ in range(leaving)]
    go: list[AnyStep] = [step for _ in range(leaving) for step in (Counters(), Leave(), BOOKED, Counters())]
    back: list[AnyStep] = [Resume() for _ in range(leaving)]
    hosts = (client("p0"), *(client(name, 0, "jms") for name in names))
    return plot(come, work, hang, Send(count=BACKLOG, size=size), go, back, Settle(), hosts=hosts)


def rounds(prefetch: int, times: int = 5) -> Program:
    """A consumer that takes a batch and comes back, again and again."""
    one: list[AnyStep] = [
        Subscribe(host=1, prefetch=prefetch),
        Take(deadline_ms=SURE, count=BATCH),
        Ack(upto=BATCH - 1),
    ]
    steps: list[AnyStep] = [Send(count=times * BATCH), *([*one, Settle(), Leave(), Counters()] * times), Settle()]
    return plot(steps, hosts=(client("p0"), client("c0", 0, "jms")))


def crowd(prefetch: int) -> Program:
    """A full queue; ten consumers of a batch each come at once, leave, and are back at once."""
    names = [f"c{number}" for number in range(TEN)]
    stays: list[list[AnyStep]] = [
        [
            Subscribe(host=1 + n, prefetch=prefetch, ack="auto"),
            Take(host=1 + n, deadline_ms=SURE, count=BATCH),
            Leave(host=1 + n),
        ]
        for n in range(TEN)
    ]
    watched: list[AnyStep] = [Counters(count=100, every_ms=5)]
    return plot(
        Send(count=FILLED, size=1024),
        Settle(),
        Parallel(of=[*(stay * 2 for stay in stays), watched]),  # type: ignore[arg-type]  # lists of steps
        Settle(),
        hosts=(client("p0"), *(client(name, 0, "jms") for name in names)),
        links={name: LinkSpec(name, bytes_per_second=1_000_000) for name in names},
    )


def stories() -> list[Story]:
    """Of document 003."""
    return [*_prefetches(), *_crowds()]


def _prefetches() -> list[Story]:
    """One consumer at a time."""
    return [
        Story(
            "003-negative",
            "prefetch 1000, dispatched asynchronously: the count swings below zero and comes back",
            "in-flight",
            Half(quits(1000), SWINGS),
            Half(quits(1000, "sync"), NEVER),
            "none is needed: the books are balanced. dispatchAsync=false keeps the count above zero",
            "a slow consumer then slows the dispatch to all others",
            "ledger-sync-negative",
        ),
        Story(
            "003-prefetch-of-a-batch",
            "a prefetch of what a consumer takes before it leaves bounds the swing",
            "in-flight",
            Half(quits(1000), SWINGS),
            Half(quits(BATCH), {"lowest:q0": (-BATCH, 0), **BALANCED}),
            "a prefetch of 10 for batches of 10",
            "a round trip for each batch",
            "ledger-close-again",
        ),
        Story(
            "003-prefetch-one",
            "a prefetch of one: hardly any swing, and a round trip for each message",
            "in-flight",
            Half(quits(1000), SWINGS),
            Half(quits(1), {"lowest:q0": (-1, 0), "taken": BATCH, **BALANCED}),
            "a prefetch of 1",
            "a round trip for each message; a prefetch of the batch does as well",
            "ledger-close-again",
        ),
        Story(
            "003-synchronous",
            "dispatched synchronously, no prefetch makes the count negative: ten, and one",
            "in-flight",
            Half(quits(BATCH, "sync"), NEVER),
            Half(quits(1, "sync"), NEVER),
            "dispatchAsync=false",
            "a slow consumer then slows the dispatch to all others",
            "ledger-sync-negative",
        ),
        Story(
            "003-wasted-dispatches",
            "a consumer that takes ten and comes back: the whole prefetch is dispatched each time, in vain",
            "in-flight",
            Half(rounds(1000), {"dispatched:q0": (100, 200), "taken": 50, "rest:q0": 0, "INF-004": "satisfied"}),
            Half(rounds(BATCH), {"dispatched:q0": (50, 100), "taken": 50, "rest:q0": 0, "INF-004": "satisfied"}),
            "a prefetch of 10 for batches of 10",
            "a round trip for each batch",
            "ledger-dispatch-falls",
        ),
    ]


def _crowds() -> list[Story]:
    """Several at once."""
    crowded = {"taken": 2 * TEN * BATCH, **BALANCED}
    return [
        Story(
            "003-thirty-thousand",
            "30,000 messages; ten consumers take ten each, leave and are back at once: thousands of dispatches in vain",
            "in-flight",
            Half(crowd(1000), {"lowest:q0": (-TEN * 1000, -1), "wasted:q0": (5000, 2 * TEN * 1000), **crowded}),
            Half(crowd(BATCH), {"lowest:q0": (-TEN * BATCH, 0), "wasted:q0": (0, 2 * TEN * BATCH), **crowded}),
            "a prefetch of 10 for batches of 10",
            "a round trip for each batch",
            "ledger-close-again",
        ),
        Story(
            "003-ten-consumers",
            "ten consumers of ten messages each, as in the text, leave one after the other: the swing adds up tenfold",
            "in-flight",
            Half(quits(1000, consumers=10, size=LARGE), {**SWINGS, "lowest:q0": (-1600, -BACKLOG)}),
            Half(quits(1000, "sync", consumers=10, size=LARGE), {"lowest:q0": (0, 0), **BALANCED}),
            "dispatchAsync=false",
            "a slow consumer then slows the dispatch to all others",
            "ledger-sync-negative",
        ),
        Story(
            "003-many-consumers",
            "several consumers at once: the swing adds up, and what is left is what the one that stays holds",
            "in-flight",
            Half(quits(1000, consumers=4), SWINGS),
            Half(
                quits(BATCH, consumers=4, stays=True),
                {"lowest:q0": (-3 * BATCH, BATCH), "rest:q0": BATCH, "INF-001": "satisfied"},
            ),
            "a prefetch of 10 for batches of 10",
            "a round trip for each batch",
            "ledger-close-again",
        ),
    ]

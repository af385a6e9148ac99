"""Epilogues: what some programs have behind everything else, because hardly any of them comes to it by itself.

A durable subscription is away while what was published for it dies; who is back, or drains, finds a letter of it at
most. In the midst of a program something else nearly always has to do with the subscription or the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.experiment.destinations import ADVISORIES
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Leave, Send, Settle, Subscribe
from brokerproof.conformance.generate.frame import one_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser

#: A name that no other step draws: nobody else has used the subscription.
AWAY: Final = "away"
LIVES_MS: Final = (1000, 1, 10, 300, 2500)
#: How much longer than the message lives its subscriber stays away.
LONGER_MS: Final = (1500, 2, 1, 31_000)


def topics_of(program: Program) -> list[int]:
    """Its topics of the ordinary kind, as steps count them; on those of advisories nobody publishes but the broker."""
    dests = enumerate(program.destinations)
    return [place for place, dest in dests if dest.kind == "topic" and not dest.name.startswith(ADVISORIES)]


def with_dying_backlog(chooser: Chooser, program: Program) -> Program:
    """The same program, and at its end one or two durable subscribers who stay away for too long."""
    clients, topics = len(program.clients()), topics_of(program)
    dest, producer = topics[chooser.below(len(topics))], chooser.below(clients)
    hosts = list(range(min(1 + chooser.below(2), clients)))
    ms = one_of(chooser, LIVES_MS)
    steps: list[AnyStep] = [
        Subscribe(host=host, dest=dest, prefetch=(10, 2)[chooser.below(2)], durable=AWAY) for host in hosts
    ]
    steps += [Settle(), *(Leave(host=host, how="kill" if chooser.flag(30) else "drop") for host in hosts), Settle()]
    steps.append(Send(host=producer, dest=dest, ttl_ms=ms, count=1 + chooser.below(3)))
    steps += [Settle(), Advance(ms=ms + one_of(chooser, LONGER_MS))]
    if chooser.flag(50):
        steps += [*(Subscribe(host=host, dest=dest, prefetch=10, durable=AWAY) for host in hosts), Settle()]
    return program.with_steps([*program.steps, *steps])

"""Scenario templates of choosing: messages that differ in everything that selectors read, and consumers and browsers
whose selectors are about the values of these very messages, so that each border is met from both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.steps import Ack, AnyStep, Send, Settle, Subscribe, Take
from brokerproof.conformance.experiment.steps.selecting import Known, draw_selector_about, draw_text
from brokerproof.conformance.experiment.steps.send import GROUPS, KINDS
from brokerproof.conformance.generate.templates import dest_of

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.steps import Shape

#: Numbers at the borders of their types, and small ones, among which sums meet.
_WHOLE = (0, 1, 2, 3, 7, -1, -2, 10, 127, 128, -(2**31), 2**31)
_BROKEN = (0.5, 1.5, -1.25, 2.0, 0.1, 1e300, -7.0)
_LOOKS_MAX = 8


def _sender(chooser: Chooser, shape: Shape) -> int:
    """A client whose numbers travel as numbers, if there is one."""
    typed = [host for host in range(shape.clients) if shape.vias[host] == "jms"]
    return typed[chooser.below(len(typed))] if typed and not chooser.flag(20) else chooser.below(shape.clients)


def _varied(chooser: Chooser, shape: Shape, host: int, dest: int) -> Send:
    headers: dict[str, bool | int | float | str] = {}
    if chooser.flag(70):
        headers["trip_id"] = draw_text(chooser)
    if chooser.flag(60):
        headers["seat_no"] = _WHOLE[chooser.below(len(_WHOLE))]
    if chooser.flag(40):
        headers["was_paid"] = chooser.flag(50)
    if chooser.flag(50):
        headers["fare_eur"] = _BROKEN[chooser.below(len(_BROKEN))]
    if chooser.flag(25):
        headers["correlation-id"] = draw_text(chooser) or "request-1"
    if chooser.flag(25):
        headers["type"] = ("order", "a b")[chooser.below(2)]
    return Send(
        host=host,
        dest=dest,
        headers=headers,
        kind=KINDS[chooser.below(len(KINDS))],
        priority=(4, chooser.below(10))[chooser.below(2)],
        group=GROUPS[chooser.below(len(GROUPS))] if "groups" in shape.features else "",
        persistent=not chooser.flag(30),
    )


def looked_at(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """One backlog of messages that differ, and many browsers; each asks for what some of them are, or nearly are."""
    dest, host = dest_of(chooser, shape), _sender(chooser, shape)
    sends = [_varied(chooser, shape, host, dest) for _ in range(4 + chooser.below(6))]
    known = Known.of(sends)
    steps: list[AnyStep] = [*sends]
    for _ in range(3 + chooser.below(_LOOKS_MAX)):
        selector = draw_selector_about(chooser, known)
        who = chooser.below(shape.clients)
        steps.append(Subscribe(host=who, dest=dest, prefetch=1000, ack="auto", browser=True, selector=selector))
    return [*steps, Settle()]


def picked(chooser: Chooser, shape: Shape) -> list[AnyStep]:
    """Several consumers, there before or after, take what they want of messages that differ."""
    dest, host = dest_of(chooser, shape), _sender(chooser, shape)
    sends = [_varied(chooser, shape, host, dest) for _ in range(3 + chooser.below(6))]
    known, early = Known.of(sends), chooser.flag(50)
    consumers: list[AnyStep] = [
        Subscribe(
            host=chooser.below(shape.clients),
            dest=dest,
            prefetch=(1000, 10, 1)[chooser.below(3)],
            ack=("individual", "client", "auto")[chooser.below(3)],
            selector=draw_selector_about(chooser, known),
        )
        for _ in range(1 + chooser.below(3))
    ]
    steps: list[AnyStep] = [*consumers, *sends] if early else [*sends, *consumers]
    steps.append(Settle())
    for _ in consumers:
        steps += [Take(host=chooser.below(shape.clients), consumer=chooser.below(2), deadline_ms=10, count=3)]
        steps += [Ack(host=chooser.below(shape.clients), upto=chooser.below(3)), Settle()]
    return steps

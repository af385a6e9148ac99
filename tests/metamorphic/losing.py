"""What is lost of a mutant's kill beside an addition, and what a relation or a weakening changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import seldom_collected
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.false_positives.weakening import WEAKENINGS, weakened
from tests.metamorphic.additions import ADDITIONS, FILLING, Larger, resolved
from tests.metamorphic.relations import clocks_shifted, renamed

#: Memory of which a few messages take nothing that anybody would miss.
PLENTY_BYTES: Final = 1024 * 1024
RELATIONS: Final[dict[str, Callable[[Program], Program]]] = {"renamed": renamed, "clocks shifted": clocks_shifted}


class Kill(Struct, eq=False):
    """A mutant and a program in which it is seen."""

    mutant: str
    name: str
    program: Program
    seed: int | None

    def run(self, program: Program) -> History:
        """What the mutant does in a program."""
        with seldom_collected():
            return SimulatedWorld(mutant=self.mutant, seed=self.seed).run(program)

    def beside(self, larger: Larger) -> History:
        """What it does there beside something else."""
        with seldom_collected():
            return larger.run(self.mutant, self.seed)


def violated(history: History) -> set[str]:
    """The requirements that are violated."""
    with seldom_collected():
        return {v.requirement for v in judge_history(history) if v.verdict is VerdictKind.VIOLATED}


#: (mutant, kind of addition, its form, relation, or "weakened") -> why it does something else there.
EXCUSED: Final[dict[tuple[str, str], str]] = {
    ("letters-astray", "renamed"): "it sends dead letters to the queue that is called q0",
    ("selector-hides-every-second", "consumer"): "it hides by the broker's number of a message, of all that were sent",
    ("selector-hides-every-second", "temporary queue"): "likewise",
    ("selector-hides-every-second", "elsewhere"): "likewise",
    ("send-denied-but-kept", "consumer"): "it denies by the broker's number of a message, of all that were sent",
    ("send-denied-but-kept", "temporary queue"): "likewise",
    ("send-denied-but-kept", "elsewhere"): "likewise",
    ("send-denied-but-kept", "that sent"): "likewise",
    ("broker-counts-one-more", "rejecting"): "of the dead letters that it leaves nobody reads how many they are",
    ("broker-counts-one-more", "late"): "likewise",
    ("order-shuffled", "consumer"): "it holds every third message of all that were sent",
    ("journal-forgets-message", "consumer"): "it forgets every second message of all that were sent",
    ("journal-forgets-message", "temporary queue"): "likewise",
    ("journal-forgets-message", "elsewhere"): "likewise",
    (
        "bridge-sends-twice",
        "weakened",
    ): "two messages have one name: who sees less takes one for the other delivered again",
    ("prefetch-policy-always", "heavy"): "its neighbour's window is smaller, so it leaves most of its messages",
}


def forms(*, first: bool = False) -> Iterator[tuple[str, str]]:
    """All kinds of additions with their forms, or the first form of each."""
    for kind, several in ADDITIONS.items():
        for form in list(several)[:1] if first else several:
            yield kind, form


def lost(kill: Kill, *, first: bool = False) -> Iterator[tuple[str, str, str]]:
    """Kind and form of an addition beside which a requirement is violated no more, and that requirement."""
    program = resolved(kill.program, kill.mutant, kill.seed)
    plain = violated(kill.run(kill.program))
    scarce = _is_scarce(kill.program)
    for kind, form in forms(first=first):
        if {(kill.mutant, kind), (kill.mutant, form)} & EXCUSED.keys() or (scarce and form in FILLING):
            continue
        for requirement in sorted(plain - violated(kill.beside(ADDITIONS[kind][form](program)))):
            yield kind, form, requirement


def _is_scarce(program: Program) -> bool:
    """Whether a few messages more would matter."""
    broker = program.broker
    limits = [broker.memory_limit_bytes, broker.temp_limit_bytes, *(one.memory_limit_bytes for one in broker.policies)]
    # What is rejected, or expires, goes to the one dead-letter queue; what comes twice may have gone there, too.
    few = any(DEAD_LETTERS in command and "MAXDEPTH" in command for command in broker.mqsc)
    return few or any(limit and limit < PLENTY_BYTES for limit in limits)


def changed(kill: Kill) -> Iterator[tuple[str, str]]:
    """A relation under which, or a weakening by which, a requirement is violated that was not, and that requirement; or
    that is violated no more, though the relation changes nothing.
    """
    history = kill.run(kill.program)
    plain = violated(history)
    for name, relation in RELATIONS.items():
        if (kill.mutant, name) in EXCUSED:
            continue
        for requirement in sorted(plain ^ violated(kill.run(relation(kill.program)))):
            yield name, requirement
    for number, (world, weakenings) in enumerate(() if (kill.mutant, "weakened") in EXCUSED else WEAKENINGS):
        for requirement in sorted(violated(weakened(history, world, kill.seed or 0, *weakenings)) - plain):
            yield f"weakening {number}", requirement

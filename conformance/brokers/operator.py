"""An operator who gives a queue manager MQSC commands, by a command of a profile that reads them (``[operator]``).

Rules
* Others may use the queue manager: a program's commands are carried out if all that they name are its own queues and
  topics, by their names of this run. What concerns everybody is the administrator's.
* ``queues`` are commands for each queue of a program, before anybody uses it, ``after`` those when it is done with.
  What cannot be removed stays.
* The command's exit code is the answer: 0, refused (10 of ``runmqsc``, 2 of ``brokerproof mqsc``), or nobody could be
  asked.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.brokers.base import Operated
from brokerproof.conformance.brokers.placeholders import filled
from brokerproof.conformance.brokers.profile import revealed
from brokerproof.conformance.experiment.exits import SuiteProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokerproof.conformance.brokers.profile import Located
    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.program import Program

REFUSED: Final = (10, 2)
ASKED_S: Final = 60
COMMAND: Final = "operator.command"
#: A command about objects of a program; DISPLAY answers in words of its own, and authorities are the administrator's.
_OWN: Final = re.compile(r"(DEFINE|ALTER|DELETE) (QLOCAL|TOPIC)\('?([^')]+)'?\)((?: [A-Z]+\([^)]*\))*)")
_STRING: Final = re.compile(r" TOPICSTR\('([^']+)'\)")
_SAID: Final = re.compile(r"^\s*AMQ\d+[EW]:.*$", re.MULTILINE)
#: What a profile's ``names`` say already.
_SAID_BEFORE: Final = re.compile(r"ALTER QMGR DEADQ\('[^']+'\)")


def is_own(program: Program, command: str) -> bool:
    """Whether a command concerns nobody but the program."""
    found = _OWN.fullmatch(command)
    if found is None:
        return False
    kinds = {one.name: one.kind for one in program.destinations}
    string = _STRING.search(found[4])
    return kinds.get(found[3] if string is None else string[1]) == ("queue" if found[2] == "QLOCAL" else "topic")


def strange(program: Program) -> list[str]:
    """Commands of a program's configuration that concern others."""
    return [one for one in program.broker.mqsc if not (_SAID_BEFORE.fullmatch(one) or is_own(program, one))]


class Operator:
    """One run's."""

    def __init__(self, located: Located, values: Mapping[str, str], program: Program, names: Names) -> None:
        """Makes the queues and topics of the program. Raises ``SuiteProblem`` if that cannot be done."""
        table = located.profile.operator
        assert table is not None, "who has one is asked"
        self._located = located
        words = [filled(word, values, located, COMMAND) for word in table.command]
        self._argv = [revealed(word, located, COMMAND) for word in words]
        self._program = program
        self._names = names
        queues = [self._called(one.name) for one in program.destinations if one.kind == "queue"]
        self._after = [text.replace("{name}", name) for name in queues for text in table.after]
        for command in [text.replace("{name}", name) for name in queues for text in table.queues]:
            self._insist(command)
        for command in program.broker.mqsc:
            if is_own(program, command):
                self._insist(self._renamed(command))

    def tell(self, command: str) -> Operated | None:
        """Have a command of the program carried out; None: it concerns others. Raises ``SuiteProblem``."""
        return self._told(self._renamed(command)) if is_own(self._program, command) else None

    def remove(self) -> None:
        """The run is over."""
        for command in self._after:
            self._told(command)

    def _called(self, name: str) -> str:
        return self._names.physical(name).partition("://")[2]

    def _renamed(self, command: str) -> str:
        """A command with the names of this run. A queue is there already; a topic's object is called as its string."""
        found = _OWN.fullmatch(command)
        assert found is not None, "only own ones are renamed"
        verb, kind, name, rest = found.groups()
        string = _STRING.search(rest)
        called, rest = self._called(name if string is None else string[1]), _STRING.sub("", rest)
        if (verb, kind) == ("DEFINE", "TOPIC"):
            rest = f" TOPICSTR('{called}'){rest}"
        verb = "ALTER" if (verb, kind) == ("DEFINE", "QLOCAL") and rest else verb
        return f"{verb} {kind}('{called}'){rest}"

    def _insist(self, command: str) -> None:
        answer = self._told(command)
        if answer.refusal:
            raise SuiteProblem(f"{self._located.place}: operator: {command}: {answer.refusal}")

    def _told(self, command: str) -> Operated:
        try:
            done = subprocess.run(
                self._argv, input=f"{command}\n", capture_output=True, text=True, timeout=ASKED_S, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SuiteProblem(f"{self._located.place}: {COMMAND}: {self._argv[0]!r} cannot be run: {error}") from None
        if done.returncode == 0:
            return Operated(None)
        said = "; ".join(_SAID.findall(done.stdout)) or done.stderr.strip() or done.stdout.strip()
        if done.returncode in REFUSED:
            return Operated(None, said[-400:] or "refused")
        raise SuiteProblem(f"{self._located.place}: {COMMAND}: exit code {done.returncode}: {said[-400:]}")

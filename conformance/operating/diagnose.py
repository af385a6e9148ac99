"""What ``brokerproof diagnose`` asks of a running broker, and how it is reached: its management endpoint, Jolokia.

It is read for a few seconds; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from brokerproof.chaos.brokers.jolokia import Jolokia, JolokiaFailed, NoAnswer
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, VIOLATED, SuiteProblem
from brokerproof.conformance.operating import inflight, starvation
from brokerproof.conformance.operating.addresses import Address
from brokerproof.conformance.operating.answer import UNKNOWN, Answer
from brokerproof.conformance.operating.sight import Sight, look

Answered = TypeVar("Answered")

#: Where the endpoint may be if the URL names no path.
PATHS = ("/jolokia/", "/api/jolokia/")


def questions(sight: Sight) -> list[Answer]:
    """What is asked of a look at a broker, answered."""
    return [*starvation.questions(sight), *inflight.questions(sight)]


def exit_code(answers: Sequence[Answer]) -> int:
    """What the answers amount to."""
    if any(answer.is_trouble for answer in answers):
        return VIOLATED
    return INCONCLUSIVE if any(answer.problem and answer.answer == UNKNOWN for answer in answers) else OK


def see(where: Address) -> Sight:
    """The samples of the broker there. Raises ``SuiteProblem``."""
    return reached(where, look)


def reached(where: Address, question: Callable[[Jolokia], Answered]) -> Answered:
    """What the endpoint at an address answers. Raises ``SuiteProblem`` with what to do."""
    try:
        return asked(where, question)
    except JolokiaFailed as error:
        raise SuiteProblem(
            f"{where.shown}: {error}; is that the URL of a Jolokia endpoint, and does the broker run? A user and a "
            "password go into the URL, or into BROKERPROOF_USER and BROKERPROOF_PASSWORD"
        ) from None


def asked(where: Address, question: Callable[[Jolokia], Answered]) -> Answered:
    """What the endpoint at an address answers, or the one that it may be if the address names no path. Raises
    ``JolokiaFailed``, of the last one. Who does not answer is not asked twice: that would take seconds each time.
    """
    failed = JolokiaFailed("no endpoint")
    for path in PATHS if where.path in {"", "/"} else (where.path,):
        jolokia = Jolokia(
            where.port,
            host=where.host,
            path=path if path.endswith("/") else f"{path}/",
            credentials=where.credentials,
            secure=where.scheme == "https",
        )
        try:
            return question(jolokia)
        except NoAnswer:
            raise
        except JolokiaFailed as error:
            failed = error
        finally:
            jolokia.close()
    raise failed


def text_of(where: Address, sight: Sight, answers: Sequence[Answer]) -> str:
    head = (
        f"broker {sight.name} ({sight.version}, memory rules {sight.memory_rules}) at {where.shown}\n"
        f"{len(sight.destinations)} destinations, {len(sight.consumers)} consumers; {len(sight.broker)} samples in "
        f"{sight.seconds:.1f} s\n"
    )
    trouble = [answer for answer in answers if answer.is_trouble]
    verdict = "; ".join(answer.id for answer in trouble)
    tail = f"problems: {verdict}\n" if trouble else "no problem is seen\n"
    return "\n".join([head, *(answer.text() for answer in answers), tail])

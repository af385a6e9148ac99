"""Which commands of a program are told to a queue manager that is others', too, and by which names."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from brokerproof.conformance.brokers import HERE
from brokerproof.conformance.brokers.operator import Operator, is_own, strange
from brokerproof.conformance.brokers.profile import Located, OperatorAt, read_profile
from brokerproof.conformance.brokers.translation import Names
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.destinations import Destinations
from brokerproof.conformance.experiment.exits import SuiteProblem

PROGRAM = programs()["mq-table-of-refusals"]
#: Writes down what it is told; refuses what says so.
SCRIBE = """
import sys
line = sys.stdin.read()
open(sys.argv[1], "a").write(line)
print("AMQ8226I: made." if "NO" not in line else "AMQ8405E: no.")
sys.exit({True: 10, False: 0}["(NO)" in line] if "BROKEN" not in line else 20)
"""


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("ALTER QLOCAL('q1') DEFBIND(NOTFIXED)", True),
        ("DEFINE TOPIC(NEWS) TOPICSTR('t1') PMSGDLV(ALLAVAIL)", True),
        ("DEFINE TOPIC('t0') PMSGDLV(ALLAVAIL)", True),
        ("DEFINE TOPIC(NEWS) TOPICSTR('else')", False),
        ("ALTER QLOCAL('t0') PUT(DISABLED)", False),
        ("ALTER QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE) PUT(DISABLED)", False),
        ("DISPLAY QLOCAL('q1')", False),
        ("ALTER QMGR DEADQ('ActiveMQ.DLQ')", False),
        ("SET AUTHREC PROFILE('q1') PRINCIPAL('nobody') AUTHADD(PUT)", False),
        ("STOP DELAYPROC", False),
    ],
)
def test_only_a_program_s_own_objects(command: str, own: bool) -> None:
    assert is_own(PROGRAM, command) is own


def test_what_a_profile_says_already_is_not_strange() -> None:
    told = ["ALTER QMGR DEADQ('ActiveMQ.DLQ')", "DEFINE QLOCAL('q1') MAXDEPTH(5)", "ALTER QMGR CMDLEVEL(750)"]
    program = msgspec.structs.replace(PROGRAM, broker=msgspec.structs.replace(PROGRAM.broker, mqsc=told))
    assert strange(program) == ["ALTER QMGR CMDLEVEL(750)"]


def test_names_are_those_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "scribe.py").write_text(SCRIBE)
    profile = read_profile(HERE / "ibm-mq.toml").profile
    command = [sys.executable, "-S", "{here}/scribe.py", "{here}/told"]
    table = OperatorAt(command=command, queues=["DEFINE QLOCAL('{name}')"], after=["DELETE QLOCAL('{name}') PURGE"])
    located = Located(msgspec.structs.replace(profile, operator=table), "p.toml", tmp_path)
    told = ["DEFINE TOPIC(NEWS) TOPICSTR('t1') PMSGDLV(ALLAVAIL)", "DEFINE QLOCAL('q1') CLUSTER('C')"]
    dests = [one for one in PROGRAM.destinations if one.name in {"q1", "t1"}]
    broker = msgspec.structs.replace(PROGRAM.broker, mqsc=told)
    program = msgspec.structs.replace(PROGRAM, broker=broker, destinations=dests)
    operator = Operator(located, {"here": str(tmp_path)}, program, Names(Destinations(dests), ".run"))
    refused = operator.tell("ALTER QLOCAL('q1') PUT(NO)")
    assert refused is not None
    assert refused.refusal == "AMQ8405E: no."
    assert operator.tell("ALTER QMGR CMDLEVEL(750)") is None
    with pytest.raises(SuiteProblem, match="exit code 20"):
        operator.tell("ALTER QLOCAL('q1') STGCLASS(BROKEN)")
    operator.remove()
    assert (tmp_path / "told").read_text().splitlines() == [
        "DEFINE QLOCAL('q1.run')",
        "DEFINE TOPIC('t1.run') TOPICSTR('t1.run') PMSGDLV(ALLAVAIL)",
        "ALTER QLOCAL('q1.run') CLUSTER('C')",
        "ALTER QLOCAL('q1.run') PUT(NO)",
        "ALTER QLOCAL('q1.run') STGCLASS(BROKEN)",
        "DELETE QLOCAL('q1.run') PURGE",
    ]

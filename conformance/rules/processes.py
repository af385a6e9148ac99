"""Processes: who goes on, who answers operators, whose words make sense (GEN-090 to GEN-092)."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Crash, Event, Operate
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.strains import VITAL, strained
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def broker_ends(facts: Facts) -> list[Event]:
    """What became of the broker's process: each end that nobody had asked for; without one, the end of the run."""
    crashes = [event for event in facts.crashes if event.target == facts.broker]
    if crashes and strained(facts.strains, 0, crashes[-1].t1, VITAL):
        return []
    return [*crashes] or [facts.phases[name] for name in ("end",) if name in facts.phases]


@rule("GEN-090", over=broker_ends)
def it_goes_on(facts: Facts, event: Event) -> Findings:
    """The broker's process neither ends nor hangs unless it is asked to, whatever clients and operators ask."""
    if isinstance(event, Crash):
        outcome = "hung" if event.how == "hung" else "crashed"
        yield broken(outcome, event, why=f"the broker's process {event.how}")
        return
    situation = "an operator asked for something" if facts.operations else ""
    yield held("goes-on", "raw peers came" if facts.probes else situation)


@rule("GEN-091", over=lambda facts: facts.operations)
def operators_are_answered(facts: Facts, asked: Operate) -> Findings:
    """An operator's request is answered: carried out or refused."""
    if asked.result != "unknown":
        yield held("answered", "it was refused" if asked.result == "fail" else "it was carried out")
    elif not any(crash.target == facts.broker and crash.t0 <= asked.t1 for crash in facts.crashes):
        yield broken("unanswered", asked, why="it was neither carried out nor refused")


def readers(facts: Facts) -> list[Event]:
    """What became of the clients: each that failed, and the connections of the others."""
    crashes = [event for event in facts.crashes if event.target != facts.broker]
    failed = {event.target for event in crashes}
    others = [connect for name, row in facts.clients.items() if name not in failed for connect in row.connects]
    return [*crashes, *(connect for connect in others if connect.result == "ok")]


@rule("GEN-092", over=readers)
def clients_understand(facts: Facts, reader: Event) -> Findings:  # noqa: ARG001 - rows of every rule's kind
    """A client library makes sense of whatever the broker sends it."""
    if isinstance(reader, Crash):
        yield broken("nonsense", reader, why=f"the client's library {reader.how}")
    else:
        yield held("understood")

"""Rows of a run: how a judged run becomes rows of ``programs``, ``runs``, ``verdicts`` and ``facts``.

Rules:

* Of verdicts only those of a requirement that was exercised are rows. What does not apply is named in
  ``runs.not_applicable``; the rest was not exercised.
* Facts are the judge's: what follows from a history, with the spans in which it happened; what cannot be known is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from brokerproof.conformance.experiment.history import ClockSample, Fault, History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult, run_digest
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts import marks, rows
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.network import histories
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.reports.store.schema import column_name
from brokerproof.reports.store.tables import TABLES

#: Verdicts that are no rows: the requirement was not exercised.
SILENT = (VerdictKind.PLANNED, VerdictKind.NOT_EXERCISED, VerdictKind.NOT_APPLICABLE)
#: Whose histories and facts are kept.
ALL, FAILING, SAMPLE = "all", "failing", "sample"
KEEP = (ALL, FAILING, SAMPLE)
#: Of a sample: one seed in so many, and all that fail.
SAMPLED = 16
_STATES = {rows.HELD: "held", rows.SETTLED: "settled", rows.DOUBTFUL: "doubtful", rows.RETURNED: "returned"}

Row = dict[str, Any]


def is_kept(keep: str, result: RunResult, seed: int | None) -> bool:
    """Whether history and facts of a run are kept."""
    if keep == ALL or seed is None or result.problem:
        return True
    if keep == SAMPLE and seed % SAMPLED == 0:
        return True
    return any(verdict.verdict is VerdictKind.VIOLATED for verdict in result.verdicts)


def features(program: Program) -> list[str]:
    """The kinds of its steps, each once, sorted."""
    return sorted({str(type(step).__struct_config__.tag) for step in program.each_step()})


def program_row(key: Row, program: Program, parent: str | None = None) -> Row:
    """One row of ``programs``; ``parent``: the digest of the program that it was made from."""
    json = program.encode().decode()
    return {**key, "program": program.digest(), "json": json, "features": features(program), "parent": parent}


def run_row(key: Row, result: RunResult, seed: int | None, processor_us: int, *, kept: bool) -> Row:
    """One row of ``runs``; its header only if its history is kept. A history that came alone tells its program."""
    history = result.history
    program = result.program.digest() if result.program.hosts or history is None else history.header.program or ""
    return {
        **key,
        "world": result.world,
        "name": result.name,
        "seed": seed,
        "mutant": result.mutant,
        "program": program,
        "steps": len(result.program.steps),
        "events": len(history.events) if history is not None else 0,
        "processor_us": processor_us,
        "digest": run_digest(result.run, program, result.verdicts),
        "capabilities": history.header.capabilities if history is not None else [],
        "not_applicable": [v.requirement for v in result.verdicts if v.verdict is VerdictKind.NOT_APPLICABLE],
        "header": msgspec.json.encode(history.header).decode() if history is not None and kept else None,
        "problem": result.problem,
        "not_run": result.not_run,
    }


def verdict_rows(key: Row, result: RunResult, seed: int | None) -> Iterator[Row]:
    """The rows of ``verdicts`` of one run."""
    about = {**key, "world": result.world, "seed": seed, "steps": len(result.program.steps)}
    for verdict in result.verdicts:
        if verdict.verdict not in SILENT:
            own = {"verdict": verdict.verdict.value, "further": [one.text for one in verdict.further]}
            yield {**about, **msgspec.structs.asdict(verdict), **own}


def key_of(campaign: str, result: RunResult) -> Row:
    """The columns that all rows of a run share."""
    return {"campaign": campaign, "broker": column_name(result.broker, result.mutant), "run": result.run}


def transposed(table: str, of: Iterable[Row]) -> dict[str, list[Any]]:
    """Rows as columns; what a row lacks is null, and what is no column of the table is left out."""
    listed = list(of)
    return {name: [row.get(name) for row in listed] for name in TABLES[table]}


def fact_rows(key: Row, history: History) -> Iterator[Row]:
    """The rows of ``facts`` of one history."""
    facts = Facts(histories(history)[0])
    for row in (*_sends(facts), *_deliveries(facts), *_sessions(facts), *_readings(facts), *_injected(history)):
        yield {**key, **row}


def _sends(facts: Facts) -> Iterator[Row]:
    for send in facts.sends.values():
        yield {
            "kind": "send",
            "seq": send.event.seq,
            "host": send.client.name,
            "dest": send.dest.name,
            "message": send.message,
            "state": "refused" if send.refused else "confirmed" if send.confirmed else "unknown",
            **_from(send.accepted),
            "marks": marks.names(send.marks),
            "expiration_ms": send.event.expiration_ms,
            "delay_ms": send.event.delay_ms,
        }


def _deliveries(facts: Facts) -> Iterator[Row]:
    for delivery in facts.deliveries:
        yield {
            "kind": "delivery",
            "seq": delivery.event.seq,
            "host": delivery.session.client.name,
            "dest": delivery.dest.name,
            "session": delivery.session.name,
            "message": delivery.copy.message,
            "state": _STATES.get(delivery.state, "late"),
            **_from(delivery.assigned),
            **_until(delivery.settled),
            "marks": marks.names(delivery.marks),
        }


def _sessions(facts: Facts) -> Iterator[Row]:
    for session in facts.sessions.values():
        yield {
            "kind": "session",
            "seq": session.event.seq if session.event is not None else None,
            "host": session.client.name,
            "dest": session.dest.name,
            "session": session.name,
            "state": session.end or "open",
            **_from(session.opened),
            **_until((session.lost_ns, session.gone_ns)),
            "marks": marks.names(session.marks),
            "prefetch": _known(session.prefetch),
        }


def _readings(facts: Facts) -> Iterator[Row]:
    for reading in facts.readings:
        counters = reading.event
        yield {
            "kind": "reading",
            "seq": counters.seq,
            "host": counters.host,
            "dest": counters.dest,
            **_from(reading.span),
            "marks": marks.names(reading.marks),
            "at_rest": counters.at_rest,
            "size": counters.size,
            "in_flight": counters.in_flight,
            "enqueued": counters.enqueued,
            "dequeued": counters.dequeued,
            "expired": counters.expired,
            "memory_percent": counters.memory_percent,
        }


def _injected(history: History) -> Iterator[Row]:
    """Faults with their evidence, and the clocks as they were read."""
    for event in history.events:
        common = {"seq": event.seq, "host": event.host, **_from((event.t0, event.t1))}
        if isinstance(event, Fault):
            evidence = None if event.evidence is None else msgspec.json.encode(event.evidence).decode()
            host = event.target or event.link or event.host
            yield {**common, "kind": "fault", "host": host, "fault": event.fault, "evidence": evidence}
        elif isinstance(event, ClockSample):
            clock = {"wall_ms": event.wall_ms, "plus_minus_ns": event.plus_minus_ns}
            yield {**common, "kind": "clock", **clock}


def _from(span: Span) -> Row:
    return {"earliest_ns": _known(span[0]), "latest_ns": _known(span[1])}


def _until(span: Span | None) -> Row:
    return {} if span is None else {"end_earliest_ns": _known(span[0]), "end_latest_ns": _known(span[1])}


def _known(value: int) -> int | None:
    return None if value >= NEVER else value

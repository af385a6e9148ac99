"""One recorded run for the eye: its events as lines, those that a judge names marked, and what both judges say."""

from __future__ import annotations

import json
from pathlib import Path

from tests.frozen.comparing import PARSE, SILENT, load, select
from tests.frozen.records import Missing, find

NS_PER_MS = 1e6


def show(
    *,
    dir: Path,  # noqa: A002 - the option's name
    key: str,
    requirement: list[str],
    judge: str,
) -> str:
    """The text. Without requirements only those are told of which something is violated or the judges disagree. Raises
    ``Missing`` for a key that is not there.
    """
    record = find(dir, key)
    wanted = select(requirement)
    old = {verdict.requirement: verdict for verdict in record.verdicts if verdict.requirement in wanted}
    note, new = "", {}
    try:
        history = load(PARSE)(record.history.encode(), key)
        new = {verdict.requirement: verdict for verdict in load(judge)(history, wanted=wanted)}
    except Missing as error:
        note = f"{error}\n"
    told, marks = [], dict[int, str]()
    for name in wanted:
        said = [one[name].verdict if name in one else SILENT for one in (old, new)]
        if requirement == ["*"] and "violated" not in said and (said[0] == said[1] or not new):
            continue
        for who, one, word in (("old", old, said[0]), ("new", new, said[1])):
            verdict = one.get(name)
            outcome, text, witness = (verdict.outcome, verdict.text, verdict.witness) if verdict else ("", "", [])
            told.append(f"{name} {who} {word} {outcome} {text} {witness or ''}".rstrip())
            for seq in witness:
                marks[seq] = marks.get(seq, "").replace(who[0], "") + who[0]
    header, *events = record.history.splitlines()
    lines = [header, *(line(json.loads(event), marks) for event in events), "", *told]
    return "\n".join(lines) + "\n" + note


def line(event: dict[str, object], marks: dict[int, str]) -> str:
    """One event: marks (o: the old judge names it, n: the new one), number, milliseconds, host, kind, fields."""
    seq, t0, t1, host, kind = (event.pop(name) for name in ("seq", "t0", "t1", "host", "kind"))
    span = f"{t0 / NS_PER_MS:.3f}" + (f"..{t1 / NS_PER_MS:.3f}" if t1 != t0 else "")  # type: ignore[operator]
    fields = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in event.items())
    return f"{marks.get(seq, ''):<2} [{seq}] {span} ms  {host or 'observer'}  {kind}  {fields}"  # type: ignore[call-overload]

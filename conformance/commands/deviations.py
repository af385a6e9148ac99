"""Writes docs/deviations.md, what real brokers are known to do against a requirement, from the lists that runs prove
(``conformance/known``): ``python -m brokerproof.conformance.commands.deviations docs/deviations.md``.

The page is written, never edited; a guard compares it with what this module would write.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.brokers import releases_of
from brokerproof.conformance.known import parse_known
from brokerproof.conformance.requirements.catalogue import default_catalogue

if TYPE_CHECKING:
    from brokerproof.conformance.known import Deviation, Known
    from brokerproof.conformance.requirements.catalogue import Source

_HEAD: Final = """# Deviations

What releases of real brokers are known to do against a requirement. Each entry was seen in the programs that it names,
and every run of that release proves it again: an entry that no longer shows is reported as stale, and what is not
listed turns the run red. `brokerproof export PROGRAM --broker BROKER --as pytest` (or `junit`, `stomp`) writes what
clients can see of it as a file that needs nothing of ours ([export.md](export.md)).
This page is written from `conformance/known/`:
`python -m brokerproof.conformance.commands.deviations docs/deviations.md`.

| release | deviations | only in some runs |
|---|---|---|
"""


def releases() -> list[Known]:
    """All lists, by name."""
    folder = Path(str(resources.files("brokerproof.conformance.known")))
    return [parse_known(path.read_bytes(), path.stem) for path in sorted(folder.glob("*.toml"))]


def text() -> str:
    """The page."""
    lists = releases()
    rows = "".join(f"| {_title(one)} | {len(_entries(one))} | {_seldom(one)} |\n" for one in lists)
    return _HEAD + rows + "".join(_release(one) for one in lists)


def _entries(known: Known) -> list[Deviation]:
    return sorted(known.deviations, key=lambda entry: entry.requirement)


def _seldom(known: Known) -> int:
    return sum(entry.sometimes for entry in _entries(known))


def _title(known: Known) -> str:
    broker, _, release = known.name.rpartition("-")
    return f"{broker} {release}"


def _release(known: Known) -> str:
    told, pages = dict[str, int](), list[str]()
    for entry in _entries(known):
        number = told[entry.requirement] = told.get(entry.requirement, 0) + 1
        pages.append(_entry(known, entry, f"-{number}" if number > 1 else ""))
    return f"\n## {_title(known)}\n" + "".join(pages)


def _entry(known: Known, entry: Deviation, number: str) -> str:
    requirement = default_catalogue()[entry.requirement]
    documents = "; ".join(_place(source) for source in requirement.source)
    broker = _broker(known)
    client = f" --client {entry.client}" if entry.client else ""
    where = f"--tier live --broker {broker}{client} --requirement {entry.requirement}"
    command = f"brokerproof replay {entry.programs[0]} {where}"
    others = f" (also: {', '.join(entry.programs[1:])})" if entry.programs[1:] else ""
    releases = f"* Seen also on: {entry.releases.replace('..', ' to ').strip()}\n" if entry.releases else ""
    alternatives = [" or ".join(f"`{one}`" for one in need.split(" | ")) for need in entry.needs]
    excuses = f"* Excuses only programs that have: {', '.join(alternatives)}\n"
    shows = f"* Excuses only violations that speak of: `{entry.shows.strip(' ,')}`\n"
    consumer = f"* Excuses only what a consumer met that has: `{entry.consumer}`\n"
    return "\n".join(
        [
            f"\n### {known.name}/{entry.requirement}{number}\n",
            f"* Promised ({requirement.level}): {requirement.sentence} *{documents}*",
            f"* Observed{', in some runs only' if entry.sometimes else ''}: {entry.reason}.",
            f"* Whose: the {entry.whose}'s. Looked up in: {entry.source}.",
            f"* Shown by: `{command}`{others}",
            releases
            + (excuses if entry.needs else "")
            + (shows if entry.shows else "")
            + (consumer if entry.consumer else ""),
        ]
    )


def _broker(known: Known) -> str:
    """What ``--broker`` takes: with the release, where the list is of one that can be asked for."""
    name, _, line = known.name.rpartition("-")
    found = [release for release in releases_of(name) if release == line or release.startswith(f"{line}.")]
    return f"{name}@{found[0]}" if found else name


def _place(source: Source) -> str:
    """Where a promise stands."""
    return source.clause or source.observed or f"seed {source.seed}, sentence {source.sentence}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")

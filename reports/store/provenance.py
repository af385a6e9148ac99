"""Where a campaign's results come from: release, commit, and digests of what decides them."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec

from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.store.merge import generator

#: Where the four rooms lie: a checkout, or the installed package.
ROOT = Path(__file__).resolve().parents[2]
#: Rooms whose sources decide which programs are drawn, and all that decide verdicts.
GENERATOR = ("conformance/generate", "conformance/experiment")
CODE = ("conformance", "reference_broker")


class Provenance(msgspec.Struct, frozen=True):
    """``commit``: of the checkout, "" where there is none. ``code``, ``generator``, ``catalogue``: ``sha256:``."""

    version: str
    commit: str
    code: str
    generator: str
    catalogue: str


def provenance(catalogue: Catalogue) -> Provenance:
    """That of this process."""
    told = hashlib.sha256(msgspec.json.encode(list(catalogue))).hexdigest()
    return Provenance(generator(), _commit(), sources_digest(CODE), sources_digest(GENERATOR), f"sha256:{told}")


def sources_digest(rooms: Iterable[str], root: Path = ROOT) -> str:
    """Over the names and contents of all sources in these rooms: Python, and tables in TOML."""
    digest = hashlib.sha256()
    for room in rooms:
        for path in sorted(path for path in (root / room).rglob("*") if path.suffix in {".py", ".toml"}):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
            digest.update(data)
    return f"sha256:{digest.hexdigest()}"


def _commit() -> str:
    if not (ROOT / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()

"""The doctor: get what can be got, probe everything, report.

Decides: what `brokerproof doctor` looks at and what `--install` builds or downloads.
Rules: installing goes through the tools' own clients into our cache folder, never into the system, and never needs
root; a failed installation is a result like any other, and the probes are run all the same.
Known exceptions: none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from brokerproof.chaos.brokers import debian
from brokerproof.chaos.brokers.jars import jolokia_agent
from brokerproof.chaos.clocks import clean_shared_memory
from brokerproof.chaos.preload import library_path
from brokerproof.chaos.probes import PROBES, ProbeResult, run_probe
from brokerproof.chaos.processes import Supervisor
from brokerproof.chaos.toxiproxy import install_toxiproxy

INSTALLS: dict[str, Callable[[], str]] = {
    "install-libfaketime": lambda: str(library_path()),
    "install-toxiproxy": lambda: str(install_toxiproxy()),
    "install-activemq": lambda: "{0[0]} ({0[1]})".format(debian.jar_folder()),
    "install-jolokia": lambda: str(jolokia_agent()),
}


def run_doctor(
    install: bool, progress: Callable[[str], None] | None = None, only: Collection[str] | None = None
) -> list[ProbeResult]:
    """Install first if asked to, then run all probes or `only` these; `progress` hears each name before it begins."""
    clean_shared_memory()
    results = []
    with tempfile.TemporaryDirectory(prefix="brokerproof-doctor-") as folder, Supervisor(Path(folder)) as supervisor:
        if install:
            for name, work in INSTALLS.items():
                _say(progress, name)
                results.append(run_probe(name, lambda _, work=work: work(), supervisor))  # type: ignore[misc]
        for name, probe in PROBES.items():
            if only is not None and name not in only:
                continue
            _say(progress, name)
            results.append(run_probe(name, probe, supervisor))
    return results


def doctor() -> list[ProbeResult]:
    """All probes, nothing installed."""
    return run_doctor(install=False)


def _say(progress: Callable[[str], None] | None, name: str) -> None:
    if progress is not None:
        progress(name)

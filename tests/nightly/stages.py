"""Which stages a night has, in order of what they find per minute, and with which seeds.

Seeds are fresh every night and the same for the same date: each date has a block of its own.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from datetime import date
from functools import partial
from pathlib import Path

from brokerproof.reports.store.nights import first_seed
from tests.frozen.making import pinned_tree
from tests.frozen.records import Missing
from tests.nightly.budget import Stage

#: Of a night's seeds so many are tried by each stage.
COUNT = 20_000
OUT = "brokerproof-out/nightly"
STATE = "brokerproof-out/nights"
BROKERS = ("activemq", "artemis", "rabbitmq")
#: Each with figures and a limit of its own, so that a slow broker is a failure.
BENCHMARKS = ("codec", "core", "steps", "journal", "wire")

#: Releases of Python beside the one that runs the rest, with a tox environment each.
PYTHONS = ("3.12", "3.13")
#: Where .ci/setup puts tox.
TOX = Path(__file__).parents[2] / ".venv" / "bin" / "tox"


def stages(day: date) -> list[Stage]:
    """All stages of a night."""
    seed = str(first_seed(day))
    block = ("--first", seed, "--count", str(COUNT))
    automatic = "brokerproof.conformance.commands.automatic"
    return [
        Stage("mutants", brokerproof("mutants"), 15),
        # The main job plays of the corpus on processes what shows each requirement twice.
        Stage("whole corpus", brokerproof("run", "--full", "--out", f"{OUT}/full"), 8),
        # The hot rooms, by mypyc: a C compiler needs minutes.
        Stage("compiled", (tox(), "-e", "compiled"), 15, no_tox),
        Stage("truth", module("tests.truth", *block), 15),
        Stage(
            "properties",
            ("env", "BROKERPROOF_TEST_EXAMPLES=30", *module("pytest", "-q", "-n", "2", "tests/fast")),
            30,
        ),
        Stage("metamorphic", module("tests.metamorphic"), 30, partial(no_module, "tests.metamorphic")),
        Stage(
            "live",
            brokerproof("nightly", "--broker", *BROKERS, "--budget", "45m", "--state", STATE, "--out", f"{OUT}/live"),
            50,
        ),
        Stage(
            "campaign",
            brokerproof("campaign", "--programs", str(COUNT), "--seed", seed, "--out", f"{OUT}/campaign"),
            15,
        ),
        Stage("night tests", module("pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "night", "tests"), 40),
        Stage(
            "automatic mutants",
            brokerproof("mutants", "--automatic", "--sample", "400", "--seed", seed),
            60,
            partial(no_module, automatic),
        ),
        *(
            Stage(f"python {release}", (tox(), "-e", f"py{release.replace('.', '')}"), 12, partial(no_release, release))
            for release in PYTHONS
        ),
        *(Stage(f"benchmark {name}", (sys.executable, f"benchmarks/{name}.py"), 5) for name in BENCHMARKS),
        Stage("false positives", module("tests.false_positives", *block), 60),
        Stage("frozen make", module("tests.frozen", "make"), 45, no_pinned_commit),
        Stage("frozen compare", module("tests.frozen", "compare"), 20, no_pinned_commit),
    ]


def brokerproof(*words: str) -> tuple[str, ...]:
    return module("brokerproof", *words)


def module(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *words)


def tox() -> str:
    """The tox that started the night, or the one on the path."""
    return str(TOX) if TOX.exists() else "tox"


def no_tox() -> str | None:
    """Why no other environment can be made."""
    if shutil.which(tox()) is None:
        return f"tox is neither on the path nor {TOX.relative_to(TOX.parents[2])}"
    return None


def no_release(release: str) -> str | None:
    """Why tox cannot run the fast tests on a release of Python."""
    return no_tox() or no_python(release, f"python{release}")


def no_python(release: str, command: str) -> str | None:
    """Why a command is not that release of Python. It is run, because it may be a launcher that has no such release."""
    asked = [command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return f"this machine has no {command}"
    return None if found.stdout.strip() == release else f"this machine has no Python {release}; {command} is none"


def no_module(name: str) -> str | None:
    """Why a stage cannot run that is a module of its own."""
    return None if importlib.util.find_spec(name) is not None else f"there is no {name} in this checkout"


def no_pinned_commit() -> str | None:
    """Why the frozen judge cannot be asked."""
    try:
        pinned_tree()
    except Missing as error:
        return str(error)
    return None

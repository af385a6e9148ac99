"""Compiled rooms and interpreted ones give the same histories and verdicts, byte for byte: ``tox -e compiled``.

Two processes play the corpus and the same seeded programs in the simulated world and judge them, one with the installed
(compiled) package, one with the checkout, and print a digest over all bytes of all histories and verdicts; planted
defects, which derive from what is compiled, are played, too. Exit code 1 if the digests differ, or if any room of the
first is not compiled or one of the second is: then nothing was compared.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import msgspec

PROGRAMS = 300
#: What the mutants play.
MUTANT_SEED = 12
#: Its counts are numbers of a class of their own, which become plain ones in a compiled field.
UNLIKE = {"count-without-mark"}
#: A module of each compiled room.
ROOMS = (
    "brokerproof.reference_broker.core.broker",
    "brokerproof.reference_broker.openwire.wire.tight",
    "brokerproof.reference_broker.stomp.codec",
    "brokerproof.reference_broker.node",
    "brokerproof.conformance.agents.openwire_library",
    "brokerproof.conformance.facts.recording",
    "brokerproof.conformance.rules.judge",
    "brokerproof.conformance.worlds.executor",
    "brokerproof.conformance.worlds.simulated.port",
)


def digest() -> str:
    """Over the histories of the corpus and ``PROGRAMS`` seeded programs, and the verdicts about them; and over one
    history of each mutant.
    """
    from brokerproof.conformance.corpus import programs
    from brokerproof.conformance.generate.programs import program_for_seed
    from brokerproof.conformance.mutants import MUTANTS
    from brokerproof.conformance.rules.judge import judge_history
    from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

    total = hashlib.sha256()
    played = list(programs().values()) + [program_for_seed(seed) for seed in range(PROGRAMS)]
    for program in played:
        history = SimulatedWorld().run(program)
        total.update(history.encode())
        total.update(msgspec.json.encode(judge_history(history)))
    for name in MUTANTS:
        if name not in UNLIKE:
            total.update(SimulatedWorld(mutant=name).run(program_for_seed(MUTANT_SEED)).encode())
    return total.hexdigest()


def kind() -> str:
    """``compiled`` or ``interpreted``; ``mixed`` if not all rooms are alike."""
    files = [str(import_module(room).__file__) for room in ROOMS]
    compiled = sum(not file.endswith(".py") for file in files)
    return {0: "interpreted", len(files): "compiled"}.get(compiled, "mixed")


def main() -> int:
    """Compare."""
    if sys.argv[1:] == ["--digest"]:
        sys.stdout.write(f"{kind()} {digest()}\n")
        return 0
    checkout = Path(__file__).parent.parent.parent
    found = []
    for path in ("", str(checkout / "src")):
        env = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        command = [sys.executable, __file__, "--digest"]
        found.append(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.split())
        sys.stdout.write(" ".join(found[-1]) + "\n")
    kinds = [kind for kind, _ in found]
    return 0 if kinds == ["compiled", "interpreted"] and found[0][1] == found[1][1] else 1


if __name__ == "__main__":
    sys.exit(main())

"""The compiled core and the interpreted one give the same histories, byte for byte. Run by ``tox -e compiled``.

Two processes play the corpus and the same seeded programs in the simulated world, one with the installed (compiled)
package, one with the checkout, and print a digest over all bytes of all histories. Exit code 1 if they differ, or if
the first is not compiled or the second is: then nothing was compared.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = 300


def digest() -> str:
    """Over the histories of the corpus and ``PROGRAMS`` seeded programs."""
    from brokerproof.conformance.corpus import programs
    from brokerproof.conformance.generate.programs import program_for_seed
    from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

    total = hashlib.sha256()
    played = list(programs().values()) + [program_for_seed(seed) for seed in range(PROGRAMS)]
    for program in played:
        total.update(SimulatedWorld().run(program).encode())
    return total.hexdigest()


def main() -> int:
    """Compare."""
    if sys.argv[1:] == ["--digest"]:
        import brokerproof.reference_broker.core.broker as core

        kind = "interpreted" if str(core.__file__).endswith(".py") else "compiled"
        sys.stdout.write(f"{kind} {digest()}\n")
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

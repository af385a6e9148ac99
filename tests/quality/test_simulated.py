"""A seed means the same bytes wherever it is played, and bytes on the wire change nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.steps import Send
from brokerproof.conformance.running.automatic.comparing import violated_in
from brokerproof.conformance.running.engine import run_seed
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.fast.conformance.worlds.test_simulated import encoded
from tests.guards.tree import ROOT

DIGEST = (
    "import hashlib\n"
    "from brokerproof.conformance.running.engine import run_seed\n"
    "h = hashlib.sha256()\n"
    "for seed in range(20):\n"
    "    h.update(run_seed(seed).history.encode())\n"
    "print(h.hexdigest())\n"
)


@cache
def in_process_digest() -> str:
    hasher = hashlib.sha256()
    for seed in range(20):
        history = run_seed(seed).history
        assert history is not None
        hasher.update(history.encode())
    return hasher.hexdigest()


@pytest.mark.parametrize(
    ("hash_seed", "zone", "folder"), [("1", "Asia/Tokyo", "."), ("4242", "America/New_York", "docs")]
)
def test_same_bytes_under_any_hash_seed_zone_and_folder(hash_seed: str, zone: str, folder: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "TZ": zone}
    done = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=ROOT / folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == in_process_digest()


def test_bytes_on_the_wire_change_no_history() -> None:
    """Over OpenWire the broker writes one frame more, so that only verdicts are compared."""
    for name in sorted(programs())[::3]:
        program = programs()[name]
        if any(isinstance(step, Send) and step.deliver_in_ms for step in program.each_step()):
            continue
        plain, travelled = SimulatedWorld().run(program), SimulatedWorld().run(encoded(program))
        if any(host.via == "jms" for host in program.clients()):
            assert violated_in(travelled) == violated_in(plain), name
        else:
            assert travelled.events == plain.events, name

"""Differential bytes: what our codec writes, ActiveMQ's Java marshallers read and write again, and we read that. Every
command, every version that the client has, loose and tight, with and without caches.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.kinds import Data
from tests.fast.reference_broker.openwire.wire_data import JavaMaker
from tests.guards.tree import ROOT
from tests.live.bench import activemq

pytestmark = pytest.mark.live
VERSIONS = (1, 9, 10, 11, 12)
COMMANDS = 6


class Java:
    """The other process."""

    def __init__(self, class_path: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "live" / "java_openwire.py"), class_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rewrite(self, version: int, tight: bool, cache: bool, traces: bool, frames: list[bytes]) -> list[bytes]:
        """The frames as Java writes them, without sizes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        options = f"{version} {tight:d} {cache:d} {traces:d} "
        self._process.stdin.write(options + " ".join(frame.hex() for frame in frames) + "\n")
        self._process.stdin.flush()
        words = self._process.stdout.readline().split()
        assert len(words) == len(frames)
        for word, frame in zip(words, frames, strict=True):
            assert not word.startswith("error:"), (word, frame.hex())
        return [bytes.fromhex(word) for word in words]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    adapter = activemq()
    process = Java(os.pathsep.join(str(jar) for jar in adapter.jars.client_class_path))
    yield process
    process.close()
    adapter.close()


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
@given(seed=st.integers(0, 2**64), traces=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_java_reads_what_we_write_and_we_read_what_it_writes(
    java: Java, version: int, tight: bool, cache: bool, seed: int, traces: bool
) -> None:
    maker = JavaMaker(seed, version, traces=traces)
    sent = [maker.command() for _ in range(COMMANDS)]
    mine, theirs = (Codec(version, tight=tight, cache_size=1024 if cache else 0, stack_traces=traces) for _ in range(2))
    frames = [mine.encode(command) for command in sent]
    again = java.rewrite(version, tight, cache, traces, frames)
    received: list[Data | None] = [theirs.decode(frame[4:]) for frame in again]
    assert received == sent
    if not cache:
        assert again == frames

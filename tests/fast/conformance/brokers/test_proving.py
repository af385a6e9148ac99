"""What `profile check` says of lines that no broker has to be started for."""

from __future__ import annotations

from pathlib import Path

from brokerproof.conformance.brokers.profile import parse_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.proving import prove

PROFILE = """
format = "brokerproof/broker/1"
name = "clocked"
[start]
command = ["/bin/true"]
clock = "libfaketime"
[promises]
capabilities = ["prefetch"]
[endpoints]
mqtt = { url = "mqtt://127.0.0.1:{port.mqtt}" }
"""


def test_a_clock_that_nobody_can_read_is_said() -> None:
    adapter = ProfileAdapter(parse_profile(PROFILE, "clocked.toml", Path()))
    (proof,) = prove(adapter)
    assert (proof.line, proof.state) == ("start.clock", "not proven")
    assert 'no endpoints.stomp; say clock = "none"' in proof.text

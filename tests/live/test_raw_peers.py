"""Raw peers at the served reference broker: every requirement that a bare socket can show, in real time.

The programs are those of the corpus; here are the claims that each of them must settle. INA-025 is looked at once more
from outside: the process has no more threads and sockets than before a thousand of its connections died.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.history import Pause, Probe
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running.live import run_live
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from tests.live.bench import events, make_laboratory

pytestmark = pytest.mark.live

CLAIMS = {
    "raw-peers-over-stomp": ("INA-009", "INA-013", "INA-017", "INA-024"),
    "raw-peers-over-stomp-classic": ("INA-009", "INA-017", "INA-024"),
    "raw-peers-over-openwire": ("INA-009", "INA-011", "INA-013", "INA-017"),
    "raw-peers-and-heart-beats": ("INA-024",),
    "raw-peers-and-graced-heart-beats": ("INA-024",),
    "raw-peers-and-no-keep-alives": ("INA-010",),
    "raw-peers-and-read-timeouts": ("INA-023",),
    "raw-peers-in-a-hurry": ("INA-022",),
    "raw-peers-with-all-time": ("INA-022",),
    "raw-peers-with-bad-hellos": ("INA-015",),
    "raw-peers-without-a-hello": ("INA-014",),
    "raw-peers-who-do-not-read": ("INA-016",),
    "blocked-raw-peer": ("INA-019",),
    "broker-stands-still-for-a-moment": ("INA-021",),
}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("probes")) as laboratory:
        yield laboratory


@pytest.mark.parametrize("name", list(CLAIMS))
def test_what_a_bare_socket_shows(name: str, laboratory: Laboratory) -> None:
    result = run_live(ReferenceAdapter(), laboratory, programs()[name], name, wanted=CLAIMS[name])
    assert result.problem == ""
    for verdict in result.verdicts:
        assert verdict.verdict is VerdictKind.SATISFIED, verdict.text
    assert result.history is not None
    assert events(result.history, Probe) or events(result.history, Pause)


@pytest.mark.parametrize(
    ("mutant", "name"),
    [("monitor-mute", "raw-peers-and-heart-beats"), ("monitor-waits-for-hello", "raw-peers-without-a-hello")],
)
def test_planted_defects_are_seen(mutant: str, name: str, laboratory: Laboratory) -> None:
    wanted = ("INA-009", "INA-014")
    result = run_live(ReferenceAdapter(mutant), laboratory, programs()[name], name, wanted=wanted, mutant=mutant)
    assert VerdictKind.VIOLATED in {verdict.verdict for verdict in result.verdicts}


def test_a_thousand_closes_leave_nothing_behind(laboratory: Laboratory) -> None:
    name = "a-thousand-raw-peers"
    result = run_live(ReferenceAdapter(), laboratory, programs()[name], name, wanted=("INA-025",))
    assert result.problem == ""
    assert result.history is not None
    found = events(result.history, Probe)[0]
    assert (found.said.times, found.heard.closed) == (1000, 1000)
    assert found.heard.left is not None
    assert set(found.heard.left) == {"threads", "sockets"}
    assert max(found.heard.left.values()) <= 0, found.heard.left
    assert result.verdicts[0].verdict is VerdictKind.SATISFIED, result.verdicts[0].text

"""Programs: reading, checking, naming. Every refusal shows the value and the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.conformance.experiment.configuration import MonitorSpec, effective_monitor
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import FORMAT, ProgramError, json_schema, parse_program, read_program
from brokerproof.conformance.generate.programs import program_for_seed

ROOT = Path(__file__).resolve().parents[4]
GOOD = {
    "format": FORMAT,
    "broker": {},
    "hosts": [{"name": "b", "role": "broker"}, {"name": "c", "role": "client"}],
    "steps": [{"do": "send", "ttl_ms": 5}],
}


def with_(**changes: object) -> bytes:
    return json.dumps(GOOD | changes).encode()


def test_a_minimal_program_has_defaults() -> None:
    program = parse_program(with_())
    assert program.destinations == queues("q0")
    assert program.link_of("c").latency_us == 500
    assert program.steps[0].ttl_ms == 5  # type: ignore[union-attr]  # it is a send


@given(st.integers(0, 2**32))
def test_encoding_round_trips(seed: int) -> None:
    program = program_for_seed(seed)
    again = parse_program(program.encode())
    assert again == program
    assert again.digest() == program.digest()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not a brokerproof/program/2 program"),
        (b"\xff\xfe", "not a brokerproof/program/2 program"),
        (
            with_(format="brokerproof/program/9"),
            "format is 'brokerproof/program/9'; this release reads 'brokerproof/program/2' and 1",
        ),
        (
            with_(steps=[{"do": "snd"}]),
            r"Invalid value 'snd' - at `\$.steps\[0\].do`; did you mean 'send'\? a step is one of ack, ",
        ),
        (with_(steps=[{"do": "send", "tll_ms": 3}]), r"unknown field `tll_ms` - at `\$.steps\[0\]`"),
        (with_(steps=[{"do": "advance", "ms": -1}]), r"Expected `int` >= 0 - at `\$.steps\[0\].ms`"),
        (with_(hosts=[{"name": "c", "role": "client"}]), "has no host with role 'broker'"),
        (with_(hosts=[{"name": "b", "role": "broker"}]), "has no host with role 'client'; add at least one"),
        (with_(hosts=[*GOOD["hosts"], {"name": "c", "role": "client"}]), "must be different and not empty"),  # type: ignore[misc]
        (with_(links=[{"client": "x"}]), r"a link names the client 'x'; clients are \['c'\]"),
        (with_(destinations=[]), "name at least one"),
        (with_(destinations=[{"name": f"q{n}", "kind": "queue"} for n in range(65)]), "more than 64"),
        (with_(destinations=[{"name": "q*", "kind": "queue"}]), "stands for all of a kind"),
        (with_(destinations=[{"name": "q0", "kind": "composite"}]), "is a composite of 0"),
        (with_(destinations=[{"name": "r", "kind": "temporary", "host": "b"}]), "belongs to a client"),
        (with_(destinations=[{"name": "q0"}]), "missing required field `kind`"),
        (
            with_(hosts=[{"name": "b", "role": "broker", "user": "u"}, {"name": "c", "role": "client"}]),
            "b has user 'u'",
        ),
        (with_(hosts=[{"name": "b", "role": "broker"}, {"name": "c", "role": "client", "user": "a'b"}]), 'user "a\'b"'),
        (
            with_(
                hosts=[{"name": "b", "role": "broker"}, {"name": "c", "role": "client", "via": "jms", "version": "1.1"}]
            ),
            "c has version '1.1', which is for clients via STOMP",
        ),
        (
            with_(
                hosts=[{"name": "b", "role": "broker"}, {"name": "c", "role": "client", "version": "1.0"}],
                links=[{"client": "c", "monitor": {"read_ms": 1000, "initial_delay_ms": 0}}],
            ),
            "c offers STOMP 1.0, which has no heart-beats; take its link's monitor away",
        ),
    ],
)
def test_bad_programs_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse_program(data, "p.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"nothing.json: cannot be read \(No such file or directory\)"):
        read_program(tmp_path / "nothing.json")


def test_the_schema_is_up_to_date() -> None:
    assert json.loads((ROOT / "docs/program.schema.json").read_text()) == json.loads(json.dumps(json_schema()))


@pytest.mark.parametrize(
    ("monitor", "via", "generation", "expected"),
    [
        (None, "jms", "documented", None),
        (MonitorSpec(0, 500), "jms", "documented", None),
        (MonitorSpec(2000, 500), "jms", "documented", MonitorSpec(2000, 500)),
        (MonitorSpec(2001, 0), "stomp", "documented", MonitorSpec(2000, 1000)),
        (MonitorSpec(2000, 0), "stomp", "classic", MonitorSpec(2000, 2000)),
    ],
)
def test_effective_monitor(
    monitor: MonitorSpec | None, via: str, generation: str, expected: MonitorSpec | None
) -> None:
    assert effective_monitor(monitor, via, generation) == expected


@pytest.mark.parametrize(
    ("mine", "offer", "agreed"),
    [
        ((1000, 500), (4000, 3000), (1000, 500)),
        ((4000, 3000), (1000, 500), (1000, 500)),
        ((4000, 500), (1000, 3000), (1000, 500)),
        ((1000, 500), (0, 0), None),
        ((0, 0), (1000, 500), None),
    ],
)
def test_two_offers_become_their_minima(
    mine: tuple[int, int], offer: tuple[int, int], agreed: tuple[int, int] | None
) -> None:
    found = effective_monitor(MonitorSpec(*mine), "jms", "documented", MonitorSpec(*offer))
    assert found == (None if agreed is None else MonitorSpec(*agreed))

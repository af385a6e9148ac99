"""Probing a broker that is a script: what it refuses, and what it does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from brokerproof.conformance.brokers import make_adapter, proving
from brokerproof.conformance.brokers.base import STOMP_URL, Access
from brokerproof.conformance.brokers.line import Line, NameRefused, NoReceipt, ProbeError, ProbeLine
from brokerproof.conformance.brokers.probing import dates, probe, refused_forms, taken_versions
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.wire_names import LIFE, WireNames
from brokerproof.reference_broker.stomp.frames import Frame
from brokerproof.reference_broker.stomp.framing import StompFraming

Answer = Callable[[Frame], Frame | None]


@contextmanager
def scripted(answer: Answer, heart_beat: str = "0,0", versions: Sequence[str] = ("1.2",)) -> Iterator[int]:
    """The port of a broker that lets in who offers one of its versions, and answers each later frame as it is told."""

    def greeted(frame: Frame) -> Frame:
        offered = frame.headers["accept-version"].split(",")
        chosen = next((version for version in versions if version in offered), None)
        if chosen is None:
            return Frame("ERROR", {"message": "no version in common"})
        return Frame("CONNECTED", {"version": chosen, "heart-beat": heart_beat})

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(peer: socket.socket) -> None:
            framing = StompFraming()
            with peer:
                while data := peer.recv(65536):
                    for frame in framing.feed(data):
                        if not isinstance(frame, Frame):
                            continue
                        said = greeted(frame) if frame.command == "CONNECT" else answer(frame)
                        if said is not None:
                            peer.sendall(framing.encode(said))

        def accept() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(peer,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield int(server.getsockname()[1])


def selective(frame: Frame) -> Frame:
    """It knows queues by names of its own only."""
    if not frame.headers.get("destination", "q.").startswith("q."):
        return Frame("ERROR", {"message": "no such destination"})
    return Frame("RECEIPT", {"receipt-id": frame.headers["receipt"]})


def test_names_that_a_broker_refuses_are_said_with_the_line_of_the_profile() -> None:
    with scripted(selective) as port, pytest.raises(SuiteProblem) as caught:
        make_adapter(f"stomp://127.0.0.1:{port}")
    said = str(caught.value)
    assert said.startswith(f"stomp://127.0.0.1:{port}: names.stomp.queue: a message for '/queue/plain")
    assert "no such destination" in said
    assert 'queue = "/queue/{name}"' in said


def test_the_name_is_shown_as_the_profile_makes_it() -> None:
    names = WireNames(queue="x.{name}")
    with scripted(selective) as port, pytest.raises(NameRefused, match=r"for 'x\.plain"):
        probe(Access(port=port, url=STOMP_URL, names=names))


def test_a_probe_goes_on_where_a_receipt_is_missing_and_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """As go-stomp, which gives none for SUBSCRIBE."""
    monkeypatch.setattr("brokerproof.conformance.brokers.line.ABSENT_MS", 1)

    def silent(frame: Frame) -> Frame | None:
        return None if frame.command == "SUBSCRIBE" else selective(frame)

    with scripted(silent) as port:
        access = Access(port=port, url=STOMP_URL)
        with Line(access) as line, pytest.raises(NoReceipt, match="no receipt for SUBSCRIBE"):
            line.ask("SUBSCRIBE", {"id": "1", "destination": "q.1"}, wait_ms=1)
        with ProbeLine(access) as asking:
            asking.ask("SUBSCRIBE", {"id": "1", "destination": "q.1"}, wait_ms=1)
            asking.subscribe("q.2")
            asking.send("q.3", "it goes on")


@pytest.mark.parametrize(
    ("heart_beat", "told"),
    [
        ("0,0", "the broker wants no heart-beats (heart-beat:0,0), so it gives nobody up"),
        ("1,soon", "the broker wants no heart-beats (heart-beat:1,soon), so it gives nobody up"),
        ("0,1", "a silent client is still connected; it was due after 2 to 6 ms, 2 to 6 periods"),
        ("0,3", "a silent client is still connected; it was due after 6 to 18 ms, 2 to 6 periods"),
    ],
)
def test_who_gives_nobody_up_promises_no_grace(heart_beat: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "_BEAT_MS", 1)
    with scripted(lambda _: None, heart_beat) as port:
        adapter: Any = SimpleNamespace(
            access=lambda *_: Access(port=port, url=STOMP_URL),
            heart_beat_grace=2.0,
            lateness_ms=0,
            located=SimpleNamespace(profile=SimpleNamespace(start=None)),
        )
        assert proving._gives_up(adapter) == ("promises.heart_beat_grace", "wrong", told)


def test_forms_of_selectors_that_a_broker_refuses_are_found() -> None:
    def plain(frame: Frame) -> Frame:
        asked = frame.headers.get("selector", "")
        return Frame("ERROR", {"message": "bad filter"}) if "BETWEEN" in asked or " or " in asked else selective(frame)

    with scripted(plain) as port:
        access = Access(port=port, url=STOMP_URL, names=WireNames(queue="q.{name}"))
        assert refused_forms(access, "1") == ("BETWEEN", "words of any case")


def test_versions_that_a_broker_takes_from_who_offers_no_other_are_found() -> None:
    for versions in (["1.2"], ["1.2", "1.1"], ["1.2", "1.0"]):
        with scripted(selective, versions=versions) as port:
            assert taken_versions(Access(port=port, url=STOMP_URL)) == tuple(versions[1:])


@pytest.mark.parametrize(("word", "found"), [("ttl", {"broker-ttl", "ttl"}), ("", set())])
def test_a_life_that_the_broker_counts_is_a_time_to_live(
    word: str, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("ABSENT_MS", "ANSWER_MS"):
        monkeypatch.setattr(f"brokerproof.conformance.brokers.probing.{wait}", 1)
    monkeypatch.setattr("brokerproof.conformance.brokers.probing.ProbeLine", partial(Counting, word))
    monkeypatch.setattr("brokerproof.conformance.brokers.probing.refused_forms", lambda *_: ())
    told = probe(Access(port=0, url=STOMP_URL))
    assert set(told.capabilities) == found
    assert ("broker-ttl" in told.asked) == ("broker-ttl" in found)


class Counting:
    """A line to a broker that counts lives by a header called ``word``, and knows nothing else."""

    greeting: ClassVar[dict[str, str]] = {}

    def __init__(self, word: str, *_: Any, **__: Any) -> None:
        self._word = word
        self._kept: list[Frame] = []
        self._consumes = False

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, *_: Any, **__: Any) -> None:
        raise ProbeError("no such command")

    def send(self, dest: str, body: str, **headers: str) -> None:
        if not (self._word and headers.get(LIFE) == "1"):
            self._kept.append(Frame("MESSAGE", {"destination": dest}, body.encode()))

    def subscribe(self, *_: Any, **__: Any) -> None:
        self._consumes = True

    def message(self, _wait_ms: int) -> Frame | None:
        return self._kept.pop(0) if self._consumes and self._kept else None


@pytest.mark.parametrize(("moved", "found"), [({"timestamp"}, [True, False]), ({"timestamp", "expires"}, [True, True]),
                                              (set(), [False, False])])  # fmt: skip
def test_a_broker_may_write_its_own_time_and_leave_the_expiration(moved: set[str], found: list[bool]) -> None:
    """As HornetQ does: that is no time-stamping, which keeps the time to live."""

    def answers(line: SimpleNamespace, *_: str, **told: str) -> None:
        line.frame = Frame("MESSAGE", {word: "1" if word in moved else said for word, said in told.items()})

    line: Any = SimpleNamespace(subscribe=lambda _: None)
    line.send, line.message = partial(answers, line), lambda _: line.frame
    assert [dates(line, "q", word) for word in ("timestamp", "expires")] == found


@pytest.mark.parametrize(
    ("code", "said"),
    [(None, "refused"), (1, "exit code 1; end of its log:\nstarted\nundefined method 'x' (NoMethodError)")],
)
def test_a_broker_that_a_question_has_ended_is_said_to_have_died(code: int | None, said: str) -> None:
    """As stompserver, which what comes back ends."""
    process = SimpleNamespace(wait=lambda _: code, log_tail=lambda: "started\nundefined method 'x' (NoMethodError)\n")
    server = SimpleNamespace(launcher=SimpleNamespace(process=process))
    given_back: list[Any] = []
    servers = SimpleNamespace(give_back=lambda one, *, spoilt: given_back.append((one, spoilt)))
    located = SimpleNamespace(profile=SimpleNamespace(start=object()))
    adapter: Any = SimpleNamespace(
        located=located, servers=servers, server=lambda *_, **__: server, access=lambda *_: None
    )
    with pytest.raises((ProbeError, OSError)) as caught, proving._Running(adapter):
        raise ConnectionRefusedError("refused")
    assert said in str(caught.value)
    assert given_back == [(server, True)]


def test_figures_may_be_served_later_than_messages_and_then_have_their_time_to_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Artemis, beside other work: its page was not there yet, and the whole run was refused."""
    monkeypatch.setattr(proving, "MOVED_S", 0.0)
    told = iter([{}, {}, {"size": 2}, {"size": 2}, {"size": 3}])
    figures: Any = SimpleNamespace(counters=lambda _: next(told))
    assert proving._moved(figures, "queue://q0", lambda one: one.get("size") == 3) == {"size": 2}
    monkeypatch.setattr(proving, "SERVED_S", 0.0)
    figures.counters = lambda _: {}
    assert proving._moved(figures, "queue://q0", bool) == {}

"""``diagnose --watch`` on reference brokers without sockets, with a console and a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, USAGE, VIOLATED
from brokerproof.conformance.operating import watching
from brokerproof.conformance.operating.offset import Offset
from brokerproof.conformance.operating.watching import Watch, watched
from brokerproof.reports.render.watch import screen, spark, write_page
from tests.fast.conformance.operating.test_diagnose import seen, starving
from tests.fast.reference_broker.node.wire_pair import Pair

OFFSET = Offset(299_900, 300_100, "management", 9, 4)


def looks(pair: Pair) -> Iterator[Watch]:
    return watched(lambda: (seen(pair), OFFSET), lambda: pair.mono_ns / 1e9)


def lines(watch: Watch) -> list[str]:
    console = Console(width=140, record=True, no_color=True, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(screen(watch, "http://broker/"))
    return [line.rstrip() for line in captured.get().splitlines()]


def row(watch: Watch, name: str) -> str:
    return next(line for line in lines(watch) if line.startswith(name))


def test_the_verdict_comes_first_then_who_holds_and_who_starves() -> None:
    watch = next(looks(starving("G3")))
    text = lines(watch)
    assert text[0] == "✘ starvation"
    assert text[1] == "  queue://A waits for queue://B"
    assert text[2].startswith("  remedy: now: consume from queue://B")
    assert row(watch, "queue://A").endswith("STARVES")
    assert f"{'░' * 30}   0 %" in row(watch, "queue://A")
    assert f"{'█' * 30} 100 %" in row(watch, "queue://B")
    assert row(watch, "queue://B").endswith("nobody reads it")
    assert text[-1] == "the broker's clock is +300.00 s ± 0.10 s from this host's"


def test_without_trouble_that_is_the_verdict() -> None:
    assert lines(next(looks(starving("fair"))))[0] == "✔ no problem is seen"


def test_the_oldest_message_is_followed_by_the_totals() -> None:
    pair = Pair()
    client, watching = pair.stomp(), looks(pair)
    for _ in range(2):
        client.send("queue://q", b"")
        pair.run()
        watch = next(watching)
        pair.advance(60_000)
    oldest = next(watching).glances[-1].rows[0].oldest_s
    assert oldest is not None
    assert oldest >= 120
    assert "≥ 2 min" in row(watch, "queue://q")
    client.subscribe("c", "queue://q", 1, ack="client")
    pair.run()
    client.ack(pair.delivered(1)[0])
    pair.run()
    second = next(watching).glances[-1].rows[0].oldest_s
    assert second is not None
    assert 60 <= second < oldest, "the first one has gone"
    client.ack(pair.delivered(1)[1])
    pair.run()
    assert next(watching).glances[-1].rows[0].oldest_s is None


def test_counts_over_time_are_drawn_below_zero_too() -> None:
    assert spark([0, 5, 10, -3]) == "▁▄█▽"
    assert spark(list(range(100))) == spark(list(range(68, 100))), "the last ones"


def test_the_command_watches_until_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = starving("G3")

    def twice(*_: object) -> Iterator[Watch]:
        for number, watch in enumerate(looks(pair)):
            if number == 2:
                raise KeyboardInterrupt
            yield watch

    monkeypatch.setattr(watching, "watched", twice)
    page = tmp_path / "new/watch.html"
    assert main(["diagnose", "--watch", "--html", str(page)]) == VIOLATED
    assert "✘ starvation" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert text.index("✘ starvation") < text.index("Who holds the memory")
    assert "<strong>STARVES</strong>" in text
    assert "look 2," in text
    monkeypatch.setattr(watching, "watched", lambda *_: iter([next(looks(starving("fair")))]))
    assert main(["diagnose", "--watch"]) == OK
    for words, remedy in ((["--html", "x.html"], "add --watch"), (["--watch", "--json"], "leave out --watch")):
        assert main(["diagnose", *words]) == USAGE
        assert remedy in capsys.readouterr().err


def test_the_page_draws_what_is_in_flight(tmp_path: Path) -> None:
    pair = Pair()
    client, watching = pair.stomp(), looks(pair)
    for _ in range(20):
        client.send("queue://q", b"")
    client.subscribe("c", "queue://q", 10, ack="client")
    pair.run()
    next(watching)
    for message in pair.delivered(1)[:4]:
        client.ack(message)
    pair.run()
    write_page(tmp_path / "watch.html", next(watching), "<broker>", 0.0)
    text = (tmp_path / "watch.html").read_text(encoding="utf-8")
    assert text.count("<polyline") == 2, "a queue, and the clock"
    assert "&lt;broker&gt;" in text
    assert "1970-01-01 00:00:00Z" in text

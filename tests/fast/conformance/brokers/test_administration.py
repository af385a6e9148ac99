"""What an operator asks a profile's broker for at its web pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.conformance.brokers import administration
from brokerproof.conformance.brokers.administration import administer
from brokerproof.conformance.brokers.pages import Page
from brokerproof.conformance.brokers.profile import Located, parse_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.experiment.exits import SuiteProblem, UsageError

TEXT = """
name = "b"
[endpoints]
stomp = { url = "stomp://127.0.0.1:1" }
[promises]
capabilities = []
[operations]
"""
PURGE = 'purge = "http://127.0.0.1:{port.admin}/queues/{name}/purge"\n'
MOVE = 'move = "PUT http://127.0.0.1:{port.admin}/queues/{name}?to={to}"\n'


def located(more: str) -> Located:
    return parse_profile(TEXT + more, "b.toml", Path("/nowhere"))


@pytest.mark.parametrize(
    ("page", "count", "refusal"),
    [
        (Page(200, '{"done": {"purged": 3}}'), 3, ""),
        (Page(200, "3\n"), 3, ""),
        (Page(204, ""), None, ""),
        (Page(200, '{"done": {"purged": true}}'), None, ""),
        (Page(409, "busy"), None, "409 busy"),
    ],
)
def test_its_answer_is_told(page: Page, count: int | None, refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[tuple[str, str]] = []
    monkeypatch.setattr(administration, "asked", lambda url, method: urls.append((method, url)) or page)
    profile = located(f'{PURGE}{MOVE}count = "done.purged"\n')
    for op, to, method, path in (
        ("purge", "", "POST", "queues/q%2F0/purge"),
        ("move", "queue://q1", "PUT", "queues/q%2F0?to=q1"),
    ):
        told = administer(profile, {"port.admin": "7"}, op, "queue://q/0", to)
        assert told is not None
        assert (told.count, told.refusal) == (count, refusal)
        assert urls.pop() == (method, f"http://127.0.0.1:7/{path}")


def test_what_the_table_does_not_have_is_not_asked() -> None:
    profile = located(PURGE)
    assert ProfileAdapter(profile).capabilities() == ["operator"]
    assert ProfileAdapter(profile).operations == ["purge"]
    assert ProfileAdapter(located("")).capabilities() == []
    assert administer(profile, {}, "reset", "queue://q0", "") is None
    assert administer(profile, {}, "purge", "topic://t0", "") is None


def test_a_page_that_nobody_answers_is_no_fault_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(url: str, method: str) -> Page:
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(administration, "asked", asked)
    with pytest.raises(SuiteProblem, match=r"operations\.purge: http://127\.0\.0\.1:7/queues/q0/purge does not answer"):
        administer(located(PURGE), {"port.admin": "7"}, "purge", "queue://q0", "")


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ('purge = "127.0.0.1/{name}"', "://"),
        ('purge = "http://127.0.0.1/q"', "{name}"),
        ('move = "http://127.0.0.1/{name}"', "{to}"),
    ],
)
def test_an_address_that_names_no_queue_is_refused_with_an_example(line: str, lacks: str) -> None:
    with pytest.raises(UsageError, match=f"lacks {lacks}; for example 'http://"):
        located(line)

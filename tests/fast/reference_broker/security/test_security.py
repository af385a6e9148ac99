"""Who may come in and what they may do, without sockets: hashes, users, permissions, and their table in the file."""

from __future__ import annotations

import io
import re
import sys
import tomllib

import pytest

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.events import (
    Ack,
    AddDestination,
    Event,
    Pull,
    RemoveDestination,
    Send,
    Subscribe,
)
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.security import command
from brokerproof.reference_broker.security.authenticator import Authenticator, User, refusal
from brokerproof.reference_broker.security.authority import ADMIN, READ, WRITE, Authority, Permission, Rights, encloses
from brokerproof.reference_broker.security.identity import Credentials, Identity
from brokerproof.reference_broker.security.passwords import Cost, PasswordHash, hash_password, parse_hash
from brokerproof.reference_broker.settings.configuration import settings_of
from brokerproof.reference_broker.settings.security import security_settings
from tests.guards.tree import ROOT

#: As cheap as scrypt can be.
CHEAP = Cost(2, 1, 1)
ALICE = Identity("alice", frozenset({"users"}))


# -- hashes


def test_a_hash_knows_its_password_and_nothing_else_and_survives_being_written() -> None:
    made = hash_password("pässword", CHEAP)
    for stored in (made, parse_hash(str(made))):
        assert stored.matches("pässword")
        assert not stored.matches("password")
        assert not stored.matches("")
    assert str(made) != str(hash_password("pässword", CHEAP)), "each has a salt of its own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("secret", "a text of 6 characters is no password hash"),
        ("scrypt$n=2,r=1,p=1$abc$abc", "is not base64"),
        ("scrypt$n=2,r=1,p=1$AAAA$AAAA", "has 3 bytes of salt and 3 of digest"),
        ("scrypt$n=3,r=1,p=1$" + "A" * 24 + "$" + "A" * 43 + "=", "the cost n=3,r=1,p=1"),
        ("scrypt$n=1048576,r=999,p=1$" + "A" * 24 + "$" + "A" * 43 + "=", "the cost n=1048576,r=999,p=1"),
    ],
)
def test_a_hash_that_cannot_be_used_is_refused_before_it_costs_anything(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as caught:
        parse_hash(text)
    assert "brokerproof password" in str(caught.value)
    assert text not in str(caught.value)


def test_the_command_makes_a_hash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        "brokerproof.reference_broker.security.command.hash_password", lambda text: hash_password(text, CHEAP)
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\nmore\n"))
    assert command.main([]) == 0
    assert parse_hash(capsys.readouterr().out.strip()).matches("secret")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert command.main([]) == 2
    assert "the password is empty" in capsys.readouterr().err


# -- users


def authenticator(anonymous: Identity | None = None) -> Authenticator:
    return Authenticator([User("alice", hash_password("secret", CHEAP), ["users"])], anonymous)


def test_a_right_password_is_recognised_again_at_once() -> None:
    auth = authenticator()
    right = Credentials("alice", "secret")
    assert auth.recall(right) is None, "never seen before"
    found = auth.check(right)
    assert found is not None
    assert (found.user, found.groups) == ("alice", frozenset({"users"}))
    assert auth.recall(right) is not None
    for wrong in (Credentials("alice", "Secret"), Credentials("bob", "secret"), Credentials("alice", "")):
        assert auth.recall(wrong) is None
        assert auth.check(wrong) is None
    assert auth.recall(Credentials("alices", "ecret")) is None


def test_half_a_surrogate_pair_in_a_password_is_a_character_like_others() -> None:
    odd = "secret\ud800"
    assert hash_password(odd, CHEAP).matches(odd)
    auth = Authenticator([User("alice", hash_password(odd, CHEAP))])
    for name, password, known in (("alice", odd, True), ("alice", "secret\udc80", False), ("al\ud800", odd, False)):
        assert (auth.check(Credentials(name, password)) is not None) == known
        assert (auth.recall(Credentials(name, password)) is not None) == known


def test_an_unknown_user_costs_a_check_as_a_known_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[int] = []

    def counted(stored: PasswordHash, password: str) -> bool:
        costs.append(stored.cost.weight())
        return False

    monkeypatch.setattr(PasswordHash, "matches", counted)
    auth = Authenticator([User("alice", hash_password("x", Cost(4, 1, 1))), User("bob", hash_password("x", CHEAP))])
    auth.check(Credentials("alice", "wrong"))
    auth.check(Credentials("nobody", "wrong"))
    assert costs == [4, 4]


def test_nobody_comes_in_without_a_name_unless_that_is_allowed() -> None:
    nameless = Credentials("", "")
    assert authenticator().recall(nameless) is None
    assert authenticator().is_hopeless(nameless)
    assert authenticator(ALICE).recall(nameless) is ALICE
    assert authenticator(ALICE).recall(Credentials("", "secret")) is None
    assert "[]" in refusal("")


def test_no_text_shows_a_password() -> None:
    assert "secret" not in repr(Credentials("alice", "secret"))
    assert "secret" not in refusal("alice")
    assert "[a?b]" in refusal("a\nb")


# -- permissions


@pytest.mark.parametrize(
    ("grant", "wanted", "covered"),
    [
        ("queue://A", "queue://A", True),
        ("queue://A", "topic://A", False),
        ("A", "topic://A", True),
        ("queue://A.>", "queue://A", True),
        ("queue://A.>", "queue://A.B.C", True),
        ("queue://A.>", "queue://A.*", True),
        ("queue://A.>", "queue://A.>", True),
        ("queue://A.>", "queue://>", False),
        ("queue://A.>", "queue://*.B", False),
        ("queue://A.*", "queue://A.B", True),
        ("queue://A.*", "queue://A.*", True),
        ("queue://A.*", "queue://A.>", False),
        ("queue://A.*", "queue://A", False),
        ("queue://*.B", "queue://A.B", True),
        ("queue://*.B", "queue://*.*", False),
        ("queue://A.B", "queue://A.*", False),
        (">", "queue://A.B", True),
        (">", "topic://>", True),
    ],
)
def test_a_grant_covers_all_that_is_wanted_or_does_not(grant: str, wanted: str, covered: bool) -> None:
    assert encloses(grant, wanted) is covered


def send(destination: str) -> Send:
    return Send(1, Message("m", destination, b""))


EXISTING = {"queue://A", "queue://A.B", "topic://T"}
AUTHORITY = Authority(
    [
        Permission("queue://A.>", read=["users"], write=["users"]),
        Permission("queue://A.new.>", admin=["users"]),
        Permission("topic://T", read=["*"]),
        Permission(">", read=["admins"], write=["admins"], admin=["admins"]),
    ]
)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (send("queue://A"), ""),
        (send("queue://A.new.one"), ""),
        (send("queue://A.other"), "User alice is not authorized to create or delete: queue://A.other"),
        (send("queue://B"), "User alice is not authorized to write to: queue://B"),
        (send("queue://A,B"), "User alice is not authorized to write to: queue://B"),
        (send("topic://T"), "User alice is not authorized to write to: topic://T"),
        (send("temp-queue://7:1"), ""),
        (Subscribe(1, "c", "queue://A.B", 1), ""),
        (Subscribe(1, "c", "queue://A.>", 1), ""),
        (Subscribe(1, "c", "topic://T", 1), ""),
        (Subscribe(1, "c", "queue://>", 1), "User alice is not authorized to read from: queue://>"),
        (Subscribe(1, "c", "queue://A,topic://U", 1), "User alice is not authorized to read from: topic://U"),
        (AddDestination(1, "temp-queue://1:1"), ""),
        (AddDestination(1, "queue://A"), ""),
        (AddDestination(1, "queue://C"), "User alice is not authorized to create or delete: queue://C"),
        (RemoveDestination(1, "queue://A"), "User alice is not authorized to create or delete: queue://A"),
        (RemoveDestination(1, "queue://A.new.one"), ""),
        (Pull(1, "c", 0), ""),
        (Ack(1, "c", 2, "m"), ""),
    ],
)
def test_what_a_user_may_do(event: Event, text: str) -> None:
    rights = Rights(ALICE, AUTHORITY, EXISTING.__contains__)
    for _ in range(2):  # the second answer may come from memory
        objection = rights.objection(event)
        assert objection.startswith(text)
        assert bool(objection) == bool(text)
    assert Rights(Identity("root", frozenset({"admins"})), AUTHORITY, EXISTING.__contains__).objection(event) == ""


def test_creation_is_looked_at_again_when_a_destination_has_gone() -> None:
    existing = {"queue://A.x"}
    rights = Rights(ALICE, AUTHORITY, existing.__contains__)
    assert rights.objection(send("queue://A.x")) == ""
    existing.clear()
    assert "create" in rights.objection(send("queue://A.x"))


def test_what_is_remembered_is_bounded() -> None:
    rights = Rights(ALICE, Authority([Permission(">", write=["*"])]), lambda name: True)
    assert [rights.objection(send(f"queue://{number}")) for number in range(3000)] == [""] * 3000
    assert len(rights._allowed) <= 1000


def test_temporary_destinations_can_be_restricted() -> None:
    authority = Authority([], Permission("", admin=["admins"], write=["users"]))
    assert authority.allows(ALICE, WRITE, "temp-queue://1:1")
    assert not authority.allows(ALICE, ADMIN, "temp-queue://1:1")
    assert not authority.allows(ALICE, READ, "temp-topic://1:1")


# -- the table of the file


def test_every_key_of_the_table_is_used() -> None:
    stored = hash_password("two", CHEAP)
    found = security_settings(
        {
            "users": [
                {"name": "alice", "password": "one", "groups": ["users"]},
                {"name": "bob", "password_hash": str(stored)},
            ],
            "anonymous_access_allowed": True,
            "anonymous_user": "guest",
            "anonymous_groups": ["guests"],
            "permissions": [{"match": "queue://A.>", "read": ["users"], "write": ["guests"], "admin": ["*"]}],
            "temporary": {"admin": ["users"]},
        }
    )
    auth, authority = found.authenticator(CHEAP), found.authority()
    assert auth is not None
    assert authority is not None
    alice, bob = auth.check(Credentials("alice", "one")), auth.check(Credentials("bob", "two"))
    guest = auth.recall(Credentials("", ""))
    assert alice is not None
    assert bob is not None
    assert guest is not None
    assert (alice.groups, bob.groups, guest.user, guest.groups) == ({"users"}, frozenset(), "guest", {"guests"})
    rights = [
        [authority.allows(who, right, "queue://A.B") for right in (READ, WRITE, ADMIN)] for who in (alice, bob, guest)
    ]
    assert rights == [[True, False, True], [False, False, True], [False, True, True]]
    assert [authority.allows(who, ADMIN, "temp-queue://1:1") for who in (alice, bob)] == [True, False]


def test_without_a_table_everything_is_open() -> None:
    found = security_settings({})
    assert found.is_open()
    assert found.authenticator() is None
    assert found.authority() is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"users": []}, "lets nobody in; name users in security.users or set"),
        ({"users": [{"name": "a", "password": "x"}, {"name": "a", "password": "y"}]}, "'a' stands there twice"),
        ({"users": [{"name": "a"}]}, "needs one of password_hash and password"),
        ({"users": [{"name": "a", "password": "hidden", "password_hash": "hidden"}]}, "needs one of"),
        ({"users": [{"name": "a", "password_hash": "hidden"}]}, "a text of 6 characters is no password hash"),
        ({"users": [{"name": "a", "password": 4711}]}, "password = (not shown) must be a text"),
        ({"users": [{"password": "hidden"}]}, "users[0] has no name"),
        ({"users": ["hidden"]}, "users[0] must be a table"),
        ({"anonymous_access_allowed": True, "permissions": [{"read": ["*"]}]}, "permissions[0] has no match"),
        ({"anonymous_access_allowed": True, "permissions": [{"match": "queue://>.A"}]}, "has '>' before its end"),
        ({"anonymous_access_allowed": True, "permissions": [{"match": "temp-queue://A"}]}, "security.temporary"),
        ({"anonymous_access_allowed": True, "permissions": ["queue://A"]}, "must be a table"),
        ({"anonymous_access_allowed": True, "temporary": {}}, "has no effect without security.permissions"),
        ({"anonymous": True}, "anonymous is unknown"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        security_settings(data)
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "4711" not in str(caught.value)


def test_the_page_is_executed() -> None:
    """Every TOML block of docs/security.md is a usable part of a configuration file."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    real = str(hash_password("x", CHEAP))
    users, anonymous, permissions, tls = (block.replace("scrypt$n=16384,r=8,p=5$…$…", real) for block in blocks)
    found = settings_of(tomllib.loads(users), "page").security
    assert [(login.name, login.groups) for login in found.logins] == [("alice", ["users"]), ("operator", ["admins"])]
    found = settings_of(tomllib.loads(anonymous), "page").security
    assert found.anonymous is not None
    assert (found.anonymous.user, found.management_groups) == ("anonymous", {"admins"})
    found = settings_of(tomllib.loads(anonymous + permissions), "page").security
    assert found.permissions is not None
    assert [permission.match for permission in found.permissions] == ["queue://USERS.>", "topic://ActiveMQ.Advisory.>"]
    assert found.temporary is not None
    assert [listening.port for listening in settings_of(tomllib.loads(tls), "page").listen_addresses] == [61613, 61614]

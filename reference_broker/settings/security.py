"""``[security]`` of the configuration file: users, groups, permissions, who comes in without a name.

* A password stands as a hash (``password_hash``) or as a text (``password``), not both. A text is hashed when the
  broker starts, which takes as long as a login does.
* No message shows a password or a hash.
* A section that lets nobody in is an error, and so are two users of one name.
"""

from __future__ import annotations

from typing import Any, Final

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.matching import consumer_fault, split
from brokerproof.reference_broker.core.message import QUEUE, TOPIC
from brokerproof.reference_broker.security.authenticator import Authenticator, User
from brokerproof.reference_broker.security.authority import Authority, Permission
from brokerproof.reference_broker.security.identity import Identity
from brokerproof.reference_broker.security.passwords import Cost, PasswordHash, hash_password, parse_hash
from brokerproof.reference_broker.settings.schema import (
    FLAG,
    SECRET,
    TABLE,
    TABLES,
    TEXT,
    TEXTS,
    Row,
    checked,
    checked_table,
)

_SECURITY: Final[dict[str, Row]] = {
    "users": TABLES,
    "permissions": TABLES,
    "temporary": TABLE,
    "anonymous_access_allowed": FLAG,
    "anonymous_user": TEXT,
    "anonymous_groups": TEXTS,
    "management_groups": TEXTS,
}
_USER: Final[dict[str, Row]] = {"name": TEXT, "password": SECRET, "password_hash": SECRET, "groups": TEXTS}
_RIGHTS: Final[dict[str, Row]] = {"read": TEXTS, "write": TEXTS, "admin": TEXTS}
_PERMISSION: Final[dict[str, Row]] = {"match": TEXT, **_RIGHTS}
ANONYMOUS: Final = "anonymous"
ADMINISTRATORS: Final = "admins"


class Login:
    """A user as the file describes him. ``password`` is a text, or its hash."""

    __slots__ = ("groups", "name", "password")

    def __init__(self, name: str, password: str | PasswordHash, groups: list[str]) -> None:
        self.name = name
        self.password = password
        self.groups = groups


class SecuritySettings:
    """Who may come in and what he may do. As it is made: everybody, everything."""

    __slots__ = ("anonymous", "logins", "management_groups", "permissions", "temporary")

    def __init__(self) -> None:
        self.logins: list[Login] = []
        #: Who comes in without a name; None: nobody does.
        self.anonymous: Identity | None = None
        #: None: everybody who was let in may do everything.
        self.permissions: list[Permission] | None = None
        self.temporary: Permission | None = None
        #: Who may use the management port.
        self.management_groups = frozenset({ADMINISTRATORS})

    def is_open(self) -> bool:
        """Whether nothing at all is said about who may come in."""
        return not self.logins and self.anonymous is None

    def authenticator(self, cost: Cost | None = None) -> Authenticator | None:
        """Who tells who somebody is; None: everybody may come in. Takes a while where passwords stand as texts, which
        are hashed at ``cost``.
        """
        if self.is_open():
            return None
        users = [
            User(
                login.name,
                hash_password(login.password, cost) if isinstance(login.password, str) else login.password,
                login.groups,
            )
            for login in self.logins
        ]
        return Authenticator(users, self.anonymous)

    def authority(self) -> Authority | None:
        """Who tells what somebody may do; None: everything."""
        return None if self.permissions is None else Authority(self.permissions, self.temporary)


def security_settings(data: dict[str, Any], where: str = "security") -> SecuritySettings:
    """The table of that name. ``where`` begins the text of a ConfigError."""
    fields = checked(data, _SECURITY, where)
    found = SecuritySettings()
    names: set[str] = set()
    for number, entry in enumerate(fields.get("users", [])):
        login = _login(entry, f"{where}.users[{number}]")
        if login.name in names:
            raise ConfigError(f"{where}.users[{number}].name = {login.name!r} stands there twice; keep one")
        names.add(login.name)
        found.logins.append(login)
    if fields.get("anonymous_access_allowed", False):
        groups = frozenset(fields.get("anonymous_groups", [ANONYMOUS]))
        found.anonymous = Identity(fields.get("anonymous_user", ANONYMOUS), groups)
    if "management_groups" in fields:
        found.management_groups = frozenset(fields["management_groups"])
    if found.is_open() and fields:
        raise ConfigError(
            f"{where} lets nobody in; name users in {where}.users or set {where}.anonymous_access_allowed = true"
        )
    if "permissions" in fields:
        entries = enumerate(fields["permissions"])
        found.permissions = [_permission(entry, f"{where}.permissions[{number}]") for number, entry in entries]
    if "temporary" in fields:
        if found.permissions is None:
            raise ConfigError(f"{where}.temporary has no effect without {where}.permissions; write both or none")
        found.temporary = Permission("", **checked(fields["temporary"], _RIGHTS, f"{where}.temporary"))
    return found


def _login(entry: object, where: str) -> Login:
    fields = checked_table(entry, _USER, where, holds="name, password_hash and groups")
    if "name" not in fields:
        raise ConfigError(f"{where} has no name; give one")
    if ("password" in fields) == ("password_hash" in fields):
        raise ConfigError(f"{where} ({fields['name']!r}) needs one of password_hash and password")
    password: str | PasswordHash = fields.get("password", "")
    if "password_hash" in fields:
        try:
            password = parse_hash(fields["password_hash"])
        except ValueError as error:
            raise ConfigError(f"{where}.password_hash of {fields['name']!r}: {error}") from None
    return Login(fields["name"], password, fields.get("groups", []))


def _permission(entry: object, where: str) -> Permission:
    fields = checked_table(entry, _PERMISSION, where)
    if "match" not in fields:
        raise ConfigError(f"{where} has no match; name a destination, or a pattern such as 'queue://USERS.>'")
    match = fields.pop("match")
    prefix, name = split(match)
    wrong = consumer_fault((prefix or QUEUE) + name)
    if wrong or prefix not in ("", QUEUE, TOPIC) or "," in match:
        wrong = wrong or f"{match!r} is no queue or topic; what concerns temporary ones stands in security.temporary"
        raise ConfigError(f"{where}.match = {match!r}: {wrong}")
    return Permission(match, **fields)

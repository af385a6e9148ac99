"""Who somebody is: users with passwords and groups, and perhaps an anonymous one (ActiveMQ's
simpleAuthenticationPlugin).

* ``check`` takes a while and is called beside the loop. It takes as long for a user that does not exist as for one that
  does: a hash of the costliest kind in use is checked in his place.
* A password that was right once is recognised again by ``recall`` in a moment, so that a thousand clients can reconnect
  at once. What is kept for that is keyed with a secret of this process; wrong passwords gain nothing.
* Whoever names no user and brings no password is anonymous. Where that is not allowed he is refused like a wrong
  password.
* A refusal names the user, never the password, and does not say which of both was wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from brokerproof.reference_broker.security.identity import Credentials, Identity
from brokerproof.reference_broker.security.passwords import Cost, PasswordHash, hash_password

NOT_AUTHENTICATED: Final = "not-authenticated"


class User:
    """Somebody who may come in with a password."""

    __slots__ = ("groups", "name", "password")

    def __init__(self, name: str, password: PasswordHash, groups: Sequence[str] = ()) -> None:
        self.name = name
        self.password = password
        self.groups = frozenset(groups)


class Authenticator:
    """See the module's header."""

    __slots__ = ("_anonymous", "_decoy", "_key", "_known", "_users")

    def __init__(self, users: Sequence[User], anonymous: Identity | None = None) -> None:
        self._users = {user.name: user for user in users}
        self._anonymous = anonymous
        costs = [user.password.cost for user in users]
        self._decoy = hash_password(secrets.token_hex(), max(costs, key=Cost.weight) if costs else None)
        self._key = secrets.token_bytes(32)
        #: User -> the keyed digest of the password that was right.
        self._known: dict[str, bytes] = {}

    def recall(self, credentials: Credentials) -> Identity | None:
        """Who it is, if that can be said at once."""
        if not credentials.user and not credentials.password:
            return self._anonymous
        known = self._known.get(credentials.user)
        if known is None or not hmac.compare_digest(known, self._keyed(credentials)):
            return None
        return self._identity(credentials.user)

    def is_hopeless(self, credentials: Credentials) -> bool:
        """Whether no check can help: nobody is named."""
        return not credentials.user

    def check(self, credentials: Credentials) -> Identity | None:
        """Who it is; None: nobody who may come in. Takes a while; may be called in threads, several at once."""
        user = self._users.get(credentials.user)
        stored = self._decoy if user is None else user.password
        if not stored.matches(credentials.password) or user is None:
            return None
        self._known[user.name] = self._keyed(credentials)
        return self._identity(user.name)

    def _identity(self, name: str) -> Identity:
        return Identity(name, self._users[name].groups)

    def _keyed(self, credentials: Credentials) -> bytes:
        secret = f"{len(credentials.user)}:{credentials.user}{credentials.password}"
        return hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256)


def refusal(user: str) -> str:
    """What a peer is told that cannot come in."""
    if not user:
        return "User name [] or password is invalid: nobody is let in without a name; send a name and its password"
    # Names come from outside: no line of a log or of an error may be broken by one.
    shown = "".join(letter if letter.isprintable() else "?" for letter in user[:80])
    return f"User name [{shown}] or password is invalid; check both against the broker's configuration"

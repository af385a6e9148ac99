"""Salted password hashes: ``scrypt$n=16384,r=8,p=5$SALT$DIGEST``, both in base64.

scrypt is the standard library's (OpenSSL's): memory-hard, maintained with the interpreter, and no compiled dependency
more for a broker that is mostly used in tests. The cost is the one that OWASP's cheat sheet recommends for 16 MiB; a
hash says its own cost, so that it can be raised later.

* Comparison is in constant time. The interpreter's lock is released meanwhile, so a check may run in a thread.
* A hash in a file is looked at before it is used: one that would need more than ``MEMORY_MAX`` is refused, not tried.
* Neither a password nor a hash is ever part of a text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

MEMORY_MAX: Final = 256 * 1024 * 1024
_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
_FORM: Final = re.compile(r"scrypt\$n=(\d{1,8}),r=(\d{1,3}),p=(\d{1,3})\$([\w+/=]+)\$([\w+/=]+)", re.ASCII)
_REMEDY: Final = "make one with `brokerproof password`"


class Cost:
    """What a check takes: memory 128 * r * n bytes, time in proportion to n * r * p."""

    __slots__ = ("n", "p", "r")

    def __init__(self, n: int = 2**14, r: int = 8, p: int = 5) -> None:
        if n < 2 or n & (n - 1) or not r or not p or 128 * r * n > MEMORY_MAX or n * r * p > 2**24:
            raise ValueError(f"the cost n={n},r={r},p={p} of a password hash is not usable; {_REMEDY}")
        self.n = n
        self.r = r
        self.p = p

    def weight(self) -> int:
        """How long a check takes, compared with others."""
        return self.n * self.r * self.p


class PasswordHash:
    """A stored password."""

    __slots__ = ("_digest", "_salt", "cost")

    def __init__(self, cost: Cost, salt: bytes, digest: bytes) -> None:
        self.cost = cost
        self._salt = salt
        self._digest = digest

    def matches(self, password: str) -> bool:
        """Whether it is this password. Takes a while."""
        return hmac.compare_digest(_digest(password, self.cost, self._salt), self._digest)

    def __str__(self) -> str:
        parts = (base64.b64encode(part).decode() for part in (self._salt, self._digest))
        return "$".join((f"scrypt$n={self.cost.n},r={self.cost.r},p={self.cost.p}", *parts))


def hash_password(password: str, cost: Cost | None = None) -> PasswordHash:
    """A new hash with a salt of its own. Takes a while."""
    cost = cost if cost is not None else Cost()
    salt = secrets.token_bytes(_SALT_BYTES)
    return PasswordHash(cost, salt, _digest(password, cost, salt))


def parse_hash(text: str) -> PasswordHash:
    """Read a stored hash. Raises ValueError whose text does not show it."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"a text of {len(text)} characters is no password hash (scrypt$n=…,r=…,p=…$…$…); {_REMEDY}")
    n, r, p = (int(number) for number in found.groups()[:3])
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in found.groups()[3:])
    except binascii.Error:
        raise ValueError(f"the salt or digest of a password hash is not base64; {_REMEDY}") from None
    if len(salt) < _SALT_BYTES // 2 or len(digest) != _DIGEST_BYTES:
        raise ValueError(f"a password hash has {len(salt)} bytes of salt and {len(digest)} of digest; {_REMEDY}")
    return PasswordHash(Cost(n, r, p), salt, digest)


def _digest(password: str, cost: Cost, salt: bytes) -> bytes:
    memory = 128 * cost.r * (cost.n + cost.p + 2)
    # Lone surrogates come from a terminal, and through OpenWire's modified UTF-8; they are characters like others.
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=memory, dklen=_DIGEST_BYTES)

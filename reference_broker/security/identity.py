"""What somebody says about himself, and what is known after that has been checked."""

from __future__ import annotations


class Credentials:
    """What a peer brings. ``user`` "" : it names none. Never printed: it has no text of its own."""

    __slots__ = ("password", "user")

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, …)"


class Identity:
    """Somebody whose name was checked, or the anonymous one."""

    __slots__ = ("groups", "user")

    def __init__(self, user: str, groups: frozenset[str]) -> None:
        self.user = user
        self.groups = groups

    def __repr__(self) -> str:
        return f"Identity({self.user!r}, {', '.join(sorted(self.groups))})"

"""ActiveMQ's two plug-ins for users and permissions, read as our ``[security]``: a part of ``activemq_xml.py``.

* ``simpleAuthenticationPlugin`` with its users; passwords stand there as text, and so do ours then.
* ``authorizationPlugin`` with an ``authorizationMap``: one permission per entry, and the one for temporary
  destinations. Groups are separated by commas.
* Other plug-ins that do the same by other means (JAAS, LDAP) have no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from xml.etree import ElementTree

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.message import QUEUE, TOPIC

#: Our keys and values of an element's attributes, but for some that the caller looks at himself.
Fields = Callable[[ElementTree.Element, dict[str, tuple[str, str]], set[str]], dict[str, Any]]
#: All elements at the end of a path.
Each = Callable[..., list[ElementTree.Element]]

AUTHENTICATION: Final = {
    "anonymousAccessAllowed": ("anonymous_access_allowed", "flag"),
    "anonymousUser": ("anonymous_user", "text"),
    "anonymousGroup": ("anonymous_groups", "texts"),
}
USER: Final = {"username": ("name", "text"), "password": ("password", "text"), "groups": ("groups", "texts")}
RIGHTS: Final = {"read": ("read", "texts"), "write": ("write", "texts"), "admin": ("admin", "texts")}
_KINDS: Final = {"queue": QUEUE, "topic": TOPIC}
#: What stands beside each other in an authorizationMap.
_ENTRIES: Final = frozenset({"authorizationEntries"})
_TEMPORARY: Final = frozenset({"tempDestinationAuthorizationEntry"})


def users(plugin: ElementTree.Element, fields: Fields, each: Each) -> dict[str, Any]:
    """The ``[security]`` that a simpleAuthenticationPlugin means."""
    found = fields(plugin, AUTHENTICATION, set())
    found["users"] = [fields(user, USER, set()) for user in each(plugin, "users", "authenticationUser")]
    return found


def permissions(plugin: ElementTree.Element, fields: Fields, each: Each, where: str) -> dict[str, Any]:
    """The ``[security]`` that an authorizationPlugin means. Raises ``ConfigError``."""
    found: dict[str, Any] = {"permissions": []}
    for entry in each(
        plugin, "map", "authorizationMap", "authorizationEntries", "authorizationEntry", beside=_TEMPORARY
    ):
        kinds = [kind for kind in _KINDS if kind in entry.attrib]
        if len(kinds) != 1:
            raise ConfigError(f"{where}: an authorizationEntry names {len(kinds)} of queue, topic; it must name one")
        match = _KINDS[kinds[0]] + entry.attrib[kinds[0]]
        found["permissions"].append({"match": match, **fields(entry, RIGHTS, set(_KINDS))})
    path = ("map", "authorizationMap", "tempDestinationAuthorizationEntry", "tempDestinationAuthorizationEntry")
    for entry in each(plugin, *path, beside=_ENTRIES):
        found["temporary"] = fields(entry, RIGHTS, set())
    return found

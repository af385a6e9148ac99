"""What a JMS agent is told of the provider that it uses; the words are a profile's (docs/profiles.md)."""

from __future__ import annotations

import re
from typing import Literal

import msgspec


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``factory``: a class, or ``jndi:NAME``. ``properties`` of the factory, or of the JNDI context; ``{uri}``,
    ``{host}`` and ``{port}`` in them are the broker's, ``env:NAME`` a secret. ``individual``: the number of the
    provider's own session mode, None if it has none. ``expiry_check``: it throws away what its host's clock calls
    expired.
    """

    factory: str
    api: Literal["javax", "jakarta"] = "jakarta"
    facade: Literal["classic", "context"] = "classic"
    properties: dict[str, str | int | bool] = {}
    individual: int | None = None
    expiry_check: bool | None = None


#: How the code of a refusal begins that is the fault of a line of the profile: ``profile:endpoints.jms.factory``.
PROFILE = "profile:"
_ADDRESS = re.compile(r"://(?:[^@/]*@)?(\[[^\]]+\]|[^\[\]/?(),:]+):(\d+)")


def address_in(uri: str) -> tuple[str, int] | None:
    """The first host and port in a provider's URI, which may be nested (``failover:(tcp://HOST:PORT)``)."""
    found = _ADDRESS.search(uri)
    return (found[1].strip("[]"), int(found[2])) if found else None

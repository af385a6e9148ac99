"""What a link of AMQP 1.0 asks for, and who asked for it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from proton import Described, Link, Receiver, Session, Terminus, symbol

from brokerproof.conformance.experiment import operations as ops

_SELECTOR = "apache.org:selector-filter:string"
#: A filter's descriptor, as brokers may write it -> its name.
_FILTERS: dict[object, object] = {
    0x0000468C00000003: "apache.org:no-local-filter:list",
    0x0000468C00000004: _SELECTOR,
}


def receiver_of(session: Session, name: str, asker: Hashable) -> Receiver:
    """A link of that name. Consumers' names are the suite's, a durable one's the subscription's."""
    receiver = session.receiver(name)
    told: Any = receiver
    told.asker = asker
    return receiver


def asker_of(link: Link) -> Any:
    """Who asked for a link: a consumer's name, or what an unsubscribe is answered by."""
    return getattr(link, "asker", link.name)


def ask_kind(terminus: Terminus, dest: str) -> None:
    """Ask for a queue or a topic, as JMS over AMQP does; brokers make what does not exist by that."""
    terminus.capabilities.put_object(symbol("topic" if dest.startswith("topic://") else "queue"))


def ask_source(source: Terminus, operation: ops.Subscribe, address: str, no_local: str) -> None:
    """What a consumer wants of its source. ``no_local``: the name of that filter."""
    source.address = address
    ask_kind(source, operation.dest)
    wanted: dict[str, Any] = {_SELECTOR: operation.selector} if operation.selector else {}
    wanted |= {no_local: []} if operation.no_local else {}
    if wanted:
        source.filter.put_object({symbol(name): Described(symbol(name), value) for name, value in wanted.items()})
    if operation.durable:
        source.durability, source.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER
    if operation.browser:
        source.distribution_mode = Terminus.DIST_MODE_COPY


def filters_of(source: Terminus) -> set[object]:
    """What a link's source filters by."""
    data = source.filter
    data.rewind()
    found = data.get_object() if data.next() else None
    values = found.values() if isinstance(found, dict) else ()
    named: list[Any] = [one.descriptor for one in values if isinstance(one, Described)]
    return {_FILTERS.get(one, one) for one in named}


__all__ = ["ask_kind", "ask_source", "asker_of", "filters_of", "receiver_of"]

"""Where a message goes that is sent to a name: to one destination, or as copies to several.

* Several names joined by commas: a copy for each.
* A composite destination (configuration ``composite_destinations``) hands a copy to each name in ``forward_to``, and
  keeps one itself unless ``forward_only``. What it forwards to may be composite or virtual again; each destination gets
  one copy, so a circle ends.
* A virtual topic (configuration ``virtual_topics``) hands a copy to every queue ``PREFIX + its name + POSTFIX`` that
  exists when the message is sent, ``*`` in the prefix being one element: ``VirtualTopic.Orders`` to
  ``Consumer.A.VirtualTopic.Orders`` and ``Consumer.B.VirtualTopic.Orders``. Its subscribers get it as from any topic.
* All copies or none: if one cannot be taken, the send is refused. They have the id, the stamps and the delay of the
  message, and the name that the producer wrote as their original destination; each expires and dies on its own.
* Copies are made when the message is sent, also in a transaction.

Exceptions: ActiveMQ hands a dead letter and a wildcard send through its virtual destinations as well; here a producer
names no wildcard. ``selectorAware`` is off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.matching import is_queue, is_wild, matches, members, split
from brokerproof.reference_broker.core.message import QUEUE, TOPIC

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import BrokerConfig, CompositeDestination, VirtualTopic
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class FanOut:
    """Policy ``routing``."""

    def targets(self, routing: Routing, asked: str) -> list[str]:
        """The destinations that get a message that is sent to ``asked``, each once."""
        return routing.resolve(asked)

    def copy(self, message: Message, target: str) -> Message:
        """The copy for one destination."""
        copy = message.copy_to(target)
        if target != message.destination:
            copy.original_destination = message.destination
        return copy


class Routing:
    """What the configuration says about names, and which queues consume from virtual topics."""

    __slots__ = ("composites", "consumers", "virtual_topics")

    def __init__(self, config: BrokerConfig) -> None:
        self.composites: dict[str, CompositeDestination] = {one.name: one for one in config.composite_destinations}
        self.virtual_topics: list[VirtualTopic] = config.virtual_topics
        #: Name of a virtual topic -> names of the queues that consume from it, oldest first.
        self.consumers: dict[str, list[str]] = {}

    def spreads(self, name: str) -> bool:
        """Whether a message that is sent to this one destination may go elsewhere."""
        return name in self.composites or self._is_virtual(name)

    def resolve(self, asked: str) -> list[str]:
        """The destinations that a name stands for, each once."""
        found: list[str] = []
        seen: list[str] = []
        for name in members(asked):
            self._resolve(name, found, seen)
        return found

    def created(self, destination: Destination) -> None:
        """A destination exists from now on."""
        topic = self._topic_of(destination.name)
        if topic:
            self.consumers.setdefault(topic, []).append(destination.name)

    def removed(self, destination: Destination) -> None:
        """A destination exists no longer."""
        topic = self._topic_of(destination.name)
        if topic:
            self.consumers[topic].remove(destination.name)

    def _resolve(self, name: str, found: list[str], seen: list[str]) -> None:
        if name in seen:
            return
        seen.append(name)
        composite = self.composites.get(name)
        if composite is None or not composite.forward_only:
            found.append(name)
        if composite is not None:
            for target in composite.forward_to:
                self._resolve(target, found, seen)
        for queue in self.consumers.get(name, []):
            self._resolve(queue, found, seen)

    def _is_virtual(self, name: str) -> bool:
        return name.startswith(TOPIC) and any(matches(one.name, name) for one in self.virtual_topics)

    def _topic_of(self, name: str) -> str:
        """The virtual topic that a queue consumes from; "" if it is an ordinary queue."""
        if not name.startswith(QUEUE):
            return ""
        elements = split(name)[1].split(".")
        for one in self.virtual_topics:
            before = one.prefix.split(".")[:-1]
            after = one.postfix.split(".")[1:]
            inner = elements[len(before) : len(elements) - len(after)]
            if not inner or len(elements) != len(before) + len(inner) + len(after):
                continue
            outer = elements[: len(before)] + elements[len(elements) - len(after) :]
            topic = TOPIC + ".".join(inner)
            fits = all(want in ("*", have) for want, have in zip(before + after, outer, strict=True))
            if fits and matches(one.name, topic):
                return topic
        return ""


def fault_of_composite(name: str, forward_to: list[str]) -> str:
    """What is wrong with a composite destination in a configuration; "" if nothing."""
    for one in [name, *forward_to]:
        prefix, rest = split(one)
        if prefix not in (QUEUE, TOPIC) or not rest or is_wild(one) or "," in one:
            return f"{one!r} is not usable; write {QUEUE}NAME or {TOPIC}NAME"
    if not forward_to:
        return f"{name} forwards to nothing; name destinations in forward_to"
    return ""


def fault_of_composites(config: BrokerConfig) -> str:
    """What is wrong with all composite destinations together; "" if nothing."""
    names = [one.name for one in config.composite_destinations]
    for name in names:
        if names.count(name) > 1:
            return f"composite destination {name} is described twice; write all that it forwards to into one forward_to"
    routing = Routing(config)
    for one in config.composite_destinations:
        if not routing.resolve(one.name):
            return (
                f"composite destination {one.name} forwards in a circle ({', '.join(one.forward_to)}) and keeps "
                "nothing; name another destination, or say forward_only = false"
            )
    return ""


def fault_of_virtual_topic(name: str, prefix: str, postfix: str) -> str:
    """What is wrong with a virtual topic in a configuration; "" if nothing."""
    if split(name)[0] not in ("", TOPIC) or is_queue(name) or not split(name)[1] or "," in name:
        return f"virtual topic {name!r} is not usable; write the name of a topic or a pattern such as 'VirtualTopic.>'"
    if ">" in split(name)[1].split(".")[:-1]:
        return f"virtual topic {name!r} has '>' before its end; use '*' for one element"
    if not prefix.endswith(".") or ">" in prefix or "," in prefix:
        return f"prefix {prefix!r} is not usable; end it with '.', and use '*' for an element, such as 'Consumer.*.'"
    if postfix and (not postfix.startswith(".") or ">" in postfix or "," in postfix):
        return f"postfix {postfix!r} is not usable; begin it with '.', such as '.backlog'"
    return ""

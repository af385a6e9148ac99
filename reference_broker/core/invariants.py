"""What must hold between any two events, whatever happened before. Tests call it; the hot path does not.

Each line states the same fact from two independent places (pair assertions): counters against lists, the memory tree
against the messages, rings against windows. Under a planted defect it may fail: that is its use, but the suite's
verdicts never depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.matching import covers
from brokerproof.reference_broker.core.message import TEMP_QUEUE
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.reference import ACK_PENDING, ASIDE, ASSIGNED, DROPPED, WAITING
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.flow import FlowControl
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.recovery import Recovered
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.selective_dispatch import SelectiveDispatch
    from brokerproof.reference_broker.core.subscription import Consumer
    from brokerproof.reference_broker.core.transaction import Transactions


class Inconsistent(Exception):
    """Two places of the broker disagree."""


def same(what: str, one: object, other: object) -> None:
    """Raise ``Inconsistent`` unless both are equal."""
    if one != other:
        raise Inconsistent(f"{what}: {one!r} is not {other!r}")


def check(region: Region, consumers: dict[str, Consumer], transactions: Transactions) -> None:
    """Check the whole broker; raise ``Inconsistent`` at the first contradiction."""
    check_connections(region)
    uncommitted = uncommitted_bytes(transactions)
    total_bytes = 0
    places = 0
    for consumer in consumers.values():
        check_list(consumer)
        check_places(region, consumer)
        if not consumer.prefetch:
            same(f"{consumer.name}: pulls", consumer.extension > 0, consumer.name in region.pulls.waiting)
    for name, destination in region.destinations.items():
        same(f"{name}: name", destination.name, name)
        check_in_flight(destination)
        for subscription in destination.subscriptions.values():
            consumer = subscription.consumer
            same(f"{name}: consumer {consumer.name}", consumers.get(consumer.name), consumer)
            same(f"{name}: place of {consumer.name}", subscription in consumer.subscriptions, True)
        held = references(destination)
        charged = [reference for reference in held if reference.charged]
        loaded_bytes = sum(reference.size_bytes for reference in charged)
        same(f"{name}: memory", destination.usage.used_bytes, loaded_bytes + uncommitted.get(destination, 0))
        total_bytes += destination.usage.used_bytes
        places += len(destination.subscriptions) + destination.onlookers()
        if isinstance(destination, Queue):
            check_queue(destination)
        elif isinstance(destination, Topic):
            check_topic(destination)
        if not (region.policies.memory.pages or region.memory.lowered):
            check_limit(f"{name}: memory", destination.usage.used_bytes, destination.usage.limit_bytes)
    same("broker: memory", region.memory.root.used_bytes, total_bytes)
    check_disk(region)
    for key, durable in region.durables.known.items():
        same(f"durable {key}: key", durable.key, key)
        if durable.consumer is not None:
            consumer = durable.consumer
            same(f"durable {key}: consumer", consumers.get(consumer.name), consumer)
            same(f"durable {key}: places", consumer.subscriptions, durable.subscriptions)
    same("broker: places of consumers", sum(len(c.subscriptions) for c in consumers.values()), places)
    if not (region.policies.memory.pages or region.memory.lowered):
        check_limit("broker: memory", total_bytes, region.memory.root.limit_bytes)
    same("broker: unfinished work", (len(region.awake), len(region.internal_sends), len(region.effects)), (0, 0, 0))


def check_limit(what: str, used_bytes: int, limit_bytes: int) -> None:
    """Usage is never negative and, in generation ``fair``, never above the limit."""
    same(
        f"{what} {used_bytes} within 0 and {limit_bytes}",
        used_bytes >= 0 and (limit_bytes <= 0 or used_bytes <= limit_bytes),
        True,
    )


def check_disk(region: Region) -> None:
    """Temporary files hold what is neither in memory nor in the store; the store, what it has a size for."""
    temp, store = region.memory.temp, region.store
    if temp is not None:
        spooled = [r for one in region.destinations.values() for r in references(one) if r.spooled]
        same("temporary files", temp.used_bytes, sum(reference.size_bytes for reference in spooled))
        same("temporary files: what is in memory too", [r for r in spooled if r.charged or r.state != WAITING], [])
        for queue in region.memory.queues:
            behind = [*queue.line.stored.values(), *(queue.cursor.temp if queue.cursor is not None else ())]
            absent = [r for r in behind if r.spooled == r.message.persistent]
            same(f"{queue.name}: in the wrong place on the disk", absent, [])
    if store is not None:
        same("store: places", list(store.sizes), list(store.messages))
        same("store: bytes", store.usage.used_bytes, sum(store.sizes.values()))


def check_in_flight(destination: Destination) -> None:
    """in_flight = T - R, and with what is not written yet it is what consumers hold; it may be part of the count."""
    counters, name = destination.counters, destination.name
    unwritten = counters.assigned - counters.dispatched
    early = unwritten if destination.region.policies.in_flight.early else 0
    balance = counters.kept_in_flight + counters.dispatched + early - counters.removed
    same(f"{name}: in_flight = kept + dispatched - removed", counters.in_flight, balance)
    same(f"{name}: wasted is part of removed", 0 <= counters.wasted <= counters.removed, True)
    same(f"{name}: no more is written than assigned", counters.dispatched <= counters.assigned, True)
    held = sum(len(subscription.deliveries()) for subscription in destination.subscriptions.values())
    if isinstance(destination, Queue):
        held += sum(len(view.subscription.deliveries()) for view in destination.browsers.values())
    same(f"{name}: in_flight + unwritten", counters.in_flight + unwritten - early, held)


def check_list(consumer: Consumer) -> None:
    """The list, its index and its numbers agree; the reserve is on the list."""
    deliveries = list(consumer.dispatched)
    same(
        f"{consumer.name}: list and index",
        deliveries,
        [d for d in deliveries if consumer.dispatched.index.get(d.key) is d],
    )
    same(f"{consumer.name}: length", len(deliveries), len(consumer.dispatched))
    numbers = [delivery.number for delivery in deliveries]
    same(f"{consumer.name}: dispatch order", numbers, sorted(numbers))
    same(f"{consumer.name}: extension", consumer.extension >= 0, True)
    reserved = [delivery.reference for delivery in deliveries if delivery.reference.reserved]
    same(f"{consumer.name}: reserve", reserved, [] if consumer.reserve is None else [consumer.reserve])
    for delivery in deliveries:
        reference = delivery.reference
        same(f"{consumer.name}: state of {reference.message!r}", reference.state in (ASSIGNED, DROPPED), True)
        if reference.state == ASSIGNED and not consumer.browser:
            same(
                f"{consumer.name}: {reference.message!r} is charged or reserved",
                reference.charged != reference.reserved,
                True,
            )


def check_connections(region: Region) -> None:
    """Connections are found by their client ids and by what they call themselves."""
    connection_registry = region.connection_registry
    named = {number: name for name, namesakes in connection_registry.named.items() for number in namesakes}
    same("client ids", named, {number: one.client_id for number, one in connection_registry.connections.items()})
    same("client ids in use", [name for name, namesakes in connection_registry.named.items() if not namesakes], [])
    producing: dict[str, list[str]] = {}
    for connection in connection_registry.connections.values():
        for producer, names in connection.producers.items():
            for name in names:
                producing.setdefault(name, []).append(producer)
    found = {name: sorted(here) for name, here in connection_registry.producers.items()}
    same("producers", found, {name: sorted(here) for name, here in producing.items()})
    for identity, number in connection_registry.identities.items():
        same(f"connection {number}: identity", connection_registry.connections[number].identity, identity)


def check_places(region: Region, consumer: Consumer) -> None:
    """A consumer has one place at each destination, and a wildcard none too few or too many."""
    held = [subscription.destination.name for subscription in consumer.subscriptions]
    same(f"{consumer.name}: one place each", len(held), len(dict.fromkeys(held)))
    same(f"{consumer.name}: scattered", consumer.scattered, len(held) > 1)
    if consumer.patterns:
        covered = [name for name in region.destinations if covers(consumer.patterns, name)]
        same(f"{consumer.name}: places that it lacks", [name for name in covered if name not in held], [])


def check_topic(topic: Topic) -> None:
    """Who holds what was published; the places of durable subscriptions; what can expire without a consumer."""
    name = topic.name
    everyone = [s for s in topic.subscriptions.values() if s.durable is None] + list(topic.durables.values())
    held: dict[str, int] = {}
    for subscription in everyone:
        waiting = [reference.order for reference in subscription.pending]
        same(f"{name}: backlog in order", waiting, sorted(waiting))
        same(f"{name}: states in backlog", [r for r in subscription.pending if r.state != WAITING], [])
        if not topic.region.policies.memory.pages or subscription.durable is None:
            same(f"{name}: backlog in memory", [r for r in subscription.pending if r.charged], [])
        ack_pending = list(subscription.ack_pending.values())
        same(f"{name}: states ack_pending", [r for r in ack_pending if r.state != ACK_PENDING or r.charged], [])
        for reference in [*subscription.pending, *ack_pending, *(d.reference for d in subscription.deliveries())]:
            message_id = reference.message.message_id
            held[message_id] = held.get(message_id, 0) + 1
    if topic.archive is not None:
        kept = topic.archive.kept
        same(f"{name}: bytes remembered", topic.archive.total_bytes, sum(len(message.body) for _, message in kept))
        same(f"{name}: remembered in order", [at for at, _ in kept], sorted(at for at, _ in kept))
    owed = {message_id: publication.holders for message_id, publication in topic.live.items() if publication.holders}
    same(f"{name}: holders of publications", owed, held)
    for key, subscription in topic.durables.items():
        durable = subscription.durable
        if durable is None:
            raise Inconsistent(f"{name}: place of {key} belongs to no durable subscription")
        same(f"{name}: key of {key}", durable.key, key)
        same(f"{name}: places of {key}", [s for s in durable.subscriptions if s.destination is topic], [subscription])
        consumer = durable.consumer
        same(f"{name}: consumer of {key}", subscription.consumer, durable.absent if consumer is None else consumer)
        same(f"{name}: {key} is attached", subscription in topic.subscriptions.values(), consumer is not None)
        if consumer is None or topic.sweeps_active:
            check_bound(topic, [reference.message for reference in subscription.pending])


def check_bound(destination: Queue | Topic, messages: list[Message]) -> None:
    """The sweep knows a lower bound of the expirations of what it has to look at."""
    earliest_ms = min([message.expiration_ms for message in messages if message.expiration_ms > 0], default=0)
    known = destination.earliest_ms
    same(f"{destination.name}: {known} bounds {earliest_ms}", not earliest_ms or 0 < known <= earliest_ms, True)


def check_queue(queue: Queue) -> None:
    """Conservation, the two parts of the pending list, what can expire, the ring."""
    counters, name = queue.counters, queue.name
    in_flight = [
        d.reference for s in queue.subscriptions.values() for d in s.deliveries() if d.reference.state == ASSIGNED
    ]
    line = list(queue.line)
    aside = list(queue.aside.values())
    stock = counters.kept_size + counters.enqueued - counters.dequeued
    same(f"{name}: kept + enqueued - dequeued", stock, counters.size)
    behind = list(queue.cursor or ())
    check_cursor(queue)
    same(f"{name}: size", counters.size, len(line) + len(aside) + len(in_flight) + len(behind) + len(queue.ack_pending))
    same(f"{name}: scheduled", counters.scheduled, len(queue.scheduled))
    same(f"{name}: states in line", [r for r in line if r.state != WAITING], [])
    same(f"{name}: hidden in memory", [r for r in queue.hidden if r.charged or r.spooled], [])
    same(f"{name}: states aside", [r for r in aside if r.state != ASIDE or r.charged], [])
    same(
        f"{name}: states ack_pending",
        [r for r in queue.ack_pending.values() if r.state != ACK_PENDING or r.charged],
        [],
    )
    same(f"{name}: stored messages in memory", [r for r in queue.line.stored.values() if r.charged], [])
    waiting = [reference.message for reference in line + aside + behind]
    check_bound(queue, waiting + [item.message for item in queue.scheduled.values()])
    ready = [s for s in queue.subscriptions.values() if s.ready]
    same(f"{name}: ring", sorted(s.serial for s in queue.ready), sorted(s.serial for s in ready))
    is_open = queue.region.policies.prefetch.is_open
    same(
        f"{name}: open windows",
        [
            s.consumer.name
            for s in queue.subscriptions.values()
            if is_open(s) and (queue.choices is None or queue.choices.may_receive(s))
        ],
        [s.consumer.name for s in ready],
    )
    check_browsers(queue)
    if queue.choices is not None:
        check_choices(queue, queue.choices)
    elif line and ready and not queue.held:
        same(
            f"{name}: {ready[0].consumer.name} may get {line[0].message!r} but",
            name in queue.region.memory.blocked,
            True,
        )
        if queue.region.policies.memory.wakes_on_relief:
            same(f"{name}: starving consumers", [s.consumer.name for s in ready if s.consumer.reserve is None], [])


def check_flow(flow: FlowControl) -> None:
    """Who waits finds no space, and the connections that are stopped are those that somebody stops."""
    stopped: dict[int, int] = {}
    for name, lines in flow.waiting.items():
        same(f"{name}: sends that wait", flow.count(name) > 0, True)
        for kind, line in lines.items():
            numbers = [waiting.number for waiting in line]
            same(f"{name}: waiting sends in order", numbers, sorted(numbers))
            same(f"{name}: sends that wait for the same", {waiting.kind for waiting in line}, {kind})
            for waiting in line:
                same(f"{name}: a waiting send has not ended", waiting.ended, False)
                full = flow.obstacle(waiting.event)
                same(f"{name}: full while {waiting.event.message!r} waits", full is None, False)
                connection = waiting.event.connection
                if waiting.stops:
                    stopped[connection] = stopped.get(connection, 0) + 1
    same("flow: stopped connections", flow.stopped, stopped)


def check_browsers(queue: Queue) -> None:
    """Who looks on is in its place, holds copies only, and has been told of the end if there is one."""
    for name, view in queue.browsers.items():
        subscription = view.subscription
        same(f"{queue.name}: place of browser {name}", subscription.destination, view)
        same(f"{queue.name}: name of browser {name}", subscription.consumer.name, name)
        held = [delivery.reference for delivery in subscription.deliveries()]
        same(f"{queue.name}: copies of {name}", [r.order for r in held], sorted(view.originals))
        same(f"{queue.name}: charged copies of {name}", [r for r in held if r.charged or r.reserved], [])
        if not view.ended and not view.held:
            same(f"{queue.name}: {name} waits", queue.region.policies.prefetch.is_open(subscription), False)


def check_choices(queue: Queue, choices: SelectiveDispatch) -> None:
    """Streams and shares know of every message that somebody may have; nobody who could have one waits."""
    name = queue.name
    grouping = queue.region.policies.grouping
    priorities = [s.consumer.priority for s in queue.ready]
    same(f"{name}: ring by priority", priorities, sorted(priorities, reverse=True))
    same(f"{name}: shares", list(choices.shares), [s.serial for s in queue.subscriptions.values()])
    for share in choices.shares.values():
        same(f"{name}: a stream is known", share.stream in choices.streams.values(), True)
    for group_id, group in choices.groups.by_id.items():
        same(f"{name}: owner of {group_id}", group.owner.serial in choices.shares, True)
    blocked = name in queue.region.memory.blocked
    for reference in queue.line:
        message, key = reference.message, choices.key(reference)
        owner = grouping.owner(choices.groups, message) if message.group_id else None
        for subscription in queue.subscriptions.values():
            if not queue.wants(subscription, message) or owner not in (None, subscription):
                continue
            share = choices.shares[subscription.serial]
            same(f"{name}: {message!r} is offered", key in share.stream.keys or key in share.keys, True)
            if subscription.ready and not queue.held:
                same(f"{name}: {subscription.consumer.name} may get {message!r} but", blocked, True)


def uncommitted_bytes(transactions: Transactions) -> dict[Destination, int]:
    """What is charged for sends that wait for their commit."""
    found: dict[Destination, int] = {}
    for mine in transactions.open.values():
        for transaction in mine.values():
            for destination, size_bytes in [one.charge for one in transaction.sends if one.charge is not None]:
                found[destination] = found.get(destination, 0) + size_bytes
    return found


def check_transactions(region: Region, consumers: dict[str, Consumer], transactions: Transactions) -> None:
    """What open transactions hold is what consumers and queues keep for them."""
    listed = 0
    kept = 0
    for mine in transactions.open.values():
        for name, transaction in mine.items():
            same(f"transaction {name}: ids of sends", len(transaction.keys), len(transaction.sends))
            for pending_ack in transaction.pending_acks:
                for delivery in pending_ack.deliveries:
                    same(
                        f"transaction {name}: pending_ack of {delivery.reference.message!r}",
                        delivery.pending_ack,
                        pending_ack,
                    )
                    listed += delivery.is_held()
                    kept += delivery.reference.state == ACK_PENDING
    same(
        "transactions: deliveries of consumers",
        sum(d.pending_ack is not None for c in consumers.values() for d in c.dispatched),
        listed,
    )
    queues = [destination for destination in region.destinations.values() if isinstance(destination, Queue)]
    topics = [destination for destination in region.destinations.values() if isinstance(destination, Topic)]
    places = [subscription for topic in topics for subscription in topic.durables.values()]
    held = sum(len(queue.ack_pending) for queue in queues) + sum(len(place.ack_pending) for place in places)
    same("transactions: messages of queues and durable subscriptions", held, kept)


def check_cursor(queue: Queue) -> None:
    """The parts of the cursor: what is in memory is charged, and nothing has overtaken."""
    cursor, name = queue.cursor, queue.name
    if cursor is None:
        return
    same(f"{name}: states behind the cursor", [r for r in cursor if r.state != WAITING], [])
    same(f"{name}: uncharged in memory", [r for r in [*cursor.batch, *cursor.spool] if not r.charged], [])
    same(f"{name}: charged in the store", [r for r in [*cursor.store, *cursor.temp] if r.charged], [])
    halves = [r.message.persistent for r in [*cursor.batch, *cursor.store]]
    same(f"{name}: persistent half", halves, [True] * len(halves))
    same(f"{name}: caching with an empty store", cursor.caching and len(cursor.store) > 0, False)
    same(f"{name}: spool or temporary files", bool(cursor.spool) and bool(cursor.temp), False)


def check_journal(region: Region, recovered: Recovered) -> None:
    """The journal has exactly the persistent messages that queues or durable subscriptions hold, each at its place (0:
    not visible yet), and the durable subscriptions.
    """
    written = {place: added.order for place, added in recovered.messages.items()}
    if region.store is not None:
        same("journal: what the store counts", sorted(region.store.messages), sorted(recovered.messages))
    held: dict[tuple[str, str], int] = {}
    owed = {place: sorted(added.holders) for place, added in recovered.messages.items() if added.holders}
    same("journal: who waits for what", sorted(owed.items()), sorted(backlogs(region).items()))
    same("journal: durable subscriptions", sorted(recovered.subscriptions), sorted(region.durables.known))
    for place in owed:
        del written[place]
    for name, destination in region.destinations.items():
        if not isinstance(destination, Queue) or name.startswith(TEMP_QUEUE):
            continue
        for reference in [*references(destination), *destination.hidden]:
            if reference.message.persistent and reference.state != DROPPED:
                held[name, reference.message.message_id] = reference.order
        for reference in destination.ack_pending.values():
            if reference.message.persistent:
                held[name, reference.message.message_id] = reference.order
        for item in destination.scheduled.values():
            if item.message.persistent:
                held[name, item.message.message_id] = 0
    same("journal: messages", sorted(written.items()), sorted(held.items()))
    late = [place for place, added in recovered.messages.items() if (added.due_wall_ms == 0) != (added.order > 0)]
    same("journal: messages with a place are visible", late, [])


def backlogs(region: Region) -> dict[tuple[str, str], list[str]]:
    """(topic, id) of every persistent message that durable subscriptions wait for -> their keys, sorted."""
    found: dict[tuple[str, str], list[str]] = {}
    topics = [destination for destination in region.destinations.values() if isinstance(destination, Topic)]
    for topic in topics:
        for key, subscription in topic.durables.items():
            held = [*subscription.pending, *subscription.ack_pending.values()]
            held += [delivery.reference for delivery in subscription.deliveries()]
            for reference in held:
                if reference.message.persistent:
                    found.setdefault((topic.name, reference.message.message_id), []).append(key)
    for _, _, item in region.delays.heap:
        if isinstance(item.destination, Topic) and not item.cancelled and item.message.persistent:
            alive = item.destination.durables
            keys = [s.durable.key for s in item.audience or [] if s.durable and alive.get(s.durable.key) is s]
            if keys:
                found[item.destination.name, item.message.message_id] = keys
    return {place: sorted(keys) for place, keys in found.items()}


def references(destination: Destination) -> list[Reference]:
    """Everything that a destination could be charged for."""
    held = [d.reference for s in destination.subscriptions.values() for d in s.deliveries()]
    if isinstance(destination, Queue):
        held += list(destination.line) + list(destination.aside.values()) + list(destination.cursor or ())
    elif isinstance(destination, Topic):
        places = [s for s in destination.subscriptions.values() if s.durable is None]
        held += [reference for s in [*places, *destination.durables.values()] for reference in s.pending]
    return held

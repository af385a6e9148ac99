"""Mutants that refuse what nothing forbids, and that leave who asks without an answer."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.browser import Browsing
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.durable import key_of
from brokerproof.reference_broker.core.effects import Accepted, Counted, Effect, NoMessage, Refused
from brokerproof.reference_broker.core.events import (
    POISON,
    Ack,
    Begin,
    Commit,
    Event,
    Move,
    Pull,
    Purge,
    RemoveSubscription,
    Rollback,
    Send,
    Subscribe,
    Tick,
)
from brokerproof.reference_broker.core.flow import FlowControl
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.selector import BadSelector, parse
from brokerproof.reference_broker.node import Node


class Refusing(Broker):
    """Refuses some of what it is asked, and does not do it."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if not self.refuses(event):
            return super().handle(event, now)
        connection, request = getattr(event, "connection", 0), getattr(event, "request", 0)
        return [Refused(connection, request, "unwanted", "this broker does not want it", "")]

    def refuses(self, event: Event) -> bool:
        """Whether it refuses that."""
        raise NotImplementedError


class WithoutWords(Broker):
    """Refuses as it should, and does not say why."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        for effect in effects:
            if isinstance(effect, Refused):
                effect.text = ""
        return effects


class RefusesGroups(Refusing):
    """Messages of groups are refused."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, Send) and event.message.group_id != ""


class RefusesAfterRollback(Refusing):
    """Who has rolled back may not send any more."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        self._seen: dict[int, bool] = {}

    def refuses(self, event: Event) -> bool:
        if isinstance(event, Rollback):
            self._seen[event.connection] = True
        return isinstance(event, Send) and event.connection in self._seen


class RefusesVolatileAfterRestart(Refusing):
    """A broker that found something in its store takes only what it can store."""

    _restarted = False

    def restore(self, records: object, now: Now) -> list[Effect]:
        found = list(records)  # type: ignore[call-overload]  # records
        self._restarted = len(found) > 0
        return super().restore(found, now)

    def refuses(self, event: Event) -> bool:
        return self._restarted and isinstance(event, Send) and not event.message.persistent


class RefusesSelectors(Refusing):
    """Consumers with a selector are refused."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, Subscribe) and event.selector != ""


class RefusesDurables(Refusing):
    """Durable subscribers are refused."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, Subscribe) and event.durable != ""


class RefusesBrowsers(Refusing):
    """Browsers are refused."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, Subscribe) and event.browser


class RefusesSecondAck(Refusing):
    """Of a message whose acknowledgement was rolled back none is accepted."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        self._seen: dict[str, bool] = {}

    def refuses(self, event: Event) -> bool:
        if not isinstance(event, Ack) or event.kind == POISON:
            return False
        before = event.last in self._seen
        if event.transaction:
            self._seen[event.last] = True
        return before


class RefusesRejections(Refusing):
    """No rejection is accepted."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, Ack) and event.kind == POISON


class RefusesSecondTransaction(Refusing):
    """A connection may have one transaction, and then none any more."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        self._seen: dict[int, bool] = {}

    def refuses(self, event: Event) -> bool:
        if type(event) is not Begin:
            return False
        before = event.connection in self._seen
        self._seen[event.connection] = True
        return before


class RefusesCommits(Refusing):
    """No transaction is committed."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, Commit)


class RefusesEnds(Refusing):
    """No durable subscription is ended."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, RemoveSubscription)


class CountsForEver(Node):
    """At most four connections, and those that have ended count."""

    _connections_ever = 0

    def connect(self, connection: int, protocol: str, now: Now, address: str = "") -> None:
        super().connect(connection, protocol, now, address)
        self._connections_ever += 1
        if self._connections_ever > 4:
            self.protocol_error(connection, "there are too many connections", now)


class RefusesPurges(Refusing):
    """No queue is purged."""

    def refuses(self, event: Event) -> bool:
        return isinstance(event, Purge)


class MovesNothing(Broker):
    """Who wants a queue's messages moved is told that they were."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        return [Counted(event.request, 1, None)] if isinstance(event, Move) else super().handle(event, now)


class TakesNonsense(Broker):
    """A selector that is none is taken for one that nothing fulfils."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Subscribe):
            try:
                parse(event.selector)
            except BadSelector:
                event.selector = "FALSE"
        return super().handle(event, now)


class EndsWhatIsUsed(Broker):
    """A durable subscription ends although a consumer uses it."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, RemoveSubscription) and event.connection in self._connections:
            key = key_of(self._connections[event.connection].client_id, event.name)
            durable = self._region.durables.known.get(key)
            if durable is not None:
                durable.consumer = None
        return super().handle(event, now)


class Silent(Broker):
    """Does some of what it is asked and does not say so."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        return [effect for effect in effects if not self.keeps(event, effect)]

    def keeps(self, event: Event, effect: Effect) -> bool:
        """Whether it keeps that to itself."""
        raise NotImplementedError


class SilentCommits(Silent):
    """Commits are carried out and not confirmed."""

    def keeps(self, event: Event, effect: Effect) -> bool:
        return isinstance(event, Commit) and isinstance(effect, Accepted)


class SilentDurables(Silent):
    """Durable subscribers are attached and not told."""

    def keeps(self, event: Event, effect: Effect) -> bool:
        return isinstance(event, Subscribe) and event.durable != "" and isinstance(effect, Accepted)


class SilentRefusals(Silent):
    """Who is refused is not told."""

    def keeps(self, event: Event, effect: Effect) -> bool:  # noqa: ARG002 - whatever it was about
        return isinstance(effect, Refused)


class SilentPulls(Silent):
    """A pull that finds nothing is not answered."""

    def keeps(self, event: Event, effect: Effect) -> bool:
        return isinstance(event, Pull | Tick) and isinstance(effect, NoMessage)


class ForgetsBlocked(Broker):
    """A send that has to wait for room waits for ever."""

    def _finish(self, flow: FlowControl) -> list[Effect]:  # noqa: ARG002 - it does not look
        return self._region.finish()


class EndlessBrowsing(Browsing):
    """Browsers are not told that they have seen everything."""

    def reports_end(self) -> bool:
        return False


ALL = (
    Mutant("refuses-groups", "GEN-100", "Messages of groups are refused.", broker=RefusesGroups),
    Mutant("refuses-after-rollback", "GEN-100", "Who has rolled back may not send any more.",
           broker=RefusesAfterRollback),
    Mutant("refuses-volatile-after-restart", "GEN-100", "After a restart only persistent messages are taken.",
           broker=RefusesVolatileAfterRestart),
    Mutant("refuses-selectors", "GEN-101", "Consumers with a selector are refused.", broker=RefusesSelectors),
    Mutant("refuses-durables", "GEN-101", "Durable subscribers are refused.", broker=RefusesDurables),
    Mutant("refuses-browsers", "GEN-101", "Browsers are refused.", broker=RefusesBrowsers),
    Mutant("refuses-second-acknowledgement", "GEN-102", "After a rollback nothing of it can be acknowledged.",
           broker=RefusesSecondAck),
    Mutant("refuses-rejections", "GEN-103", "Rejections are refused.", broker=RefusesRejections),
    Mutant("refuses-second-transaction", "GEN-104", "A connection has one transaction and no more.",
           broker=RefusesSecondTransaction),
    Mutant("refuses-commits", "GEN-104", "Nothing is committed.", broker=RefusesCommits),
    Mutant("refuses-to-end-durables", "GEN-105", "No durable subscription is ended.", broker=RefusesEnds),
    Mutant("refuses-fifth-connection", "GEN-106", "Connections that have ended count.", node=CountsForEver),
    Mutant("refuses-purges", "GEN-107", "No queue is purged.", broker=RefusesPurges),
    Mutant("moves-nothing", "GEN-107", "What an operator moves stays where it is.", broker=MovesNothing),
    Mutant("nonsense-selects-nothing", "GEN-108", "A selector that is none is fulfilled by nothing.",
           broker=TakesNonsense),
    Mutant("durable-ended-in-use", "GEN-109", "A durable subscription ends although a consumer uses it.",
           broker=EndsWhatIsUsed),
    Mutant("answers-no-commits", "GEN-110", "Commits are not confirmed.", broker=SilentCommits),
    Mutant("answers-no-durables", "GEN-110", "Durable subscribers wait for their receipt.", broker=SilentDurables),
    Mutant("answers-no-refusals", "GEN-110", "Who is refused is not told.", broker=SilentRefusals),
    Mutant("pulls-unanswered", "GEN-111", "A pull that finds nothing is not answered.", broker=SilentPulls),
    Mutant("blocked-sends-forgotten", "GEN-113", "A send that waits for room waits for ever.", broker=ForgetsBlocked),
    Mutant("browses-without-end", "GEN-112", "A browse never ends.", "browsing", fresh(EndlessBrowsing)),
)  # fmt: skip

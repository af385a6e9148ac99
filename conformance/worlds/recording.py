"""What a history tells of an operation and its outcome: one function per kind, most fields go over by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from brokerproof.conformance.experiment import history as events
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.policies import UNASKED, policy_window, window_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.configuration import DeclaredSpec
    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.experiment.state import ClientState, WorldState
    from brokerproof.conformance.worlds.port import Outcome, Recorder

#: What raw peers are called.
RAW_PEER: Final = "raw-peer"
#: Operations of which a history tells their own fields, the result and the refusal.
_PLAIN: Final[dict[type[ops.Operation], type[Event]]] = {
    ops.Unsubscribe: events.Unsubscribe,
    ops.Begin: events.Begin,
    ops.Commit: events.Commit,
    ops.Abort: events.Abort,
    ops.Leave: events.Leave,
}
#: What a history calls a fault.
_FAULTS: Final[dict[type[ops.Operation], str]] = {
    **dict.fromkeys((ops.ClockJump, ops.Freeze, ops.Thaw), "clock"),
    ops.Restart: "restart",
    ops.Stall: "stall",
    ops.Resume: "resume",
    ops.Reset: "reset",
    ops.Exhaust: "exhaust",
    ops.Relieve: "relieve",
}


class Recording:
    """One operation that is over."""

    def __init__(self, recorder: Recorder, broker: DeclaredSpec, state: WorldState, outcome: Outcome) -> None:
        self.recorder = recorder
        self.broker = broker
        self.state = state
        self.outcome = outcome

    def put(self, kind: type[Event], host: str, **fields: object) -> Event:
        """Record an event over the time of the operation."""
        return self.recorder.put(kind, self.outcome.t0, self.outcome.t1, host, **fields)

    def put_result(self, kind: type[Event], operation: ops.ClientOperation, **fields: object) -> Event:
        """The same with what the operation and the outcome tell by the names of the event's fields."""
        outcome = self.outcome
        known = ops.shared(operation, kind, "host")
        known["result"] = outcome.result
        if outcome.refusal is not None:
            known["refusal"] = outcome.refusal
        known.update(fields)
        return self.recorder.put(kind, outcome.t0, outcome.t1, operation.host, **known)

    def plain(self, operation: Any) -> Event:
        return self.put_result(_PLAIN[type(operation)], operation)

    def send(self, operation: ops.Send) -> Event:
        told = {name: value for name, value in self.outcome.stamps.items() if name in events.Send.__struct_fields__}
        return self.put_result(
            events.Send,
            operation,
            message_kind=operation.kind,
            headers=operation.headers | {"reply-to": "temporary"} if operation.reply else operation.headers,
            tx=operation.tx or None,
            facade=operation.calls.partition(" ")[0],
            called=self.outcome.called,
            again=operation.again and self.outcome.refusal != "not connected",
            **{"ttl_ms": None if operation.endless else operation.ttl_ms, **told},
        )

    def subscribe(self, operation: ops.Subscribe) -> Event:
        dest = self.state.destinations.kind(operation.dest)
        kind = {"topic": dest in {"topic", "virtual"}, "temporary": dest == "temporary",
                "durable": bool(operation.durable), "browser": operation.browser}  # fmt: skip
        asked = UNASKED if operation.prefetch is None else operation.prefetch
        said = policy_window(self.broker, operation.dest, **kind)
        return self.put_result(
            events.Subscribe,
            operation,
            prefetch=window_of(self.broker, operation.dest, asked, **kind),
            asked=asked if asked == UNASKED or said is not None else None,
        )

    def take(self, operation: ops.Take) -> Event | None:
        outcome, host = self.outcome, operation.host
        if outcome.message is None and outcome.answered is None:
            return None
        consumer = self.state.client(host).consumer(operation.consumer)
        event = None
        if outcome.message is not None:
            assert consumer is not None, "who is given a message is there"
            if consumer.ack != "auto":
                consumer.took(outcome.message)
            elif consumer.client.traits.settles_by_itself:
                # Whether and when the broker hears of it is not known here.
                self.recorder.put(
                    events.Ack,
                    outcome.t1,
                    outcome.t1,
                    host,
                    result="unknown",
                    consumer=consumer.name,
                    messages=[outcome.message],
                    mode="auto",
                )
            event = self.put(events.Consume, host, consumer=operation.consumer, message=outcome.message)
        if outcome.answered is not None:
            self.recorder.put(
                events.Poll,
                outcome.since_ns,
                outcome.t1,
                host,
                consumer=operation.consumer,
                message=outcome.message,
                answered=outcome.answered,
                timeout_ms=operation.deadline_ms,
            )
        return event

    def settle(self, operation: ops.Ack | ops.Nack) -> Event:
        kind = events.Ack if isinstance(operation, ops.Ack) else events.Nack
        return self.put_result(kind, operation, tx=operation.tx or None)

    def acknowledge(self, operation: ops.Acknowledge) -> Event:
        """A range whose end does not exist has no end: a broker that does not refuse it in time may settle whatever the
        consumer has from the first message on; one that says that all is well need not have settled anything.
        """
        event = self.put_result(events.Acknowledge, operation)
        settled, kind = operation.settled(), operation.type
        if operation.wrong_end and kind in {"poison", "standard"}:
            consumer = self.state.client(operation.host).consumer(operation.consumer)
            held = consumer.unsettled if consumer is not None else []
            settled = held[held.index(operation.messages[0]) :] if operation.messages[0] in held else []
        said = "unknown" if operation.wrong_end and self.outcome.result == "ok" else self.outcome.result
        if not settled:
            return event
        if kind == "expired":
            reason = "an acknowledgement of type expired"
            for message in settled:
                self.put(events.Discard, operation.host, consumer=operation.consumer, message=message, reason=reason)
        elif kind == "poison":
            self.put_result(events.Nack, operation, messages=settled, result=said)
        else:
            mode = "cumulative" if kind == "standard" else "individual"
            self.put_result(events.Ack, operation, messages=settled, mode=mode, result=said)
        return event

    # -- the environment

    def fault(self, operation: Any) -> Event:
        fields: dict[str, object] = ops.shared(operation, events.Fault, "host")
        kind = _FAULTS[type(operation)]
        if isinstance(operation, ops.ClockJump | ops.Freeze | ops.Thaw):
            fields["target"] = operation.host
        if isinstance(operation, ops.Freeze | ops.Thaw):
            seen, thaws = self.outcome.evidence or {}, isinstance(operation, ops.Thaw)
            jump_ms = seen.get("after_ms", 0) - seen.get("before_ms", 0) if thaws else 0
            fields |= {"how": "thaw" if thaws else "freeze", "jump_ms": jump_ms}
        if isinstance(operation, ops.Restart):
            fields["target"] = operation.host or self.state.broker.name
        elif isinstance(operation, ops.Exhaust | ops.Relieve):
            fields |= {"target": self.state.broker.name, "how": operation.what}
        elif isinstance(operation, ops.Reset):
            # Limited: the end itself is told when it comes.
            kind, limited = ("limit", True) if operation.after_bytes else ("reset", False)
            fields |= {} if limited else {"toward": None, "after_bytes": None}
        return self.put(events.Fault, "", fault=kind, evidence=self.outcome.evidence, **fields)

    def cut(self, operation: ops.Cut) -> Event:
        fields = {"fault": "cut", "target": operation.bridge, "how": operation.how, "evidence": self.outcome.evidence}
        return self.put(events.Fault, "", **fields)

    def operate(self, operation: ops.Operate) -> Event:
        return self.put(
            events.Operate,
            self.state.broker.name,
            result=self.outcome.result,
            op=operation.op,
            dest=operation.dest,
            to=operation.to,
            count=self.outcome.count,
            refusal=self.outcome.refusal,
            limit_bytes=operation.limit_bytes if operation.op == "limit" else None,
            command=operation.command or None,
            shown=self.outcome.shown,
        )

    def pause(self, operation: ops.Pause) -> Event:
        return self.put(events.Pause, "", target=self.state.broker.name, asked_ms=operation.ms)

    def probe(self, operation: ops.Probe) -> Event | None:  # noqa: ARG002 - what it said is seen
        if self.outcome.seen is None:  # the broker's process ended over it
            return None
        said, heard = self.outcome.seen
        return self.put(events.Probe, RAW_PEER, said=said, heard=heard)

    def counters(self, operation: ops.ReadCounters) -> Event | None:
        found = self.outcome.counters
        if found is None:
            if operation.dest is not None or not operation.at_rest:
                return None
            found = {}  # who counts nothing was at rest all the same: what never came by then is missing
        known = {name: value for name, value in found.items() if name in events.Counters.__struct_fields__}
        fields = {"dest": operation.dest, "at_rest": operation.at_rest and not self.outcome.moved}
        return self.put(events.Counters, operation.broker or self.state.broker.name, **fields, **known)

    def nothing(self, operation: ops.Operation) -> None:
        """Time that passes needs no event."""


_RECORDED: Final[dict[type[ops.Operation], Callable[[Recording, Any], Event | None]]] = {
    **dict.fromkeys(_PLAIN, Recording.plain),
    ops.Send: Recording.send,
    ops.Subscribe: Recording.subscribe,
    ops.Take: Recording.take,
    ops.Ack: Recording.settle,
    ops.Nack: Recording.settle,
    ops.Acknowledge: Recording.acknowledge,
    ops.ClockJump: Recording.fault,
    ops.Freeze: Recording.fault,
    ops.Thaw: Recording.fault,
    ops.Stall: Recording.fault,
    ops.Resume: Recording.fault,
    ops.Reset: Recording.fault,
    ops.Exhaust: Recording.fault,
    ops.Relieve: Recording.fault,
    ops.Restart: Recording.fault,
    ops.Cut: Recording.cut,
    ops.Rejoin: Recording.nothing,
    ops.Operate: Recording.operate,
    ops.Pause: Recording.pause,
    ops.Probe: Recording.probe,
    ops.ReadCounters: Recording.counters,
    ops.Advance: Recording.nothing,
}


def record(
    recorder: Recorder, broker: DeclaredSpec, state: WorldState, operation: ops.Operation, outcome: Outcome
) -> Event | None:
    """Record an operation with its outcome; the event, if there is one for it."""
    return _RECORDED[type(operation)](Recording(recorder, broker, state, outcome), operation)


def record_connect(recorder: Recorder, client: ClientState, outcome: Outcome) -> None:
    """Record that a host has tried to connect."""
    recorder.put(
        events.Connect,
        outcome.t0,
        outcome.t1,
        client.name,
        result=outcome.result,
        via=client.via,
        traits=client.traits,
        refusal=outcome.refusal,
        heart_beat_ms=outcome.heart_beat_ms,
    )

"""Conduct: connections, transactions, durable subscriptions, operators and restarts in the live world.

Rules
* A host connects when it is first used, and again after it lost its connection. It keeps its client id from one
  connection to the next if the program has durable subscriptions; the id belongs to the run, so that brokers may be
  shared.
* What an agent does not offer is not asked of it: the step is skipped, by ``NotOfferedError``.
* The Java client's acknowledgements are never part of its host's transaction: it has a session for each consumer, and a
  transaction is one session's. Its sends are. Our own JMS client offers ``transacted-acks``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.kinds import JMS
from brokerproof.conformance.experiment.configuration import stomp_beat_ms
from brokerproof.conformance.experiment.destinations import is_temporary
from brokerproof.conformance.experiment.history import Abort, Begin, Commit, Connect, Operate, Unsubscribe
from brokerproof.conformance.experiment.policies import UNASKED
from brokerproof.conformance.worlds.base import NotOfferedError
from brokerproof.conformance.worlds.live.clocks import NS_PER_MS
from brokerproof.conformance.worlds.live.observer import Observer

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.state import ClientState
    from brokerproof.conformance.experiment.steps.consume import Subscribe as SubscribeStep
    from brokerproof.conformance.experiment.steps.send import Send as SendStep


#: How long hosts may take to see the end of their connections.
NOTICE_MS = 2000


class Conduct(Observer):
    """See the module's header."""

    def connected(self, client: ClientState) -> bool:
        """Connect if necessary; whether there is a connection now."""
        agent = self.agent_of(client)
        if agent.connected:
            return True
        spec = client.spec
        port = self.paths[client.name].port(self.endpoint.port(client.via))
        monitor = client.link.monitor
        deadline_ms = self.patience_ms(client)
        client_id = f"{self.run_name}-{client.name}" if self.state.durable and client in self.state.clients else ""
        if client.via == JMS:
            request = protocol.Connect(
                id=0,
                url=f"tcp://127.0.0.1:{port}",
                deadline_ms=deadline_ms,
                monitor_ms=(0, 0) if monitor is None else (monitor.read_ms, monitor.initial_delay_ms),
                expiry_check=spec.expiry_check,
                client_id=client_id,
            )
        else:
            beat_ms = 0 if monitor is None else stomp_beat_ms(monitor, self.effective.monitor_generation())
            request = protocol.Connect(
                id=0,
                url=f"stomp://127.0.0.1:{port}",
                deadline_ms=deadline_ms,
                heartbeat_ms=(beat_ms, beat_ms),
                client_id=client_id,
            )
        answer = self.ask_broker(client, request)
        agent.connected = answer.result == "ok"
        check = client.via == JMS and spec.expiry_check
        self.put(Connect, answer.t0_ns, answer.t1_ns, client.name, answer.result, spec.via, check, answer.refusal)
        return agent.connected

    def require(self, client: ClientState, *words: str) -> None:
        """Raises ``NotOfferedError`` unless the client's agent offers all that."""
        offered = self.agent_of(client).capabilities
        lacking = [word for word in words if word not in offered]
        if lacking:
            raise NotOfferedError(f"the {client.via} agent of {client.name} does not offer {', '.join(lacking)}")

    def require_words(self, client: ClientState, dest: str, step: SendStep) -> None:
        """The same for what a producer says. Nobody has words for absolute times."""
        if step.deliver_in_ms or step.preset_in_ms:
            raise NotOfferedError("the agents have no words for an absolute delivery time")
        if step.again:
            raise NotOfferedError("the agents send nothing again")
        if step.life_ms and "broker-ttl" not in self.adapter.capabilities():
            raise NotOfferedError("the broker knows no time to live by its own clock")
        wanted = {
            "bridges": step.network,
            "endless": step.endless,
            "forgeries": step.forged != 0,
            "groups": bool(step.group),
            "lifetimes": step.life_ms != 0,
            "temporaries": step.reply or is_temporary(dest),
        }
        self.require(client, *(word for word, asked in wanted.items() if asked))

    def require_options(self, client: ClientState, dest: str, step: SubscribeStep) -> None:
        """The same for what a consumer asks for."""
        wanted = {
            "selectors": bool(step.selector),
            "durables": bool(step.durable),
            "browsers": step.browser,
            "default-prefetch": step.prefetch == UNASKED,
            "exclusive": step.exclusive or step.priority != 0,
            "wildcards": step.wild,
            "temporaries": is_temporary(dest),
        }
        self.require(client, *(word for word, asked in wanted.items() if asked))

    def begin(self, client: ClientState) -> None:
        self.require(client, "transactions")
        name = client.next_transaction()
        if self.connected(client):
            answer = self.ask_broker(client, protocol.Begin(id=0, deadline_ms=self.patience_ms(client), tx=name))
            if answer.result != "fail" and self.agents[client.name].connected:
                client.transaction = name
        else:
            answer = self.not_connected()
        self.put(Begin, answer.t0_ns, answer.t1_ns, client.name, answer.result, name, answer.refusal)

    def commit(self, client: ClientState) -> None:
        name, deadline_ms = client.transaction, self.patience_ms(client)
        answer = self.ask_broker(client, protocol.Commit(id=0, deadline_ms=deadline_ms, tx=name))
        client.end_transaction(bring_back=False)
        self.put(Commit, answer.t0_ns, answer.t1_ns, client.name, answer.result, name, answer.refusal)

    def rollback(self, client: ClientState) -> None:
        name, deadline_ms = client.transaction, self.patience_ms(client)
        answer = self.ask_broker(client, protocol.Abort(id=0, deadline_ms=deadline_ms, tx=name))
        # A JMS library hands out again by itself what a rollback brings back.
        client.end_transaction(bring_back=client.via != JMS)
        self.put(Abort, answer.t0_ns, answer.t1_ns, client.name, answer.result, name, answer.refusal)

    def unsubscribe(self, client: ClientState, durable: str) -> None:
        self.require(client, "durables")
        if self.connected(client):
            request = protocol.Unsubscribe(id=0, deadline_ms=self.patience_ms(client), durable=durable)
            answer = self.ask_broker(client, request)
            if answer.result != "fail":
                client.durables.pop(durable, None)
        else:
            answer = self.not_connected()
        self.put(Unsubscribe, answer.t0_ns, answer.t1_ns, client.name, answer.result, durable, answer.refusal)

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> None:
        t0_ns = time.monotonic_ns()
        target = self.physical_name(to) if to else ""
        answer = self.endpoint.operate(op, self.physical_name(dest) if dest else "", target, limit_bytes)
        if answer is None:
            raise NotOfferedError(f"nobody can ask this broker to {op} {dest or limit_bytes}")
        result = "fail" if answer.refusal else "ok"
        broker = self.state.broker.name
        refusal = answer.refusal or None
        said = (answer.count, refusal, limit_bytes if op == "limit" else None)
        self.put(Operate, t0_ns, time.monotonic_ns(), broker, result, op, dest, to, *said)

    def restart(self, how: str) -> None:
        t0_ns = time.monotonic_ns()
        hosts = [agent for agent in self.agents.values() if agent.connected]
        evidence = self.endpoint.restart(how)
        if evidence is None:
            raise NotOfferedError("this broker is not ours to restart")
        # Their sockets tell them; one behind a stalled link learns it later.
        self.pump(time.monotonic_ns() + NOTICE_MS * NS_PER_MS, lambda: not any(agent.connected for agent in hosts))
        if self.due_ns > t0_ns:
            self.due_ns = max(self.due_ns, time.monotonic_ns() + self.longest_ns)
        broker = self.state.broker.name
        self.record_fault("restart", t0_ns - self.start_ns, evidence, target=broker, how=how)
        self.sample(broker)

    def tx_of(self, client: ClientState) -> str:
        """The transaction that the host's acknowledgements are part of; see the module's rules."""
        apart = client.via == JMS and "transacted-acks" not in self.agent_of(client).capabilities
        return "" if apart else client.transaction

"""What a step may ask of the world that it happens in: the operations of ``conformance.worlds.base.World``.

What a step of its own kind asks is typed by the world: naming the classes of steps here would be a circle.
"""

from __future__ import annotations

from typing import Any, Protocol

from brokerproof.conformance.experiment.state import ClientState, ConsumerState, HostState, WorldState


class World(Protocol):
    """One execution of one program, as its steps see it."""

    state: WorldState

    def send(self, client: ClientState, dest: str, step: Any) -> None:
        """Send one message."""

    def subscribe(self, client: ClientState, dest: str, step: Any) -> None:
        """Attach a consumer."""

    def unsubscribe(self, client: ClientState, durable: str) -> None:
        """End a durable subscription."""

    def take(self, consumer: ConsumerState, deadline_ms: int) -> bool:
        """Give the application one message if one comes in time; whether one came."""

    def ack(self, consumer: ConsumerState, upto: int) -> None:
        """Acknowledge."""

    def nack(self, consumer: ConsumerState, upto: int) -> None:
        """Reject one message."""

    def acknowledge(self, consumer: ConsumerState, step: Any) -> None:
        """Send an acknowledgement of any type."""

    def close_consumer(self, consumer: ConsumerState) -> None:
        """The consumer says goodbye."""

    def lose_client(self, client: ClientState, how: str) -> None:
        """The client's socket (``drop``) or process (``kill``) vanishes."""

    def begin(self, client: ClientState) -> None:
        """Begin a transaction."""

    def commit(self, client: ClientState) -> None:
        """Commit it."""

    def rollback(self, client: ClientState) -> None:
        """Roll it back."""

    def jump_clock(self, host: HostState, jump_ms: int) -> None:
        """Step a wall clock."""

    def stall(self, client: ClientState, toward: str) -> None:
        """Hold back bytes."""

    def resume(self, client: ClientState) -> None:
        """Let them flow."""

    def restart(self, how: str) -> None:
        """Stop or kill the broker and start it again."""

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> None:
        """Ask the broker's management."""

    def visit(self, step: Any) -> None:
        """Strangers come and go."""

    def pause(self, ms: int) -> None:
        """The broker's process stands still."""

    def advance(self, ms: int) -> None:
        """Let true time pass."""

    def settle(self, deadline_ms: int) -> None:
        """Wait until nothing moves."""

    def read_counters(self, dest: str | None, *, at_rest: bool) -> None:
        """Read the broker's figures."""

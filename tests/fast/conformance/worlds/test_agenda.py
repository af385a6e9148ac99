"""Who waits alone is woken by what a client hears of, and by nothing else."""

from __future__ import annotations

from brokerproof.conformance.worlds.simulated.agenda import Action, Agenda


class Told(Action):
    """A client hears of something, or nobody does."""

    def __init__(self, agenda: Agenda, *, client: bool) -> None:
        self._agenda = agenda
        self._client = client

    def happen(self) -> None:
        self._agenda.stirred |= self._client


def test_only_what_a_client_hears_of_ends_a_wait() -> None:
    agenda = Agenda()
    for at_ns, client in ((10, False), (20, True), (30, False), (40, True)):
        agenda.plan(at_ns, Told(agenda, client=client))
    assert agenda.stir_by(100)
    assert (agenda.now_ns, agenda.happened) == (20, 2)
    assert not agenda.stir_by(35)
    assert (agenda.now_ns, agenda.happened) == (35, 3)
    assert agenda.stir_by(100)
    assert not agenda.stir_by(100)
    assert (agenda.now_ns, agenda.happened) == (100, 4)

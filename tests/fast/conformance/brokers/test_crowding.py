"""A broker of which there is only one: many share it, who owns it is alone."""

from __future__ import annotations

import threading

from brokerproof.conformance.brokers.crowding import Crowd

DEADLINE_S = 20.0


def test_who_owns_it_waits_for_all_and_all_wait_for_him() -> None:
    crowd = Crowd()
    order: list[str] = []
    asked = threading.Event()

    def own() -> None:
        asked.set()
        crowd.enter(alone=True)
        order.append("owner")
        crowd.leave()

    def share() -> None:
        crowd.enter(alone=False)
        order.append("later")
        crowd.leave()

    crowd.enter(alone=False)
    crowd.enter(alone=False)  # two at once
    owner = threading.Thread(target=own)
    owner.start()
    assert asked.wait(DEADLINE_S)
    while not crowd._waiting:  # it has asked, and stands before the door
        pass
    later = threading.Thread(target=share)
    later.start()
    crowd.leave()
    assert order == []
    order.append("last")
    crowd.leave()
    owner.join(DEADLINE_S)
    later.join(DEADLINE_S)
    assert order == ["last", "owner", "later"]

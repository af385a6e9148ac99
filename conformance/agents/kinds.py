"""The kinds of agents, and the module that plays each."""

from __future__ import annotations

STOMP = "stomp"
JMS = "jms"
OPENWIRE = "openwire"
#: Agent -> its module. ``OPENWIRE`` is brokerproof's own JMS client, ``JMS`` the stock Java one.
MODULES = {
    STOMP: "brokerproof.conformance.agents.stomp_agent",
    JMS: "brokerproof.conformance.agents.jms_agent",
    OPENWIRE: "brokerproof.conformance.agents.openwire_agent",
}

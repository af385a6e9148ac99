"""The kinds of agents, and the module that plays each."""

from __future__ import annotations

STOMP = "stomp"
JMS = "jms"
OPENWIRE = "openwire"
AMQP = "amqp"
AMQP091 = "amqp091"
MQTT = "mqtt"
#: Somebody's own executable.
AGENT = "agent"
#: Agent -> its module. ``OPENWIRE`` is brokerproof's own JMS client, ``JMS`` the stock Java one.
MODULES = {
    STOMP: "brokerproof.conformance.agents.stomp_agent",
    JMS: "brokerproof.conformance.agents.jms_agent",
    OPENWIRE: "brokerproof.conformance.agents.openwire_agent",
    AMQP: "brokerproof.conformance.agents.amqp_agent",
    AMQP091: "brokerproof.conformance.agents.amqp091_agent",
    MQTT: "brokerproof.conformance.agents.mqtt_agent",
}
#: Agent -> the library that it needs beyond brokerproof's own: (module, what it is called, the extra that brings it).
LIBRARIES = {
    JMS: ("jpype", "JPype", "jms"),
    AMQP: ("proton", "python-qpid-proton", "amqp"),
    AMQP091: ("pika", "pika", "amqp091"),
    MQTT: ("paho", "paho-mqtt", "mqtt"),
}

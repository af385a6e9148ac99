"""What gives a broker a capability, as its profile says it."""

from __future__ import annotations

#: Setting -> the capability that it gives.
BY_SETTING = {
    "timestamping": "timestamping",
    "memory_limit_bytes": "memory-limit",
    "redelivery": "broker-redelivery",
    "connector": "connector",
}
#: Fields of ``BrokerSpec`` that nobody need set: a capability of the same name gives them.
BY_CLAIM = ("transacted_nacks", "logins")
#: Capabilities that no requirement needs: what programs may ask for.
BESIDE = (
    *("absolute-delay", "auto-browsers", "browses-in-flight", "default-prefetch", "jms-selectors", "jms-semantics"),
    *("keeps-rolled-back", "letters-name-queues", "losses-count", "marks-by-count", "numeric-selectors"),
    *("prefetch-until-commit", "rejections-survive-restarts", "topic-wildcards"),
)
#: Capability -> the line of a profile that switches it on, and what is missing without it.
LINES = {
    "counters": "[counters] is missing: nobody tells figures",
    "memory-counters": "[counters] tells no memory_percent or memory_bytes (counters.map)",
    "restart": "[start] with restart = true is missing: the broker cannot be stopped and started again",
    "timestamping": "[settings] timestamping is missing: the broker's time-stamping cannot be switched on",
    "memory-limit": "[settings] memory_limit_bytes is missing: limits cannot be set",
    "broker-redelivery": "[settings] redelivery is missing: the broker's redelivery cannot be set",
    "redelivery-limit": "[promises] redeliveries_max is missing: how often does it deliver a message again?",
    "jms-semantics": '[promises] profiles claims no "jms", and capabilities no "jms-semantics"',
    "ends-durables": '[promises] capabilities claims no "ends-durables" (nor "jms-semantics")',
    "nack": '[promises] reject = "dead-letter" is not promised',
    "dead-letter": '[promises] reject = "dead-letter" is not promised',
    "expiry-check": "no endpoint for JMS clients that check expirations ([endpoints] jms)",
    "operator": "[operations] is missing: nobody can ask this broker to purge, move or reset",
}
#: The same of a JMS provider.
JMS_LINES = {
    "ttl": "endpoints.jms.expiry_check is missing: does the library throw away what its host's clock calls expired?",
    "expiry-check": "endpoints.jms.expiry_check = true is not said",
    "prefetch": "what a JMS library has fetched ahead nobody sees, so its consumers ask for each message",
    "nack": "JMS has no NACK",
}
#: Kind of destination -> the capability that it needs.
BY_KIND = {"topic": "topics", "composite": "composites", "virtual": "virtual-topics", "temporary": "temporaries"}

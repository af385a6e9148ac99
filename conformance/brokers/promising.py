"""What a profile promises: which requirements apply to its broker, and which of those nobody has claimed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.agents.kinds import STOMP
from brokerproof.conformance.brokers.casting import IMPLIES
from brokerproof.conformance.brokers.profile import PYTHON, Profile, Promises
from brokerproof.conformance.brokers.switches import BY_SETTING
from brokerproof.conformance.experiment.wire_names import Saying

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.probing import Found
    from brokerproof.conformance.requirements.catalogue import Requirement

#: Protocol -> the requirement profiles that whoever speaks it claims.
_SPOKEN: Final = {"stomp": "stomp-1.2", "amqp": "amqp-1.0", "mqtt": "mqtt-5", "jms": "jms"}


#: Word of ``names.stomp.headers`` -> the capability that a header of that meaning promises.
_HEADERS: Final = {
    "expiration": "ttl",
    "life": "broker-ttl",
    "delay": "delay",
    "persistent": "persistent",
    "prefetch": "prefetch",
    "durable": "durables",
    "selector": "selectors",
    "browser": "browsers",
}


#: Nobody writes down how selectors read a header that says a number.
_NUMBERS: Final = "numeric-selectors"
#: A message arrives with the timestamp that it was sent with, or the delivery mode.
_TIMESTAMP: Final = "TSP-007"
_MODE: Final = "GEN-131"
#: A consumer is answered before it is given anything.
_ANSWER: Final = "PRE-009"
#: Requirement -> the figures of queues that it is about; those about the broker's own.
_FIGURES: Final = {
    "INF-019": ("wasted",),
    "INF-021": ("dispatched", "acknowledged", "wasted"),
    "DLY-037": ("scheduled",),
}
_FIGURES_OF_BROKER: Final = ("INF-024", "MEM-002", "MEM-006")
#: A consumer rejects.
_REJECTION: Final = "GEN-103"
#: Requirements about frames of STOMP.
_OF_STOMP: Final = ("GEN-185", "GEN-190", "GEN-191", "GEN-192", "INA-024")
#: Requirement -> the setting that means it: whoever can be told how often to look for what has expired looks for it.
_MEANT_BY: Final = {"EXP-009": "expire_period_ms"}


def said(profile: Profile) -> dict[str, str]:
    """Capability -> the line that promises it, whatever a probe finds."""
    if profile.endpoints.stomp is None:
        return {}
    headers = profile.names.stomp.headers
    found = {words: f"names.stomp.headers.{word}" for word, words in _HEADERS.items() if headers.get(word)}
    if profile.promises.reject == "dead-letter":
        found |= dict.fromkeys(("nack", "dead-letter"), "promises.reject")
    return found


def implied(
    profile: Profile, words: Collection[str], protocols: Collection[str], found: Callable[[], Found] | None
) -> set[str]:
    """What a profile promises besides: a life is a life, whoever counts it, and a wildcard one, whatever it covers; who
    claims JMS does as it says where STOMP is silent, and whose mark of a redelivery is a count counts as it likes; who
    has a name for it names the queues of letters.
    ``found``: whom to ask what probes found.
    """
    jms = STOMP not in protocols or "jms" in (profile.promises.profiles or ())
    also = {*words, "jms-semantics"} if jms else set(words)
    for word, probed in (("selectors", _NUMBERS), ("browsers", "auto-browsers")):
        if found is not None and word in also:
            also |= {probed}.intersection(found().capabilities)
    mark = profile.names.stomp.headers.get("redelivered", "")
    if not jms and mark and Saying.of("redelivered", mark).above is not None:
        also.add("marks-by-count")
    spoken = [getattr(profile.names, protocol).headers for protocol in protocols if hasattr(profile.names, protocol)]
    if "dead-letter" in also and any(headers.get("original_destination") for headers in spoken):
        also.add("letters-name-queues")
    return also | {may for word, may in IMPLIES.items() if word in also}


def counts_early(promises: Promises) -> bool:
    """Whether what is in flight is counted before it is written."""
    return promises.generation.get("in-flight") == "assigned"


def unpromised(profile: Profile, requirement: Requirement, *, marks: bool, untold: Mapping[str, str]) -> str:
    """Why a requirement does not apply; "" if it does. ``marks``: what comes again says so;
    ``untold``: of which requirements nothing can be seen in what arrives, and why.
    """
    promises = profile.promises
    claimed = promises.profiles
    applies = claimed is None or not set(claimed).isdisjoint(requirement.profiles) or _is_set(profile, requirement)
    why = f"[promises] profiles = {claimed} claims none of {requirement.profiles}"
    for glob in promises.requirements:
        if fnmatchcase(requirement.id, glob.removeprefix("-")):
            applies, why = not glob.startswith("-"), f"[promises] requirements excludes it: {glob!r}"
    if applies and not marks and any(one.name == "unmarked" for one in requirement.outcomes):
        applies, why = False, "names.stomp.headers redelivered: it does not mark what it delivers again"
    return untold.get(requirement.id, "") if applies else why


def untold(profile: Profile, found: Found | None, protocols: Collection[str]) -> dict[str, str]:
    """Requirements about which nothing can be seen in what arrives, and why: by what a probe found, if there was one,
    and by what is spoken.
    """
    stomp = "stomp" in protocols or profile.endpoints.stomp is not None
    said = {} if stomp else dict.fromkeys(_OF_STOMP, "it is about STOMP, and no endpoint speaks that")
    said |= {_ANSWER: "no protocol says that an answer comes before what follows it: judged in virtual time"}
    said |= _uncounted(profile)
    if protocols and set(protocols) <= {"jms", "mqtt"}:
        said[_REJECTION] = "neither JMS nor MQTT knows a rejection"
    if set(protocols) == {"mqtt"}:
        said[_MODE] = "MQTT does not say how a message is to be kept"
    if found is None:
        return said
    if found.dates:
        said[_TIMESTAMP] = "names.stomp.headers timestamp: the broker writes its own time there"
    if "persistent" not in found.capabilities:
        said[_MODE] = "names.stomp.headers persistent: what arrives does not say it"
    return said


def _uncounted(profile: Profile) -> dict[str, str]:
    """Requirements about figures that nobody tells."""
    counters = profile.counters
    if counters is None or counters.kind.startswith(PYTHON):  # a class of its own may tell anything
        return {}
    found = {}
    for name, words in _FIGURES.items():
        if missing := [word for word in words if word not in counters.map]:
            found[name] = f"[counters] map tells no {' and no '.join(missing)}"
    if counters.broker is None:
        why = "[counters] broker is missing: nobody tells figures of it as a whole"
        found |= dict.fromkeys(_FIGURES_OF_BROKER, why)
    return found


def _is_set(profile: Profile, requirement: Requirement) -> bool:
    return not isinstance(profile.settings, str) and _MEANT_BY.get(requirement.id) in profile.settings


def unclaimed(profile: Profile, requirement: Requirement, protocols: Collection[str]) -> str:
    """Why nobody has claimed a requirement, although it applies: the profile does not say which ones it claims, and no
    line of it promises this one; "" if it is claimed.
    """
    promises = profile.promises
    if promises.profiles is not None:
        return ""
    spoken = {"core", *(_SPOKEN[kind] for kind in protocols if kind in _SPOKEN)}
    said = {capability for word, capability in BY_SETTING.items() if word in profile.settings}
    said |= {"nack"} if promises.reject == "dead-letter" else set()  # of what expires it says nothing
    named = _is_set(profile, requirement) or any(fnmatchcase(requirement.id, glob) for glob in promises.requirements)
    if named or not said.isdisjoint(requirement.words()) or not spoken.isdisjoint(requirement.profiles):
        return ""
    return f"[promises] profiles is missing, so nobody claims any of {requirement.profiles}"


def is_jms(profile: Profile, *, jms: bool) -> bool:
    """Whether it promises what JMS says. ``jms``: it is tested by that API."""
    return jms or "jms" in (profile.promises.profiles or ())


def speaks_jms(profile: Profile, *, jms: bool) -> bool:
    """Whether its selectors are those of JMS."""
    return is_jms(profile, jms=jms) or "jms-selectors" in (profile.promises.capabilities or ())


def beside(profile: Profile, unsaid: Collection[str], *, jms: bool) -> list[str]:
    """Further words of ``casting.py``, which no requirement needs. ``unsaid``: what its protocols have no name for."""
    java = speaks_jms(profile, jms=jms)
    # What becomes of what is rejected only ``dead-letter`` says.
    rejects = profile.promises.reject in {"redeliver", "drop"}
    words = {"no-local": "no_local" not in unsaid, "endless": java, "nack": rejects}
    return [word for word, offered in words.items() if offered]

"""Which selectors a broker is asked: STOMP leaves their language to the broker, and JMS's own is larger than others'.

* What only JMS gives a meaning is asked of who claims its selectors; nobody else has to refuse what JMS calls nonsense
  but a reader of another language may read.
* A JMS header field is asked of who claims JMS's selectors, or whose profile says what it is called.
* A form that the broker refused when it was probed is asked no more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_LITERAL = re.compile(r"'(?:[^']|'')*'")
_BETWEEN = re.compile(r"(?i)\bBETWEEN\s+(\S+)\s+AND\b")
_LIST = re.compile(r"(?i)\bIN\s*\(\s*''\s*(?:,\s*''\s*)*\)")
_FIELD = re.compile(r"\bJMS\w+")
#: What JMS has beyond comparing: sums, quotients (whose type SQL leaves to whoever calculates), words for true and
#: false, numbers written as in Java; that only texts can be IN something, or be LIKE something; that what is no
#: comparison is no condition; and signs and fractions that stand alone. Of literals two quotes are left here, of
#: BETWEEN its bounds, of a list of texts one.
_JMS = re.compile(
    r"(?i:(?:^|\(|\b(?:AND|OR|NOT)\b)\s*(?!NOT\b|NULL\b)(?:[A-Z_]\w*|''|-?[\d.]+)\s*(?=$|\)|\b(?:AND|OR)\b))"
    r"|[/*+]|\(\s*[\w.]+\s*\)|[\w)]\s+-\s+[\w(]|[\w)]-[\w(]|-\s*[A-Za-z_(]|\b(?i:TRUE|FALSE)\b|\b(?i:IN)\s*\(\s*[\d.)-]"
    r"|\b0[xX]?[0-9a-fA-F]+[lL]?\b|\b[\d.]+[dDfFlL]\b|-\s+[\d.]|(?<!\d)\.\d|\d\.(?!\d)|\d[eE]-?\d"
    r"|==|[=<>]\s*[\w.']+\s*[=<>]|(?i:\bLIKE\s+[\d.-]|\bIS\s+(?:NOT\s+)?'')"
)
_LONG_ESCAPE = re.compile(r"(?i)\bESCAPE\s+'(?:[^']|''){2}")
_ORDER = r"(?:=|<>|<=?|>=?)"
#: Form -> how it is recognized, and an example with no other form in it.
FORMS: Final[dict[str, tuple[re.Pattern[str], str]]] = {
    "IN": (re.compile(r"(?i)\bIN\b"), "kind IN ('a', 'b')"),
    "BETWEEN": (re.compile(r"(?i)\bBETWEEN\b"), "seat_no BETWEEN 1 AND 3"),
    "LIKE": (re.compile(r"(?i)\bLIKE\b"), "kind LIKE 'a%'"),
    "ESCAPE": (re.compile(r"(?i)\bESCAPE\b"), "kind LIKE 'a!_%' ESCAPE '!'"),
    "IS NULL": (re.compile(r"(?i)\bIS\b"), "kind IS NULL OR seat_no IS NOT NULL"),
    "NOT": (re.compile(r"(?i)\bNOT\b"), "NOT (kind = 'b')"),
    "words of any case": (re.compile(r"\b(?:and|or|not|And|Or|Not)\b"), "kind = 'a' or kind = 'b' And kind = 'b'"),
    "a value in front": (re.compile(rf"(?:''|\b[\d.]+)\s*{_ORDER}"), "'a' = kind OR 1 = seat_no"),
    "two names": (re.compile(rf"[A-Za-z_]\w*\s*{_ORDER}\s*[A-Za-z_]"), "kind = trip_id"),
    "negative numbers": (re.compile(r"-[\d.]"), "seat_no = -1"),
    "fractions": (re.compile(r"\d\.\d"), "fare_eur = 0.5"),
    "order": (re.compile(r"<(?!>)|(?<!<)>"), "seat_no < 3 OR seat_no >= 5"),
}


class Language(NamedTuple):
    """What a broker's selectors understand. ``identifiers``: a host's protocol -> JMS header field -> its name there,
    "" for none. ``refused``: names of ``FORMS``.
    """

    jms: bool = False
    identifiers: Mapping[str, Mapping[str, str]] = {}
    refused: Collection[str] = ()

    def has(self, selector: str, via: str) -> bool:
        """Whether a selector may be asked for by a host of that protocol."""
        own = self.identifiers.get(via, {})
        plain = _LITERAL.sub("''", selector)
        if not all(own.get(field, field if self.jms else "") for field in _FIELD.findall(plain)):
            return False
        if self.jms:
            return True
        if _JMS.search(_LIST.sub("= ''", _BETWEEN.sub(r"BETWEEN \1,", plain))) or _LONG_ESCAPE.search(selector):
            return False
        return not any(FORMS[form][0].search(plain) for form in self.refused)

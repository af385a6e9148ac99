"""What a raw peer said to a broker and what it heard: the two halves of a ``probe`` in a history.

Instants are true nanoseconds since the start of the run; one that is absent did not come. An interval is (no earlier,
no later).
"""

from __future__ import annotations

from typing import Literal

import msgspec

#: What an item from the broker is.
Kind = Literal["", "welcome", "beat", "answer", "error", "other"]


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that was heard in a dialogue: STOMP's command with its header lines as they came, or a structure of
    OpenWire with a line for each field.
    """

    at_ns: int
    what: str
    lines: list[str] = []
    body: str = ""


class Spoken(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One turn of a dialogue that was said, and what was heard until the next one. ``words``: what stood in for names
    in braces.
    """

    dialogue: str
    turn: int
    at: tuple[int, int]
    words: dict[str, str] = {}
    replies: list[Reply] = []


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``hello``, ``offer_ms``, ``says``, ``every_ms``, ``deaf`` and ``times`` as in the step ``probe``; ``says`` is
    "nothing" if it was to say so for no time.

    ``opened_ns``: the connection was open by then. ``hello_ns``, ``last_ns``: its hello, and the last thing that it
    said, were handed over. ``flooded_ns``: a deaf one had sent all its messages.
    """

    via: Literal["stomp", "openwire"]
    hello: Literal["good", "none", "half", "early", "bad"]
    offer_ms: tuple[int, int]
    #: Which bad hello it was.
    fault: str = ""
    says: Literal["nothing", "beats", "asks", "frames", "part"] = "nothing"
    every_ms: int = 0
    deaf: bool = False
    times: int = 1
    #: In which version of STOMP it held its dialogues.
    version: str = ""
    dialogues: list[str] = []
    opened_ns: int = 0
    hello_ns: tuple[int, int] | None = None
    last_ns: tuple[int, int] | None = None
    flooded_ns: int = 0
    #: How many answers it wanted.
    asked: int = 0


class Heard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``welcome_ns``: the broker's answer to the hello; ``first_ns``: the first thing after it; ``ended_ns``: the
    broker hung up, None: it had not when the probe was over.

    ``gap_ns``: the longest pause between two things heard after the welcome, or since the last one; ``closest_ns``: the
    shortest pause before a keep-alive. ``reports``: how often the broker told an operator that it gave this connection
    up. ``closed``: how many of the peers it hung up on; ``left``: what it had more than before when all had gone.
    """

    welcome_ns: int | None = None
    #: The heart-beat header of CONNECTED, or what the broker's WireFormatInfo offers; and what an error said.
    heart_beat: str = ""
    offer_ms: tuple[int, int] | None = None
    refused: str = ""
    answers: int = 0
    beats: int = 0
    first_ns: int | None = None
    gap_ns: int | None = None
    closest_ns: int | None = None
    ended_ns: int | None = None
    #: What came last.
    last: Kind = ""
    reports: int | None = None
    closed: int = 0
    left: dict[str, int] | None = None
    #: Of its dialogues.
    turns: list[Spoken] = []

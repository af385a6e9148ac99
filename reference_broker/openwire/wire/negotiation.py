"""WireFormatInfo: what each end offers, and what both then speak (openwire.md 3).

* Flags are joined by *and*, numbers by the minimum; a missing flag is false, a missing number 0. Missing or not
  positive means "not set" for the frame size and the version.
* Wrong magic, or a version below ``VERSION_MIN``, ends the connection. Versions 2 to 8 are not spoken: a peer that
  offers one of them is refused by the broker, with a ConnectionError, which all versions write alike.
* The caches are used only if both ask for them; a size of 1 to 99 would hang a Java peer and is treated as none.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.cache import HEADROOM, SIZE_MAX
from brokerproof.reference_broker.openwire.wire.codec import FRAME_MAX, Codec
from brokerproof.reference_broker.openwire.wire.connections import WIRE_FORMAT_INFO
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import VERSION_MAX, Data
from brokerproof.reference_broker.openwire.wire.primitives import Long, Value, decode_map, encode_map

VERSION_MIN: Final = 1
#: The oldest version above 1 that today's clients have.
VERSION_MODERN: Final = 9
MAGIC: Final = b"ActiveMQ"
_LONG_MAX: Final = 2**63 - 1


def is_spoken(version: int) -> bool:
    """Whether a peer whose highest version this is can be understood."""
    return version == VERSION_MIN or version >= VERSION_MODERN


class Offer:
    """What one end is ready to speak."""

    __slots__ = ("cache_size", "frame_max", "host", "initial_delay_ms", "provider", "read_ms",
                 "stack_traces", "tight", "version")  # fmt: skip

    def __init__(
        self,
        *,
        version: int = VERSION_MAX,
        tight: bool = True,
        cache_size: int = 1024,
        stack_traces: bool = True,
        read_ms: int = 30_000,
        initial_delay_ms: int = 10_000,
        frame_max: int = FRAME_MAX,
        provider: str = "brokerproof",
        host: str = "",
    ) -> None:
        self.version = version
        self.tight = tight
        #: 0: no caches.
        self.cache_size = cache_size
        self.stack_traces = stack_traces
        self.read_ms = read_ms
        self.initial_delay_ms = initial_delay_ms
        self.frame_max = frame_max
        self.provider = provider
        self.host = host

    def info(self) -> Data:
        """As a WireFormatInfo."""
        options: dict[str, Value] = {
            "TcpNoDelayEnabled": True,
            "StackTraceEnabled": self.stack_traces,
            "CacheEnabled": self.cache_size > 0,
            "TightEncodingEnabled": self.tight,
            "SizePrefixDisabled": False,
            "MaxInactivityDuration": Long(self.read_ms),
            "MaxInactivityDurationInitalDelay": Long(self.initial_delay_ms),
            "MaxFrameSize": Long(self.frame_max),
            "MaxFrameSizeEnabled": True,
            "ProviderName": self.provider,
        }
        if self.cache_size:
            options["CacheSize"] = self.cache_size
        if self.host:
            options["Host"] = self.host
        return WIRE_FORMAT_INFO.make(version=self.version, marshalledProperties=encode_map(options))


def read_offer(info: Data) -> Offer:
    """What a peer's WireFormatInfo offers. Raises ``WireError``."""
    if info["magic"] != MAGIC:
        raise WireError(f"the magic {info['magic']!r} is not OpenWire's {MAGIC!r}")
    version = info["version"]
    if not isinstance(version, int) or version < VERSION_MIN:
        raise WireError(f"version {version} is below {VERSION_MIN}")
    content = info["marshalledProperties"]
    options = decode_map(content) if isinstance(content, bytes) else {}
    caches = _flag(options, "CacheEnabled")
    return Offer(
        version=version,
        tight=_flag(options, "TightEncodingEnabled"),
        cache_size=(_number(options, "CacheSize", int) or SIZE_MAX) if caches else 0,
        stack_traces=_flag(options, "StackTraceEnabled"),
        read_ms=_number(options, "MaxInactivityDuration", Long),
        initial_delay_ms=_number(options, "MaxInactivityDurationInitalDelay", Long),
        frame_max=_number(options, "MaxFrameSize", Long),
        provider=str(options.get("ProviderName", "")),
        host=str(options.get("Host", "")),
    )


class Agreement:
    """What both ends speak."""

    __slots__ = ("cache_size", "frame_max", "stack_traces", "tight", "version")

    def __init__(self, mine: Offer, theirs: Offer) -> None:
        version = min(mine.version, theirs.version)
        self.version = version if is_spoken(version) else VERSION_MIN
        self.tight = mine.tight and theirs.tight
        self.stack_traces = mine.stack_traces and theirs.stack_traces
        size = min(mine.cache_size, theirs.cache_size)
        self.cache_size = min(size, SIZE_MAX) if size > HEADROOM else 0
        limits = [limit for limit in (mine.frame_max, theirs.frame_max) if limit > 0]
        self.frame_max = min(limits, default=_LONG_MAX)

    def codec(self) -> Codec:
        """What reads and writes from now on."""
        return Codec(self.version, tight=self.tight, cache_size=self.cache_size, stack_traces=self.stack_traces)


def _flag(options: dict[str, Value], name: str) -> bool:
    return options.get(name) is True


def _number(options: dict[str, Value], name: str, kind: type[int]) -> int:
    if name not in options:
        return 0
    value = options[name]
    if type(value) is not kind:
        raise WireError(f"{name} is {value!r} ({type(value).__name__}); it must be {kind.__name__.lower()}")
    return int(value)

"""ActiveMQ's own OpenWire marshallers in a process of their own: one line in (options, then frames, in hexadecimal),
one line out (the frames as Java writes them after it has read them, or what it said).

Started by ``test_openwire_java.py``.
"""

from __future__ import annotations

import os
import sys

import jpype

from brokerproof.chaos.tools import find_java, java_home


def main() -> int:
    """Answer until the input ends."""
    jvm = java_home(find_java()) / "lib" / "server" / "libjvm.so"
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jpype.startJVM("-Xmx128m", jvmpath=str(jvm), classpath=sys.argv[1].split(os.pathsep), convertStrings=False)
    sequence = jpype.JClass("org.apache.activemq.util.ByteSequence")
    for line in sys.stdin:
        version, tight, cache, traces, *frames = line.split()
        formats = []
        for _ in range(2):  # one reads what we wrote, one writes: each direction has caches of its own
            made = jpype.JClass("org.apache.activemq.openwire.OpenWireFormat")()
            made.setVersion(int(version))
            made.setTightEncodingEnabled(tight == "1")
            made.setCacheEnabled(cache == "1")
            made.setStackTraceEnabled(traces == "1")
            formats.append(made)
        found = []
        for frame in frames:
            try:
                command = formats[0].unmarshal(sequence(jpype.JArray(jpype.JByte)(bytes.fromhex(frame))))
                written = formats[1].marshal(command)
                data = bytes(written.getData())[written.getOffset() : written.getOffset() + written.getLength()]
                found.append(data.hex())
            except jpype.JException as error:
                found.append("error:" + str(error).replace(" ", "_").replace("\n", "_"))
        answers.write(" ".join(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

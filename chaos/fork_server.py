"""A fork server: a Python process that has imported a module, and forks a child for each request to run it.

Decides: how such a child becomes what `python -m MODULE` would be, without the imports, which cost more than most
children do.
Rules
* A child's parent is the supervisor, as every child's: it is forked by a fork of ours that ends at once.
* It leads a session, has the standard files, arguments and environment of its request, and dies with the supervisor.
* libfaketime looks up the file of a clock in the environment at every reading, so each child has a clock of its own.
* Only a process with one thread forks: another one may hold a lock of libfaketime, which the child would never get.
Known exceptions: in /proc a child has the command and the environment of its server.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
from pathlib import Path

from brokerproof.chaos.supervisor import PACKET_BYTES, PR_SET_PDEATHSIG


def serve(module: str) -> bool:
    """Fork until the supervisor hangs up; returns True in a child, which is to run the module, else False."""
    importlib.import_module(module)
    libc = ctypes.CDLL(None)
    supervisor = os.getppid()
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return False
    gc.collect()
    gc.freeze()  # a collection writes to all that it looks at, and the kernel copies what a child writes to
    control = socket.socket(fileno=os.dup(0))
    control.send(b"ready")
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, 2)
        if not packet:
            return False
        between = os.fork()
        if between == 0:
            between = os.getpid()
            child = os.fork()
            if child:
                control.send(str(child).encode())
                os._exit(0)
            control.close()
            _become(packet, *descriptors)
            while os.getppid() == between:
                os.sched_yield()
            libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != supervisor:  # it died before the line above
                os._exit(1)
            return True
        os.waitpid(between, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(packet: bytes, channel: int, log: int) -> None:
    """Take on the session, standard files, environment and arguments of a request."""
    request = json.loads(packet)
    os.setsid()
    for descriptor, number in ((channel, 0), (channel, 1), (log, 2)):
        os.dup2(descriptor, number)
    os.close(channel)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv[1:] = request["argv"][3:]


if __name__ == "__main__":
    wanted = sys.argv[1]
    if serve(wanted):
        del sys.modules[wanted]  # as where nobody has imported it yet
        runpy.run_module(wanted, run_name="__main__", alter_sys=True)

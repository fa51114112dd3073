"""A worker of :mod:`humanoid.lockstep`: runs its episodes and asks the parent for every action.

``worker.py FD`` talks over that descriptor. It ends when its parent does, and Ctrl-C is only for
the parent.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

_PR_SET_PDEATHSIG = 1  # of Linux's prctl.h


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # Elsewhere it ends when it asks next, and nobody answers.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    connection = Connection(int(sys.argv[1]))
    try:
        sys.path[:] = connection.recv()
        _run(connection)
    except (EOFError, ConnectionError):
        os._exit(1)
    except BaseException:
        connection.send(("error", traceback.format_exc()))
        os._exit(1)


def _run(connection: Connection) -> None:
    # Only now is the path set that all else is found on.
    from humanoid.lockstep import Request

    def ask(request: Request) -> Any:
        connection.send(("predict", request))
        return connection.recv()

    make, seeds = connection.recv()
    simulate = pickle.loads(make)()
    for seed in seeds:
        connection.send(("row", seed, simulate(seed, ask)))
    connection.send(("done",))


if __name__ == "__main__":
    main()

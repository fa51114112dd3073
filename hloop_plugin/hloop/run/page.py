"""Has the report page of a run made when the run has ended, by a process of its own.

The run's report lies there by then and its head is known: nothing that counts waits for the
page, and whatever goes wrong with it costs the run nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hloop.files import HTML_NAME

SWITCH = "HLOOP_HTML"
"""With this environment variable set to ``no``, runs make no page."""
OFF = "no"

LIMIT_SECONDS = 60


def is_wanted() -> bool:
    """Say whether runs that end here are to make their pages."""
    return os.environ.get(SWITCH) != OFF


def take_switch() -> dict[str, str]:
    """Take the switch out of the environment, where jobs would inherit it; give what it was."""
    return {SWITCH: os.environ.pop(SWITCH)} if SWITCH in os.environ else {}


def make_page(run_dir: str | Path) -> str:
    """Make ``report.html`` of a run that has ended, in at most a minute.

    Returns:
        Why there is none, in one line; "" where there is one.
    """
    # -P: a module in the current folder must not take the place of one of ours.
    argv = [sys.executable, "-P", "-m", "hloop.report.write", str(run_dir)]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=LIMIT_SECONDS,
            # Ctrl-C ends the waiting, and with it this process.
            start_new_session=True,
        )
    except KeyboardInterrupt:
        reason = "a signal came"
    except subprocess.TimeoutExpired:
        reason = f"it took more than {LIMIT_SECONDS} s"
    except OSError as error:
        reason = str(error.strerror)
    else:
        if done.returncode == 0:
            return ""
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"its process ended with {done.returncode}"
    return f"{HTML_NAME} was not made: {reason}. The run is not concerned"

"""Runs a program once to read its help: in no shell, for a bounded time and length.

It is the only part of preparing a plan that starts something, and only what a workload declares
as a command that prints help.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from functools import cache
from pathlib import Path

MAX_SECONDS = 60.0
MAX_BYTES = 2**20

# Wide and plain, so that nothing is cut or coloured.
_PLAIN = {"COLUMNS": "200", "TERMINAL_WIDTH": "200", "NO_COLOR": "1", "TERM": "dumb"}


class HelpFailed(Exception):
    """There is no help text; the message says why, as part of a sentence."""


@cache
def help_text(argv: tuple[str, ...], folder: Path, seconds: float = MAX_SECONDS) -> str:
    """Give what a command prints, to stdout or stderr. It is run once in a process.

    Raises:
        HelpFailed: it does not start, prints nothing or too much, or does not end in time.
    """
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, **_PLAIN},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise HelpFailed(f"does not start ({error.strerror})") from None
    try:
        data = _read(process, time.monotonic() + seconds)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise HelpFailed(f"did not end in {seconds:g} seconds") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    text = data.decode(errors="replace")
    if not text.strip():
        raise HelpFailed(f"printed nothing (exit code {process.returncode})")
    return text


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read until the command closes its output and ends."""
    assert process.stdout is not None
    descriptor, data = process.stdout.fileno(), b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise TimeoutError
        part = os.read(descriptor, 2**16)
        if not part:
            process.wait(max(deadline - time.monotonic(), 0.01))
            return data
        data += part
        if len(data) > MAX_BYTES:
            raise HelpFailed(f"printed more than {MAX_BYTES} bytes")

"""The machine that a run is on. It asks the kernel, and starts nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def host_facts() -> dict[str, Any]:
    """Give what identifies this machine and its boot."""
    return {
        "hostname": platform.node(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "boot_id": boot_id(),
    }


def boot_id() -> str | None:
    """Give what tells this boot from every other, of any machine."""
    return _read("/proc/sys/kernel/random/boot_id")


def _cpu_model() -> str | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None

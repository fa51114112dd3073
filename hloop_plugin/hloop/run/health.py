"""Whether this machine can run jobs as hloop does: devices, disk, limits, kernel.

It looks and says what to do. It starts nothing, and leaves nothing but the lease folder, which
is made as a run would make it.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hloop.devices.leases import LeaseFolder
from hloop.devices.resolve import UNRESOLVED, resolve_devices
from hloop.errors import DeviceError
from hloop.run import processes
from hloop.run.asking import ask_machine

MIB, GIB = 2**20, 2**30
# What a run of a thousand jobs writes by itself: records, logs, the journal.
ENOUGH_DISK = GIB
ENOUGH_FILES = 10_000
# The supervisor and Snakemake need some fifty descriptors each; frameworks need more.
ENOUGH_DESCRIPTORS = 1024
ENOUGH_PROCESSES = 256


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what it is.
        ok: nothing must be done; None where one could not look.
        found: half a sentence.
        action: what to do; "" where nothing must be done.
    """

    name: str
    ok: bool | None
    found: str
    action: str = ""

    def to_dict(self) -> dict[str, object]:
        return {"name": self.name, "ok": self.ok, "found": self.found, "action": self.action}


def machine_checks(run_dir: Path | None, environ: Mapping[str, str]) -> Iterator[Check]:
    """Look at the machine, one thing after the other.

    Args:
        run_dir: where runs are to go; None for the current folder.
    """
    yield check_devices(environ)
    yield check_leases(environ)
    yield check_folder("run directory" if run_dir else "this folder", _existing(run_dir or Path()))
    yield check_folder("TMPDIR", Path(environ.get("TMPDIR") or "/tmp"))
    yield _descriptors()
    yield _processes()
    yield _file_size()
    yield _core()
    yield _memory()
    yield _proc()
    yield _kernel()
    yield _clock()
    yield _umask()
    yield _user()


def check_devices(environ: Mapping[str, str]) -> Check:
    """Find the devices as a run does; none is right where there is no driver and no wish."""
    try:
        table = resolve_devices("auto", environ, ask_machine)
    except DeviceError as error:
        return Check("devices", False, str(error), "Correct CUDA_VISIBLE_DEVICES")
    count = len(table.devices)
    if count:
        unknown = sum(device.uuid == UNRESOLVED for device in table.devices)
        found = f"{count}: {table.source}"
        if not unknown:
            return Check("devices", True, found)
        action = "Name them by UUID, or set CUDA_DEVICE_ORDER=PCI_BUS_ID (docs/devices.md)"
        return Check("devices", False, f"{found}; {unknown} of them unresolved", action)
    found = f"none: {table.source}"
    if table.mask or Path("/proc/driver/nvidia/version").exists():
        action = "See whether nvidia-smi works here, and what CUDA_VISIBLE_DEVICES says"
        return Check("devices", False, found, action)
    return Check("devices", True, f"{found}; --hloop-devices simulated:N pretends")


def check_leases(environ: Mapping[str, str]) -> Check:
    """See whether runs can keep each other off a device."""
    name = "lease folder"
    try:
        folder = LeaseFolder.default(environ)
    except DeviceError as error:
        return Check(name, False, str(error), "Name another with --hloop-lease-dir")
    folder.close()
    return Check(name, True, str(folder.path) + (f"; {folder.remark}" if folder.remark else ""))


def _existing(path: Path) -> Path:
    """Give a folder, or the first above it that is there."""
    path = path.absolute()
    return next(item for item in (path, *path.parents) if os.path.lexists(item))


def check_folder(name: str, folder: Path) -> Check:
    """See whether a folder can be written to, and how much it holds."""
    try:
        fd, temporary = tempfile.mkstemp(prefix=".hloop-doctor-", dir=folder)
    except OSError as error:
        found = f"{folder} cannot be written to: {error.strerror}"
        return Check(name, False, found, "Choose another, or mend it")
    os.close(fd)
    os.unlink(temporary)
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    found = f"{folder} has {size(free)} free"
    if free < ENOUGH_DISK:
        action = f"Make room: records and logs want {size(ENOUGH_DISK)}, outputs theirs"
        return Check(name, False, found, action)
    if space.f_files and space.f_favail < ENOUGH_FILES:
        found += f", but no more than {space.f_favail} files can be made"
        return Check(name, False, found, "Make room")
    return Check(name, True, found + _unnamed(folder))


def _unnamed(folder: Path) -> str:
    """Say where a record must go through a file beside it; see hloop.files.publish."""
    try:
        os.close(os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o600))
    except OSError:
        return "; no O_TMPFILE, so a killed process may leave a *.tmp file"
    return ""


def _descriptors() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{number(soft)} (at most {number(hard)})"
    if soft != resource.RLIM_INFINITY and soft < ENOUGH_DESCRIPTORS:
        return Check("open files", False, found, f"ulimit -n {ENOUGH_DESCRIPTORS}, or more")
    return Check("open files", True, found)


def _processes() -> Check:
    limits = []
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and os.getuid() != 0:  # It does not bind root.
        limits.append((soft - _own_threads(), soft, "ulimit -u"))
    for folder in _cgroups("pids"):
        most, used = _read(folder / "pids.max"), _read(folder / "pids.current")
        if most.isdigit() and used.isdigit():
            limits.append((int(most) - int(used), int(most), "the cgroup"))
    if not limits:
        return Check("processes", True, "unlimited")
    left, limit, who = min(limits)
    found = f"{left} more than now of the {limit} that {who} allows"
    if left < ENOUGH_PROCESSES:
        return Check("processes", False, found, "End what is not needed, or raise the limit")
    return Check("processes", True, found)


def _own_threads() -> int:
    """Count what RLIMIT_NPROC counts: all threads of this user."""
    count = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _file_size() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft == resource.RLIM_INFINITY:
        return Check("file size", True, "unlimited")
    found = f"no file can grow beyond {size(soft)}"
    return Check("file size", soft >= GIB, found, "" if soft >= GIB else "ulimit -f unlimited")


def _core() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    if soft == 0:
        return Check("core dumps", True, "none")
    most = "the whole memory" if soft == resource.RLIM_INFINITY else size(soft)
    return Check("core dumps", True, f"a job that crashes may write {most}; ulimit -c 0 forbids")


def _memory() -> Check:
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [_read(folder / name) for folder in _cgroups("memory") for name in names]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Version 1 has no word for "no limit", only a number beyond all memory.
    limit = min([machine, *(int(text) for text in texts if text.isdigit())])
    if limit == machine:
        return Check("memory", True, f"{size(machine)}, and no cgroup allows less")
    found = f"the cgroup allows {size(limit)} of {size(machine)}"
    return Check("memory", limit >= GIB, found, "" if limit >= GIB else "Ask for more memory")


def _cgroups(controller: str) -> Iterator[Path]:
    """Give the folders of this process's cgroup and of those above it, of either version."""
    for line in _read("/proc/self/cgroup").splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            tops = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
        elif controller in controllers.split(","):
            tops = [Path("/sys/fs/cgroup", controller)]
        else:
            continue
        for top in tops:
            group = top / path.lstrip("/")
            yield from (item for item in (group, *group.parents) if item.is_relative_to(top))


def _proc() -> Check:
    own = f"/proc/self/task/{os.getpid()}/children"
    try:
        Path(own).read_bytes()
        Path("/proc/self/environ").read_bytes()
    except OSError as error:
        found = f"{error.filename} cannot be read: {error.strerror}"
        action = "Mount /proc: without it what a job leaves behind cannot be found"
        return Check("/proc", False, found, action)
    return Check("/proc", True, "readable")


def _kernel() -> Check:
    """Try what ends the jobs of a supervisor that dies."""
    try:
        processes.become_subreaper()
        lifeline = processes.Lifeline()
        os.close(lifeline.new_end())
        lifeline.close()
    except OSError as error:
        found = f"the kernel refuses: {error}"
        action = "Run outside this sandbox: jobs would outlive a supervisor that is killed"
        return Check("kernel", False, found, action)
    return Check("kernel", True, f"{os.uname().release}: jobs can be adopted, and end with us")


def _clock() -> Check:
    source = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    resolution = time.get_clock_info("monotonic").resolution
    found = f"{source or 'source not told'}, resolution {resolution * 1e9:.0f} ns"
    if resolution > 1e-3:
        return Check("clock", False, found, "Choose another clock source of the kernel")
    return Check("clock", True, found)


def _umask() -> Check:
    found = re.search(r"^Umask:\s*([0-7]+)$", _read("/proc/self/status"), re.MULTILINE)
    if found is None:
        return Check("umask", None, "the kernel does not tell it", "Run umask")
    if int(found[1], 8) & 0o700:
        action = "umask 022: what jobs make could not be read again"
        return Check("umask", False, found[1], action)
    return Check("umask", True, found[1])


def _user() -> Check:
    """Snakemake says in its log who runs it, and ends where it cannot tell."""
    try:
        return Check("user", True, f"{getpass.getuser()}, uid {os.getuid()}")
    except (KeyError, OSError):
        found = f"uid {os.getuid()} has no name here, without which Snakemake ends"
        return Check("user", False, found, "Set USER to any name")


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def size(count: int) -> str:
    """Give a number of bytes in the largest unit that it fills."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"

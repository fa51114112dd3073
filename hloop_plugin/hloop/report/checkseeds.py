"""Was a seed used, or only accepted? Told from the outputs of jobs that differ in it alone.

The same seed twice must give the same outputs, and another seed others. Of a file that only says
which seed it was given, the seed does not count. Nothing is run and nothing is written.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop.report.load import RunReport, load_report

MAX_BYTES = 64 * 2**20
"""Of a larger output only the digest is looked at."""

Job = Mapping[str, Any]


@dataclass(frozen=True)
class _Told:
    """A completed job with a seed, and what its outputs hold beyond the seed."""

    run_dir: Path
    job_id: str
    seed: int
    contents: tuple[tuple[str, str], ...]


def check_seeds(run_dirs: Sequence[Path]) -> dict[str, Any]:
    """Hold all jobs against each other that differ in their seed alone, in one or more runs.

    Returns:
        ``groups``: of each such group its ``command``, ``jobs`` and ``seeds``; ``findings``: of
        each its ``code`` (``seed_ignored`` or ``not_reproducible``) and two ``jobs``;
        ``different`` and ``repeated``: how many pairs of each kind were compared; ``passed``:
        None where no two seeds could be compared and nothing was found.

    Raises:
        ReportError: a report cannot be read.
    """
    groups: dict[tuple[Any, ...], list[_Told]] = defaultdict(list)
    for run_dir in run_dirs:
        report = load_report(run_dir)
        for job in report.jobs.values():
            if job.get("seed") is not None and job.get("status") == "completed":
                contents = _contents(report, job)
                if contents:
                    told = _Told(report.run_dir, str(job["job_id"]), job["seed"], contents)
                    groups[_same_but_for_the_seed(job)].append(told)
    pairs = [pair for jobs in groups.values() for pair in itertools.combinations(jobs, 2)]
    findings = [
        {"code": code, "seeds": [one.seed, two.seed], "jobs": [_name(one), _name(two)]}
        for one, two in pairs
        for code in _finding(one, two)
    ]
    different = sum(one.seed != two.seed for one, two in pairs)
    return {
        "groups": [
            {
                "command": list(key[1]),
                "jobs": [_name(job) for job in jobs],
                "seeds": sorted({job.seed for job in jobs}),
            }
            for key, jobs in groups.items()
        ],
        "findings": findings,
        "different": different,
        "repeated": len(pairs) - different,
        "passed": False if findings else True if different else None,
    }


def _finding(one: _Told, two: _Told) -> Iterable[str]:
    if one.seed == two.seed and one.contents != two.contents:
        yield "not_reproducible"
    elif one.seed != two.seed and one.contents == two.contents:
        yield "seed_ignored"


def _name(job: _Told) -> str:
    return f"{job.run_dir.name}/{job.job_id}"


def _same_but_for_the_seed(job: Job) -> tuple[Any, ...]:
    """Give what two jobs share that differ in their seed alone: command and registered inputs."""
    paths: dict[str, str] = {}
    registered = []
    for kind in ("inputs", "outputs"):
        for entry in job.get(kind) or ():
            if entry["path"].startswith("${RUN_DIR}"):
                paths[entry["path"]] = f"<{kind}.{entry['role']}>"
            else:
                registered.append((entry["role"], entry.get("sha256")))
    command = []
    for item in job["command"]:
        # The longest first: a folder's path begins that of a file in it.
        for path in sorted(paths, key=len, reverse=True):
            item = item.replace(path, paths[path])
        item = re.sub(r"\$\{RUN_DIR\}[^\s=,:]*", "<run_dir>", item)
        # The seeds of modules are numbers of up to 64 bits.
        item = re.sub(r"(?<!\d)\d{16,20}(?!\d)", "<module seed>", item)
        command.append(_without_argument(item, job["seed"]))
    return job.get("resource"), tuple(command), tuple(sorted(registered, key=str))


def _without_argument(item: str, seed: int) -> str:
    """Take the seed out of an item of a command, but no part of a script, as in ``$1``."""
    before, after = r"""(?:(?<![^\s=_:,"'])|(?<=seed))""", r"""(?![^\s_:,"'])"""
    return re.sub(f"{before}{seed}{after}", "<seed>", item)


def _without_seed(text: str, seed: int) -> str:
    return re.sub(rf"(?<![0-9]){seed}(?![0-9])", "<seed>", text)


def _contents(report: RunReport, job: Job) -> tuple[tuple[str, str], ...]:
    """Give a digest of what each output holds, without the seed and what is not compared."""
    return tuple(
        (entry["role"], _content(report.run_dir, entry, job))
        for entry in job.get("outputs") or ()
        if entry.get("compare") != "none" and entry.get("sha256")
    )


def _content(run_dir: Path, entry: Mapping[str, Any], job: Job) -> str:
    """Give the digest of one output's content; the report's where the file is not as it says."""
    digest = str(entry["sha256"])
    path = Path(entry["path"].replace("${RUN_DIR}", str(run_dir)))
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return digest
        data = path.read_bytes()
    except OSError:
        return digest
    if hashlib.sha256(data).hexdigest() != digest:
        return digest
    # Latin-1 reads every byte, and gives it back.
    text = _compared(data, entry).decode("latin-1")
    for name in filter(None, (job["job_id"], job.get("candidate_id"))):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "<name>", text)
    return hashlib.sha256(_without_seed(text, job["seed"]).encode()).hexdigest()


def _compared(data: bytes, entry: Mapping[str, Any]) -> bytes:
    """Take out what the plan says not to compare; all of it where it cannot be read so."""
    ignore = entry.get("ignore") or ()
    try:
        if ignore and entry.get("compare") == "json":
            document = json.loads(data)
            for pointer in ignore:
                _remove(document, pointer)
            return json.dumps(document, sort_keys=True).encode()
        if ignore and entry.get("compare") == "csv":
            rows = list(csv.DictReader(io.StringIO(data.decode())))
            kept = [[row[name] for name in row if name not in ignore] for row in rows]
            return json.dumps(kept).encode()
    except (ValueError, RecursionError):
        pass
    return data


def _remove(document: Any, pointer: str) -> None:
    """Take out what a JSON pointer (RFC 6901) names, where it is there."""
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]
    ] or [""]
    for part in parents:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return
    if isinstance(document, dict):
        document.pop(last, None)
    elif isinstance(document, list) and last.isdigit() and int(last) < len(document):
        document[int(last)] = None

"""Reads again what the records name and no record is: inputs, outputs, logs and code.

Each file is read once, the largest first and several at a time; each reference to it is then
held against what was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hloop.errors import HloopError
from hloop.files import FileDigest, FileRefused, hash_file
from hloop.plan.render import RenderedPlan
from hloop.provenance.chain import Chain
from hloop.provenance.findings import shown
from hloop.provenance.reading import Refused, RunFiles, is_inside, is_normal
from hloop.provenance.records import DIRECTORY, FILE
from hloop.trees import hash_tree

Progress = Callable[[int, int], None]
"""Called with the bytes that are read and the bytes that there are."""

# Below this a thread costs more than the reading.
_INLINE_BYTES = 256 * 1024
_THREADS = 8

# What the refusals of files.hash_file and trees.hash_tree come down to.
_REFUSALS = {
    "missing": "missing",
    "not_a_file": "not_a_plain_file",
    "not_a_directory": "not_a_plain_file",
    "special_file": "not_a_plain_file",
    "bad_name": "not_a_plain_file",
}


@dataclass(frozen=True, slots=True)
class Named:
    """A reference to a file or directory.

    Attributes:
        kind: ``output``, ``input``, ``code``, or ``removable``: one that may be gone.
        holder: the job, or the record, that names it.
        what: in words.
        inside: it must lie in the run directory.
    """

    kind: str
    holder: str
    what: str
    reference: Mapping[str, Any]
    inside: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.reference["path"], self.reference["type"]


def check_contents(
    chain: Chain, files: RunFiles, rendered: RenderedPlan | None, progress: Progress | None
) -> None:
    """Read every file that the records name, and add what is not as they say."""
    named = [item for item in _named(chain, rendered) if _is_sound(chain, item)]
    contents = _read_all(files, {item.key: item for item in named}, progress)
    for item in named:
        _compare(chain, item, contents[item.key])


def _named(chain: Chain, rendered: RenderedPlan | None) -> Iterator[Named]:
    made = _makings(chain)
    for job in chain.attempts:
        claim = job.claim or {}
        # Snakemake deletes what it did not take, and what is temporary.
        removable = set(claim.get("temporary", ()))
        is_rule = job.job_id in chain.rules
        if job.status is not None:
            for output in job.status["outputs"]:
                if output is not made[output["path"]][-1][1]:
                    continue  # Another attempt made it anew.
                removed = job.was_rejected or output["path"] in removable
                kind = "removable" if removed else "output"
                what = f"its output {output['role']!r}"
                yield Named(kind, job.job_id, what, output, inside=not is_rule)
        if job.record is not None:
            for log in job.record["logs"]:
                yield Named("output", job.job_id, f"its {log['role']}", log, inside=True)
            if job.status is not None:
                _compare_checkpoints(chain, job.job_id, job.record, job.status)
        if job.scheduled is not None:
            for entry in job.scheduled["input_digests"]:
                makings = made.get(entry["path"], [])
                if is_rule and entry["path"] in claim.get("not_covered", ()):
                    continue
                if is_rule and makings:
                    # A rule may read what another one replaces later.
                    moment = job.scheduled["scheduled"]["offset_ns"]
                    makings = [making for making in makings if making[0] <= moment]
                    if not makings:
                        continue
                if makings:
                    _compare_with_maker(chain, job.job_id, entry, makings[-1][1])
                    continue
                kind = "removable" if entry["path"] in removable else "input"
                yield Named(kind, job.job_id, f"its input {entry['role']!r}", entry)
            for entry in job.scheduled["code_digests"] + job.scheduled["config_digests"]:
                yield Named("code", job.job_id, "a file that its command uses", entry)
    for path, manifest in chain.sessions.items():
        if manifest is not None:
            code = manifest["config_digests"] + manifest["code_digests"]["scripts"]
            for entry in code:
                yield Named("code", path, "a file that the run uses", entry)


def _makings(chain: Chain) -> dict[str, list[tuple[int, Mapping[str, Any]]]]:
    """Give, for each path, when it was made and what it was then, in order of time."""
    made: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for job in chain.attempts:
        if job.status is not None:
            for output in job.status["outputs"]:
                making = (job.status["recorded"]["offset_ns"], output)
                made.setdefault(output["path"], []).append(making)
    for makings in made.values():
        makings.sort(key=lambda making: making[0])
    return made


def _compare_with_maker(
    chain: Chain, job_id: str, entry: Mapping[str, Any], made: Mapping[str, Any]
) -> None:
    """An input that the run made must be what its maker left; that is read as the output."""
    if any(entry[key] != made[key] for key in ("type", "sha256", "size")):
        chain.add(
            "input_changed",
            job_id,
            f"its input {entry['path']} had sha256 {entry['sha256']}",
            f"{made['sha256']}, as the job that made it says",
        )


def _compare_checkpoints(
    chain: Chain, job_id: str, record: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    """Of a job that completed a checkpoint is one of its outputs, which are read anyway."""
    outputs = {output["path"]: output for output in status["outputs"]}
    for entry in record["checkpoints"]:
        output = outputs.get(entry["path"])
        if output is None:
            continue
        if any(entry[key] != output[key] for key in ("type", "sha256", "size")):
            found = f"its checkpoint {entry['role']!r} is not the output {output['role']!r}"
            chain.add("self_report_mismatch", job_id, found)


def _is_sound(chain: Chain, item: Named) -> bool:
    path, type = item.key
    if not (is_inside(path) if item.inside else is_normal(path)):
        chain.add("path_escapes", item.holder, f"{item.what} lies at {path}")
    elif type not in (FILE, DIRECTORY):
        chain.add("reference_type", item.holder, f"{item.what} is of the type {type}")
    else:
        return True
    return False


# Reading

_Result = FileDigest | Refused


def _read_all(
    files: RunFiles, wanted: Mapping[tuple[str, str], Named], progress: Progress | None
) -> dict[tuple[str, str], _Result]:
    results: dict[tuple[str, str], _Result] = {}
    sizes: dict[tuple[str, str], int] = {}
    for key, item in wanted.items():
        # What a hostile record says of a size decides nothing but the order.
        sizes[key] = item.reference["size"]
    total, done = sum(sizes.values()), 0

    def note(key: tuple[str, str], result: _Result) -> None:
        nonlocal done
        results[key] = result
        done += sizes[key]
        if progress is not None:
            progress(done, total)

    if progress is not None:
        progress(0, total)
    small = [key for key in wanted if _size(files, key) <= _INLINE_BYTES]
    large = sorted(wanted.keys() - set(small), key=lambda key: _size(files, key), reverse=True)
    if large:
        threads = min(_THREADS, os.cpu_count() or 1, len(large))
        with ThreadPoolExecutor(threads) as pool:
            # hashlib lets go of the interpreter while it hashes.
            for key, result in zip(large, pool.map(lambda k: _read(files, k), large), strict=True):
                note(key, result)
    for key in small:
        note(key, _read(files, key))
    return results


def _size(files: RunFiles, key: tuple[str, str]) -> int:
    path = files.locate(key[0])
    if key[1] == DIRECTORY or path is None:
        return _INLINE_BYTES + 1 if path is not None else 0
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def _read(files: RunFiles, key: tuple[str, str]) -> _Result:
    path, type = key
    where = files.locate(path)
    if where is None:
        return Refused("missing", "the repository root is not known")
    inside = is_inside(path)
    try:
        if inside:
            files.check_parents(where)
        read = hash_tree if type == DIRECTORY else hash_file
        # Inputs from elsewhere may be symbolic links, as they may be for the run.
        return read(where, follow=not inside)
    except Refused as error:
        return error
    except FileRefused as error:
        code = _REFUSALS.get(error.code, "unreadable")
        return Refused(code, error.problems[0].found)
    except (HloopError, ValueError, RecursionError) as error:
        return Refused("unreadable", str(error))


def _compare(chain: Chain, item: Named, result: _Result) -> None:
    reference = item.reference
    where = f"{item.what} {reference['path']}"
    if isinstance(result, Refused):
        code = result.code
        if item.kind == "removable" and code == "missing":
            return
        if item.kind == "code":
            code = "code_differs"
        elif code == "missing":
            made_here = item.kind == "output" or is_inside(reference["path"])
            code = "output_missing" if made_here else "input_unavailable"
        found = f"{where}: {shown(result.found)}"
    elif (result.sha256, result.size) != (reference["sha256"], reference["size"]):
        code = {"input": "input_changed", "code": "code_differs"}.get(item.kind, "output_changed")
        found = f"{where} has sha256 {result.sha256} and {result.size} bytes"
    else:
        return
    expected = f"sha256 {reference['sha256']} and {reference['size']} bytes"
    chain.add(code, item.holder, found, expected)

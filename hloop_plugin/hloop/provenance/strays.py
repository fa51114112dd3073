"""Finds what lies in a run directory and nothing accounts for.

Names are looked at, links are not followed, nothing is opened but completion markers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hloop.files import (
    FORMAL_NAME,
    JOBS_NAME,
    OWN_NAMES,
    PLAN_NAME,
    RESUMED_NAME,
    RULES_NAME,
    JobPaths,
)
from hloop.formalpaths import FormalPaths
from hloop.plan.render import RenderedPlan
from hloop.portable import Portable
from hloop.provenance.chain import Chain, JobChain
from hloop.provenance.findings import shown
from hloop.provenance.reading import RUN_DIR, Refused, RunFiles
from hloop.provenance.undeclared import undeclared

# What a process leaves that dies while it publishes a record (files.publish).
_UNFINISHED = re.compile(r".+\.json\.[0-9a-f]{16}\.tmp")
_EARLIER_REPORT = re.compile(r"hloop_run\.[1-9][0-9]*\.json")

_JOB = JobPaths(Path())
_RECORDS = frozenset(path.name for path in (_JOB.scheduled, _JOB.record, _JOB.status))
_OTHERS = frozenset(
    path.name for path in (_JOB.completed, _JOB.stdout, _JOB.stderr, _JOB.transitions)
)
_GATE = FormalPaths(Path())
_FORMAL = frozenset(
    {
        *(path.name for path in (_GATE.gate, _GATE.manifest, _GATE.fidelity, _GATE.patch)),
        "evidence",
    }
)


def check_strays(chain: Chain, files: RunFiles, rendered: RenderedPlan | None) -> None:
    """Add what is unexpected in the run directory."""
    if rendered is not None:
        _check_top(chain, undeclared(_here(rendered, files)))
    elif not chain.has_plan:
        names = {entry.name for entry in _entries(chain, files, ".")}
        _check_top(chain, sorted(map(shown, names - (OWN_NAMES - {PLAN_NAME}))))
    _check_attempts(chain, files, JOBS_NAME, chain.jobs)
    _check_attempts(chain, files, RULES_NAME, chain.rules)
    for entry in _entries(chain, files, RESUMED_NAME):
        path = f"{RUN_DIR}/{RESUMED_NAME}/{entry.name}"
        if path in chain.read:
            continue
        if _UNFINISHED.fullmatch(entry.name):
            chain.add("unfinished_write", path, "it is there")
        elif _EARLIER_REPORT.fullmatch(entry.name) and not chain.is_formal:
            chain.add("earlier_attempt", path, "it is there")
        else:
            _unexpected(chain, path)
    for entry in _entries(chain, files, FORMAL_NAME):
        if not (chain.is_formal and entry.name in _FORMAL):
            _unexpected(chain, f"{RUN_DIR}/{FORMAL_NAME}/{entry.name}")


def _check_top(chain: Chain, names: Sequence[str]) -> None:
    declared = set()
    if chain.report is not None and chain.report.get("evidence"):
        declared = set(chain.report["evidence"]["undeclared"])
    for name in names:
        path = f"{RUN_DIR}/{name}"
        if _UNFINISHED.fullmatch(name):
            chain.add("unfinished_write", path, "it is there")
        elif path in declared and not chain.is_formal:
            chain.add("undeclared", path, "it is there")
        else:
            _unexpected(chain, path)


def _here(rendered: RenderedPlan, files: RunFiles) -> RenderedPlan:
    """Give a plan with its outputs where the run directory lies now."""
    portable = Portable(rendered.run_dir, rendered.repo_root)
    jobs = {}
    for job_id, job in rendered.jobs.items():
        outputs = tuple(
            replace(output, path=files.locate(portable.path(output.path)) or output.path)
            for output in job.outputs
        )
        jobs[job_id] = replace(job, outputs=outputs)
    return replace(rendered, run_dir=Path(files.root), jobs=jobs)


def _check_attempts(
    chain: Chain, files: RunFiles, top: str, attempts: Mapping[str, JobChain]
) -> None:
    for folder in _entries(chain, files, top):
        where = f"{top}/{folder.name}"
        if folder.name not in attempts:
            if not (top == RULES_NAME and chain.report is None):
                _unexpected(chain, f"{RUN_DIR}/{where}")
            continue
        for entry in _entries(chain, files, where):
            path = f"{RUN_DIR}/{where}/{entry.name}"
            # A run that goes on may have written it since the records were read.
            if entry.name in _RECORDS and (path in chain.read or chain.report is None):
                continue
            if _UNFINISHED.fullmatch(entry.name):
                chain.add("unfinished_write", path, "it is there")
            elif entry.name == _JOB.attempts.name and not chain.is_formal:
                chain.add("earlier_attempt", path, "it is there")
            elif entry.name == _JOB.completed.name:
                _check_marker(chain, files, attempts[folder.name].status_sha256, path)
            elif entry.name not in _OTHERS and not (
                chain.is_formal and entry.name == _JOB.cache.name
            ):
                _unexpected(chain, path)


def _check_marker(chain: Chain, files: RunFiles, status: str | None, path: str) -> None:
    try:
        data = files.read(path).data
    except Refused as error:
        chain.add("marker_differs", path, error.found)
        return
    if status is not None and data != f"sha256:{status}\n".encode():
        chain.add("marker_differs", path, "it does not hold the attempt status's digest")


def _entries(chain: Chain, files: RunFiles, where: str) -> Iterator[os.DirEntry[str]]:
    """Give what lies in a folder of hloop's; nothing where it is not there."""
    try:
        files.check_parents(f"{files.root}/{where}/x")
        yield from sorted(os.scandir(f"{files.root}/{where}"), key=lambda entry: entry.name)
    except Refused as error:
        if error.code != "missing":
            chain.add(error.code, f"{RUN_DIR}/{where}", error.found)
    except OSError as error:
        chain.add("unreadable", f"{RUN_DIR}/{where}", f"it cannot be read: {error.strerror}")


def _unexpected(chain: Chain, path: str) -> None:
    chain.add("unexpected_file", path, "nothing accounts for it")

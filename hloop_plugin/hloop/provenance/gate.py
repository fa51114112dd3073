"""The fidelity gate: whether a plan may be run formally, and the file that says so.

A gate is a function of the plan, the author-fidelity manifest, the reviewed patch, the
evidence and the source tree. So it is never believed: whoever uses one derives it anew from
what lies beside it, and compares every byte.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import HloopError, Problem
from hloop.formalpaths import FormalPaths
from hloop.plan.document import child
from hloop.plan.model import Plan
from hloop.plan.paths import inside
from hloop.plan.render import RenderedPlan
from hloop.provenance.fidelity import (
    Fidelity,
    claim_problems,
    gate_problems,
    read_fidelity,
)
from hloop.provenance.formal import formal_manifest, formal_problems, training_jobs
from hloop.provenance.gatefolder import PREFIX, read_gate, read_plain
from hloop.provenance.records import FIDELITY, FILE, FORMAL_MANIFEST, GATE, Reference
from hloop.provenance.sourcediff import compare_source

REPO_ROOT = "${REPO_ROOT}"


class GateRefused(HloopError):
    """A gate that cannot be passed: holds every reason."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Source:
    """Where a source tree lies (portable), and the id of Git's tree object for it."""

    path: str
    tree: str


_NAMES = FormalPaths(Path())


def approve(
    rendered: RenderedPlan, *, fidelity: Path, patch: Path, source: Path
) -> dict[str, bytes]:
    """Ask everything that must hold before a plan is run formally.

    Args:
        rendered: a plan that lint has nothing against.
        fidelity: the author-fidelity manifest; its evidence lies beside it.
        patch: the reviewed patch.
        source: the top of the source tree.

    Returns:
        The gate with everything that it builds on: relative path in its folder to bytes. The
        gate itself is the last.

    Raises:
        GateRefused: the gate cannot be passed; holds every reason.
        HloopError: something cannot be read, or the source is no Git work tree.
    """
    data, patch_data = read_plain(fidelity, follow=True), read_plain(patch, follow=True)
    claimed, problems = read_fidelity(data, fidelity)
    problems = _in(fidelity.name, problems)
    if claimed is None:
        raise GateRefused(problems)
    folder = fidelity.absolute().parent
    problems += _in(fidelity.name, _claims(claimed, folder, checkpoints=True))
    tree, more = _source_problems(claimed, patch_data, rendered, source.absolute())
    problems += more
    problems += _in("plan", formal_problems(rendered.plan, claimed))
    if problems:
        raise GateRefused(problems)
    base = _read_evidence(claimed, folder)
    base |= {str(_NAMES.fidelity): data, str(_NAMES.patch): patch_data}
    place = Source(_portable(source.absolute(), rendered.repo_root), tree)
    return _derive(rendered.plan, claimed, base, place)


def rederive(
    formal_dir: Path, plan: Plan, *, rendered: RenderedPlan | None = None
) -> list[Problem]:
    """Derive a gate anew from what lies beside it and from a plan.

    Args:
        formal_dir: a folder that ``hloop gate`` made, or its copy ``RUN/formal``.
        plan: the plan that the gate should belong to; lint has nothing against it.
        rendered: the same plan with its templates filled in, to look at the source tree as
            well. None where that tree is not at hand: then the gate is taken at its word for
            what the tree held, and for nothing else.

    Returns:
        Every reason why the gate does not hold; none: it does.
    """
    paths = FormalPaths(formal_dir)
    try:
        gate = read_gate(paths.gate)
        data, patch = read_plain(paths.fidelity), read_plain(paths.patch)
        manifest = read_plain(paths.manifest)
        claimed, problems = read_fidelity(data, paths.fidelity.name)
    except HloopError as error:
        return _told(error)
    problems = _in(paths.fidelity.name, problems)
    if claimed is None:
        return problems
    problems += _in(paths.fidelity.name, _claims(claimed, formal_dir, checkpoints=False))
    problems += _in("plan", formal_problems(plan, claimed))
    place = Source(gate["source"]["path"], gate["source"]["tree"])
    if rendered is not None:
        source = _source_of(gate, rendered.repo_root)
        try:
            tree, more = _source_problems(claimed, patch, rendered, source)
        except HloopError as error:
            more = _told(error)
        else:
            place = replace(place, tree=tree)
        problems += more
    if problems:
        return problems
    base = _read_evidence(claimed, formal_dir)
    base |= {paths.fidelity.name: data, paths.patch.name: patch}
    derived = _derive(plan, claimed, base, place)
    return [
        *_compare(paths.manifest.name, manifest, derived[paths.manifest.name]),
        *_compare(paths.gate.name, canonical.dumps(gate), derived[paths.gate.name]),
    ]


def _source_of(gate: Mapping[str, Any], repo_root: Path) -> Path:
    """Give where the source tree of a gate lies on this machine."""
    path: str = gate["source"]["path"]
    if path == REPO_ROOT or path.startswith(f"{REPO_ROOT}/"):
        path = f"{repo_root}{path.removeprefix(REPO_ROOT)}"
    return Path(path)


def _read_evidence(claimed: Fidelity, folder: Path) -> dict[str, bytes]:
    """Read the evidence, which has been looked at.

    Raises:
        HloopError: it cannot be read, or is no longer the same.
    """
    made = {}
    for claim in claimed.evidence:
        data = made[claim.path] = read_plain(folder / claim.path)
        if hashlib.sha256(data).hexdigest() != claim.sha256:
            raise HloopError(f"{folder / claim.path} changed while it was looked at")
    return made


def _in(file: str, problems: Iterable[Problem]) -> list[Problem]:
    """Say in which file the problems lie: a gate has several."""
    return [
        replace(problem, where=f"{file}: {problem.where}" if problem.where else file)
        for problem in problems
    ]


def _told(error: HloopError) -> list[Problem]:
    return _in(Path(error.file).name, error.problems) if error.file else list(error.problems)


def _claims(claimed: Fidelity, folder: Path, *, checkpoints: bool) -> Iterator[Problem]:
    yield from gate_problems(claimed)
    yield from claim_problems("evidence", claimed.evidence, folder)
    if checkpoints:
        for method in claimed.methods:
            yield from claim_problems("checkpoint", method.checkpoints, folder)


def _source_problems(
    claimed: Fidelity, patch: bytes, rendered: RenderedPlan, source: Path
) -> tuple[str, list[Problem]]:
    """Look at the source tree. Gives its id, and what is wrong.

    Raises:
        HloopError: it is no Git work tree, or it cannot be read.
    """
    compared = compare_source(source, claimed.commit, patch)
    problems = list(compared.problems)
    for method in claimed.methods:
        problems += claim_problems("config", method.configs, source)
    problems += _in("plan", _unused(rendered, source))
    return compared.tree, problems


def _unused(rendered: RenderedPlan, source: Path) -> Iterator[Problem]:
    """Find the jobs that train with something else than the source tree, as far as it shows."""
    top, training = os.path.realpath(source), training_jobs(rendered.plan)
    for index, job in enumerate(rendered.plan.jobs):
        entry = rendered.jobs[job.job_id]
        if job.job_id not in training:
            continue
        cwd = os.path.realpath(entry.cwd)
        paths = (os.path.join(cwd, item) for item in entry.argv)
        named = (os.path.realpath(path) for path in paths if os.path.exists(path))
        if cwd == top or inside(cwd, top) or any(inside(path, top) for path in named):
            continue
        yield Problem(
            "source_not_used",
            f"jobs[{index}].command",
            f"job {job.job_id!r}: it trains, and neither runs in the source tree nor names a "
            "file in it",
            f"a job that runs what lies in {source}",
        )


def _portable(source: Path, repo_root: Path) -> str:
    path, root = os.path.normpath(source), str(repo_root)
    if path == root:
        return REPO_ROOT
    return f"{REPO_ROOT}{path[len(root) :]}" if inside(path, root) else path


def _derive(
    plan: Plan, claimed: Fidelity, base: Mapping[str, bytes], source: Source
) -> dict[str, bytes]:
    """Make the formal manifest and the gate of what they build on.

    Args:
        base: the author-fidelity manifest, the patch and the evidence, by relative path.

    Returns:
        ``base`` with the two beside them; the gate is the last.
    """

    def reference(name: str, type: str) -> Reference:
        return Reference.of_bytes(PREFIX + name, type, made[name])

    made = dict(base)
    given = [reference(str(_NAMES.fidelity), FIDELITY), reference(str(_NAMES.patch), FILE)]
    name = str(_NAMES.manifest)
    made[name] = canonical.dumps(formal_manifest(plan, given))
    evidence = sorted({claim.path for claim in claimed.evidence})
    upstream = [
        reference(name, FORMAL_MANIFEST),
        *given,
        *(reference(path, FILE) for path in evidence),
    ]
    gate = {
        "_type": GATE,
        "status": "passed",
        "protocol": claimed.protocol,
        "fidelity_class": claimed.fidelity_class,
        "methods": [method.name for method in claimed.methods],
        "required_gates": claimed.required_gates,
        "source": {"path": source.path, "commit": claimed.commit, "tree": source.tree},
        "configs": [
            {
                "method": method.name,
                "case": claim.name,
                "path": claim.path,
                "sha256": claim.sha256,
            }
            for method in claimed.methods
            for claim in method.configs
        ],
        "checkpoints": [
            {
                "method": method.name,
                "role": claim.name,
                "path": claim.path,
                "sha256": claim.sha256,
            }
            for method in claimed.methods
            for claim in method.checkpoints
        ],
        "upstream": [item.to_dict() for item in upstream],
    }
    made[str(_NAMES.gate)] = canonical.dumps(gate)
    return made


def _compare(name: str, found: bytes, expected: bytes) -> list[Problem]:
    """Compare a record with what it should be, and name the first value that differs."""
    if found == expected:
        return []
    try:
        where = _first_difference(canonical.loads(found), canonical.loads(expected), "")
    except canonical.CanonicalError:
        where = ""
    return [
        Problem(
            "gate_mismatch",
            f"{name}: {where}" if where else name,
            "it is not what the plan and the files beside it give",
            "the record that `hloop gate` writes for them",
            "Run `hloop gate` for this plan",
        )
    ]


def _first_difference(found: Any, expected: Any, where: str) -> str:
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted(found.keys() | expected.keys()):
            if key not in found or key not in expected or found[key] != expected[key]:
                return _first_difference(found.get(key), expected.get(key), child(where, key))
    if isinstance(found, list) and isinstance(expected, list):
        for index, (one, other) in enumerate(zip(found, expected, strict=False)):
            if one != other:
                return _first_difference(one, other, child(where, index))
    return where

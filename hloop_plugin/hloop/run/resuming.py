"""How a run is resumed: what is kept of it, and how the rest is made to run as if anew.

What is done is decided from the records (provenance/resume.py). What runs again is set aside
under ``jobs/<job_id>/attempts/<n>/`` by renaming, so that nothing is lost. A process that dies
between two of these steps leaves what the next one can go on with. Whoever calls holds the
run's lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloop import canonical, files
from hloop.devices.resolve import OPTION, DeviceTable
from hloop.errors import HloopError, Problem, RunDirectoryError
from hloop.files import JobPaths, RunPaths
from hloop.plan.render import RenderedPlan
from hloop.portable import Portable
from hloop.provenance.code import Scripts
from hloop.provenance.records import FORMAL, PLAN
from hloop.run.journal import mend_journal, read_journal
from hloop.run.opening import PlanOpening
from hloop.run.settings import Provenance, RunSettings
from hloop.run.story import told_by_records
from hloop.run.survivors import end_survivors
from hloop.schedule.events import EngineSettings, JobNode, Mode, Placement

if TYPE_CHECKING:
    from hloop.provenance.resume import Decision

_PART = ".part"
_OUTPUTS = "outputs"


# Whether a run can be resumed


def former_manifest(run_dir: Path) -> dict[str, Any] | None:
    """Read the manifest of a run's first session; None where the run died before it.

    Raises:
        RunDirectoryError: it is no run directory of a plan, it has been moved, the run was
            formal, or another executor's.
    """
    paths = RunPaths(run_dir)
    if not paths.plan.exists():
        found, action = "it has no plan.json", "Name the folder that hloop run wrote into"
        raise _refused(paths, "no_run_dir", found, action)
    if not paths.manifest.exists():
        return None
    try:
        now = files.sha256_bytes(paths.plan.read_bytes())
        manifest = canonical.loads(paths.manifest.read_bytes())
        was_at, kind, executor = manifest["run_dir"], manifest["run_kind"], manifest["executor"]
        (plan,) = (ref["sha256"] for ref in manifest["upstream"] if ref["type"] == PLAN)
    except (OSError, canonical.CanonicalError, KeyError, TypeError, ValueError):
        found = f"{paths.manifest.name} is no manifest of a plan's run"
        raise _refused(paths, "no_manifest", found, "Run the plan in a new folder") from None
    if kind == FORMAL:
        found, action = "it is a formal run", "Run the plan in a new folder, with its gate"
        raise _refused(paths, "resume_formal", found, action)
    if executor != "hloop":
        found, action = f"its jobs were started by {executor}", "Run the plan in a new folder"
        raise _refused(paths, "resume_external", found, action)
    if not Path(was_at).is_dir() or not os.path.samefile(was_at, run_dir):
        raise _refused(paths, "moved", f"the run was made in {was_at}", "Move it back there")
    if now != f"sha256:{plan}":
        found, action = "its plan.json is not the one that it began with", "Put that one back"
        raise _refused(paths, "plan_changed", found, action)
    return dict(manifest)


def former_place(run_dir: Path, repo_root: Path | None) -> tuple[Path, Path]:
    """Give the repository root and the run directory, as a run that is resumed had them.

    Args:
        repo_root: what is given; None: as it had it. Of a run that died before it had begun,
            the current folder.

    Raises:
        HloopError: it cannot be resumed, or the repository root was another one.
    """
    manifest = former_manifest(run_dir)
    if manifest is None:
        return repo_root or Path.cwd(), run_dir
    place = Path(manifest["repo_root"]), Path(manifest["run_dir"])
    if repo_root is not None:
        _check_place(Path(os.path.abspath(repo_root)), place[1], manifest)
    return place


def former_keep_going(run_dir: Path) -> bool:
    """Whether a run that is resumed carried on after a failure.

    Raises:
        HloopError: it cannot be resumed.
    """
    manifest = former_manifest(run_dir)
    return manifest is not None and bool(manifest["keep_going"])


def settings_to_resume(
    rendered: RenderedPlan, *given: tuple[Mapping[str, Any], str]
) -> RunSettings:
    """Demand that a run can be resumed with this plan; give its settings: as it had them, but
    for those that are given.

    Args:
        given: settings by name, None where they are not given, and where they stand; what comes
            later goes before.

    Raises:
        HloopError: it cannot be resumed, or not so.
    """
    manifest = former_manifest(rendered.run_dir)
    settings = RunSettings() if manifest is None else former_settings(manifest)
    for values, source in given:
        settings = settings.override(values, source=source)
    if manifest is not None:
        _check_place(rendered.repo_root, rendered.run_dir, manifest)
        _check_same_settings(manifest, settings)
    _check_same_plan(rendered)
    return settings


def _check_place(repo_root: Path, run_dir: Path, manifest: Mapping[str, Any]) -> None:
    """Demand that all paths are what they were."""
    now = {"repo_root": str(repo_root), "run_dir": str(run_dir)}
    problems = [
        Problem(name, name, f"it is {path}", manifest[name], "Name it as it was")
        for name, path in now.items()
        if path != manifest[name]
    ]
    if problems:
        raise HloopError(problems)


def former_settings(manifest: Mapping[str, Any]) -> RunSettings:
    """Give the settings that a run had, for those that are not given anew."""
    devices = manifest["devices"]["devices"]
    setting = "auto"
    if devices and all(device["simulated"] for device in devices):
        setting = f"simulated:{len(devices)}"
    elif OPTION in manifest["devices"]["source"]:
        setting = ",".join(device["token"] for device in devices)
    return RunSettings(
        mode=Mode(manifest["mode"]),
        devices=setting,
        placement=Placement(manifest["placement"]),
        cpu_workers=manifest["limits"]["cpu"],
        io_workers=manifest["limits"]["io"],
        grace_seconds=manifest["grace_seconds"],
    )


def _check_same_settings(manifest: Mapping[str, Any], settings: RunSettings) -> None:
    """Demand what all sessions of a run have in common."""
    problems = [
        Problem("setting", name, f"{now.value!r}, to resume a run", repr(manifest[name]))
        for name, now in (("mode", settings.mode), ("placement", settings.placement))
        if now.value != manifest[name]
    ]
    if settings.provenance is Provenance.ALL:
        found = "records of all rules are kept of a run's first session only"
        problems.append(Problem("setting", "provenance", found, "'plan', to resume a run"))
    if problems:
        raise HloopError(problems)


def _check_same_plan(rendered: RenderedPlan) -> None:
    """Demand that a plan is byte for byte the one in the run directory; say what differs."""
    paths = RunPaths(rendered.run_dir)
    now, then = rendered.plan.to_bytes(), paths.plan.read_bytes()
    if now == then:
        return
    lines = zip(now.splitlines(), then.splitlines(), strict=False)
    number, (new, old) = next(
        ((i, pair) for i, pair in enumerate(lines, 1) if pair[0] != pair[1]),
        (min(now.count(b"\n"), then.count(b"\n")) + 1, (b"nothing more", b"nothing more")),
    )
    text = f"the plan is another one: line {number} of {paths.plan} would be {_shown(new)}"
    action = "Run it in a new folder, or resume the run with its own plan.json"
    raise RunDirectoryError(Problem("plan_differs", "", text, _shown(old), action))


def _shown(line: bytes) -> str:
    return line.decode(errors="replace").strip()[:200]


def _refused(paths: RunPaths, code: str, found: str, action: str) -> RunDirectoryError:
    found = f"{paths.root} cannot be resumed: {found}"
    return RunDirectoryError(Problem(code, "", found, "an exploratory run of a plan", action))


def report_of_completed(rendered: RenderedPlan) -> dict[str, Any] | None:
    """Give the report of a run of which nothing is left to do; None of any other. To resume it
    would give it another head for nothing."""
    from hloop.provenance.resume import decide

    try:
        report = json.loads(RunPaths(rendered.run_dir).report.read_bytes())
        if report["status"] != "completed":
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(report) if all(item.kept for item in decide(rendered)) else None


# What the executor does, before the supervisor starts and Snakemake removes anything


def prepare(rendered: RenderedPlan) -> tuple[list[Decision], dict[str, Any] | None]:
    """End what is left of a run and decide which of its jobs are done.

    Returns:
        The decisions, and what the journal says of them; None instead where the run died
        before it had begun: then it begins now, and nothing of it is there any more.

    Raises:
        HloopError: its journal cannot be read.
        OSError: its journal cannot be written to.
    """
    from hloop.provenance.resume import Decision, decide

    paths = RunPaths(rendered.run_dir)
    end_survivors(paths)
    if not paths.manifest.exists():
        # No job can have been handed over. What there is tells of none.
        for path in (paths.journal, paths.report):
            path.unlink(missing_ok=True)
        return [Decision(name, "it never ran") for name in rendered.jobs], None
    mend_journal(paths.journal)
    read_journal(paths.journal)
    decisions = decide(rendered)
    return decisions, {
        "kept": [
            {"reason": item.reason} | told_by_records(item.attempt, rendered.jobs[item.job_id])
            for item in decisions
            if item.attempt is not None
        ],
        "again": [
            {"job": item.job_id, "reason": item.reason} for item in decisions if not item.kept
        ],
    }


def take_up(
    opening: PlanOpening,
    rendered: RenderedPlan,
    settings: EngineSettings,
    table: DeviceTable,
    grace_seconds: float,
    resumed: Mapping[str, Any],
) -> None:
    """Begin the session; set aside what runs again, and mark what is kept as completed.

    Args:
        opening, settings, table, grace_seconds: as in :func:`hloop.run.beginning.begin`.
        resumed: as :func:`prepare` gives it.

    Raises:
        HloopError: a file that the plan was made from is gone.
        OSError: something cannot be written or moved.
    """
    from hloop.run.beginning import begin

    paths = RunPaths(rendered.run_dir)
    scripts = Scripts(Portable(rendered.run_dir, rendered.repo_root))
    begin(opening, rendered, settings, table, grace_seconds, scripts, resumed)[0].close()
    for entry in resumed["again"]:
        set_aside(rendered, entry["job"])
    for entry in resumed["kept"]:
        marker = f"sha256:{entry['ended']['attempt_status']['sha256']}\n".encode()
        completed = paths.job(entry["job"]).completed
        if not completed.is_file() or completed.read_bytes() != marker:
            files.replace(completed, marker)


def set_aside(rendered: RenderedPlan, job_id: str) -> None:
    """Move an attempt's records, logs and outputs into ``attempts/<n>``, where there are any.

    The status goes first, so that nothing half moved is ever taken for done; and the folder
    gets its name when all is there.
    """
    paths = RunPaths(rendered.run_dir).job(job_id)
    outputs = [Path(item.path) for item in rendered.jobs[job_id].outputs]
    moves = _moves_of_records(paths)
    moves += [
        (path, f"{_OUTPUTS}/{path.relative_to(rendered.run_dir)}")
        for path in outputs
        if os.path.lexists(path)
    ]
    numbers = [int(name) for name in _names(paths.attempts) if name.isdigit()]
    part = paths.attempts / f"{max(numbers, default=0) + 1}{_PART}"
    if not moves and not part.exists():
        return
    for source, name in moves:
        target = part / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(source, target)
    os.rename(part, part.with_suffix(""))


def _moves_of_records(paths: JobPaths) -> list[tuple[Path, str]]:
    names = _names(paths.root)
    names.sort(key=lambda name: (name != paths.status.name, name))
    return [
        # A job may have made a folder of that name here.
        (paths.root / name, f"{name}.other" if name == _OUTPUTS else name)
        for name in names
        if name != paths.attempts.name
    ]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def nodes_to_run(nodes: Sequence[JobNode], kept: Collection[str]) -> tuple[JobNode, ...]:
    """Give the jobs that run again, without their edges to those that are done."""
    return tuple(
        replace(node, depends_on=tuple(name for name in node.depends_on if name not in kept))
        for node in nodes
        if node.job_id not in kept
    )

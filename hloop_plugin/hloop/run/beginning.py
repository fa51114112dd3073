"""How a run begins: its journal and its manifest, before the first job.

Both say what the run was started with; nothing here knows how jobs are run.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hloop import __version__, canonical, files
from hloop.devices.resolve import DeviceTable
from hloop.files import RunPaths
from hloop.plan import identity
from hloop.plan.render import RenderedPlan
from hloop.portable import Portable
from hloop.provenance.code import Scripts
from hloop.provenance.manifest import build_manifest
from hloop.provenance.records import (
    EXPLORATORY,
    FORMAL,
    MANIFEST,
    PLAN,
    Reference,
    read_back,
)
from hloop.run.evidence import RunFacts
from hloop.run.formal import FormalRun
from hloop.run.journal import Instant, Journal
from hloop.run.opening import RunOpening
from hloop.schedule.events import EngineSettings

# The mode of a run whose jobs another executor started: hloop did not decide their order.
EXTERNAL = "external"


def begin(
    opening: RunOpening,
    rendered: RenderedPlan | None,
    settings: EngineSettings,
    table: DeviceTable,
    grace_seconds: float,
    scripts: Scripts,
    resumed: Mapping[str, Any] | None = None,
) -> tuple[Journal, RunFacts]:
    """Start the journal of a run directory that is claimed, and publish its manifest; or go on
    with the journal of a run that is resumed, and publish the manifest of the new session.

    Args:
        rendered: the plan; None where the run has none.
        resumed: of a run that is resumed, ``kept`` and ``again`` as the journal has them.

    Raises:
        HloopError: a file that the plan was made from is gone.
        OSError: the run directory cannot be written to.
    """
    run_dir, repo_root = Path(opening.run_dir), Path(opening.repo_root)
    paths, portable = RunPaths(run_dir), Portable(run_dir, repo_root)
    mode = settings.mode.value if opening.executor == "hloop" else EXTERNAL
    plan = _plan_reference(paths, portable)
    formal = FormalRun.of(paths, portable)
    run_kind = EXPLORATORY if formal is None else FORMAL
    upstream = [plan, None if formal is None else formal.gate]
    # Before the run's clock starts: asking git and reading what is installed takes a while.
    manifest = build_manifest(
        session_id=opening.session_id,
        run_kind=run_kind,
        executor=opening.executor,
        mode=mode,
        settings=settings,
        grace_seconds=round(grace_seconds),
        plan=rendered,
        table=table,
        config_files=[Path(path) for path in opening.config_files],
        snakemake=opening.snakemake,
        environ=os.environ,
        repo_root=repo_root,
        run_dir=run_dir,
        upstream=[reference for reference in upstream if reference is not None],
        scripts=scripts,
    )
    fields = dict(
        **_plan_fields(rendered),
        mode=mode,
        placement=settings.placement.value,
        keep_going=settings.keep_going,
        limits={"cpu": settings.cpu_workers, "io": settings.io_workers},
        devices=[device.to_dict() for device in table.devices],
        devices_source=table.source,
        repo_root=str(repo_root),
        run_dir=str(run_dir),
        host=manifest["host"],
        versions={
            "hloop": __version__,
            "python": platform.python_version(),
            "snakemake": opening.snakemake,
        },
        executor=opening.executor,
        session_id=opening.session_id,
        run_kind=run_kind,
    )
    if resumed is None:
        journal, path = Journal.create(paths.journal, **fields), paths.manifest
    else:
        path = new_session(paths)
        journal = Journal.resume(paths.journal)
    manifest["created"] = journal.moment(Instant.now())
    data = canonical.dumps(manifest)
    files.publish(path, data)
    if resumed is not None:
        start, session = Instant.now(), paths.next_session() - 1
        clock = journal.started_ns
        journal.append(
            "run_resumed", start, monotonic_ns=clock, session=session, **fields, **resumed
        )
    reference = Reference.of_bytes(portable.path(path), MANIFEST, data)
    return journal, RunFacts(manifest, reference, plan, formal)


def new_session(paths: RunPaths) -> Path:
    """Put the report of the last session aside. Gives where the next one's manifest lies."""
    session = paths.next_session()
    paths.resumed.mkdir(exist_ok=True)
    if paths.report.exists():
        os.rename(paths.report, paths.session_report(session - 1))
    return paths.session_manifest(session)


def read_facts(paths: RunPaths, portable: Portable) -> RunFacts | None:
    """Read back what all attempts of a run's last session have in common; None where it died
    before that."""
    session = paths.next_session() - 1
    if session < 1:
        return None
    path = paths.manifest if session == 1 else paths.session_manifest(session)
    manifest, reference = read_back(path, portable.path(path), MANIFEST)
    formal = FormalRun.of(paths, portable)
    return RunFacts(manifest, reference, _plan_reference(paths, portable), formal)


def _plan_reference(paths: RunPaths, portable: Portable) -> Reference | None:
    if not paths.plan.exists():
        return None
    return Reference.of_bytes(portable.path(paths.plan), PLAN, paths.plan.read_bytes())


def _plan_fields(rendered: RenderedPlan | None) -> dict[str, Any]:
    if rendered is None:
        return {}
    plan = rendered.plan
    return {
        "plan_id": plan.plan_id,
        "plan_semantic_hash": identity.plan_semantic_hash(plan),
        "experiment_digest": identity.experiment_digest(plan),
        "placement_digest": identity.placement_digest(plan),
    }

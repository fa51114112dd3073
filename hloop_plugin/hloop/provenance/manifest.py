"""The manifest: what a run starts from, written before its first job.

It names the plan, the configuration, the code, the software, the devices and the machine, by
their digests where they are files. It says nothing of how the run goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hloop.devices.environment import MASK
from hloop.devices.resolve import DeviceTable
from hloop.files import hash_file
from hloop.plan import identity
from hloop.plan.render import RenderedPlan
from hloop.portable import Portable
from hloop.provenance.code import Scripts, git_facts
from hloop.provenance.environment import environment_facts, valid_text
from hloop.provenance.host import host_facts
from hloop.provenance.records import FILE, MANIFEST, Reference
from hloop.schedule.events import EngineSettings


def build_manifest(
    *,
    session_id: str,
    run_kind: str,
    executor: str,
    mode: str,
    settings: EngineSettings,
    grace_seconds: int,
    plan: RenderedPlan | None,
    table: DeviceTable,
    config_files: Sequence[Path],
    snakemake: str | None,
    environ: Mapping[str, str],
    repo_root: Path,
    run_dir: Path,
    upstream: Sequence[Reference],
    scripts: Scripts,
) -> dict[str, Any]:
    """Give the manifest of a run, but for ``created``, the moment of its writing.

    Gathering all this takes a while, and the run's clock starts when it is there.

    Args:
        session_id: what the user calls the session that the run belongs to.
        run_kind: ``interface_sanity_only`` or ``formal``.
        executor: the name of Snakemake's executor.
        mode: the mode of ``settings``, or ``external``.
        settings: what the engine was told.
        grace_seconds: from TERM to KILL.
        plan: None where the run has rules only.
        table: the devices.
        config_files: the files that the plan was made from.
        snakemake: its version.
        environ: the environment that the run inherits.
        repo_root, run_dir: absolute.
        upstream: the plan and, of a formal run, the gate.
        scripts: reads the scripts, and keeps their digests for the jobs' own records.

    Raises:
        FileRefused: a file of the configuration, or a script, is gone, cannot be read or
            changes meanwhile.
    """
    portable = Portable(run_dir, repo_root)
    named = scripts.references(() if plan is None else plan.jobs.values())
    configuration = [
        Reference.of_digest(portable.path(path), FILE, hash_file(path, follow=True))
        for path in config_files
    ]
    visible = environ.get(MASK)
    return {
        "_type": MANIFEST,
        "session_id": session_id,
        "run_kind": run_kind,
        "executor": executor,
        "mode": mode,
        "placement": settings.placement.value,
        "keep_going": settings.keep_going,
        "grace_seconds": grace_seconds,
        "limits": {"cpu": settings.cpu_workers, "io": settings.io_workers},
        "plan": None if plan is None else _plan_facts(plan),
        "upstream": [entry.to_dict() for entry in upstream],
        "config_digests": [entry.to_dict() for entry in configuration],
        "code_digests": {
            "git": git_facts(repo_root, run_dir),
            "scripts": [entry.to_dict() for entry in named],
        },
        "environment": environment_facts(environ, snakemake, portable),
        "host": host_facts(),
        "devices": {
            "visible": None if visible is None else valid_text(visible),
            "source": valid_text(table.source),
            "driver": table.driver,
            "devices": [device.to_dict() for device in table.devices],
        },
        "repo_root": str(repo_root),
        "run_dir": str(run_dir),
    }


def _plan_facts(rendered: RenderedPlan) -> dict[str, str]:
    plan = rendered.plan
    return {
        "plan_id": plan.plan_id,
        "plan_semantic_hash": identity.plan_semantic_hash(plan),
        "experiment_digest": identity.experiment_digest(plan),
        "placement_digest": identity.placement_digest(plan),
    }

"""What the records of jobs that no plan holds need of Snakemake (``--hloop-provenance all``).

It says which files a job reads and makes, as its rule declares them, and decides nothing. It
is imported at every start of Snakemake, so imports stand where they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloop.run.opening import PlanOpening, RunOpening

# What hloop cannot read when a job's processes are gone: streams, what Snakemake makes or
# fetches itself, and what lies elsewhere.
NOT_COVERED = ("pipe", "service", "touch", "nodelocal", "storage_object")


class RuleRecords:
    """Tells of the jobs of one workflow what goes into their records."""

    def __init__(self, workflow: Any):
        self._workflow = workflow

    def opening(
        self, session_id: str | None, snakemake: str, plan: PlanOpening | None
    ) -> RunOpening:
        """Give the run that the records belong to: the plan's, or one of its own.

        Raises:
            HloopError: its run directory cannot be made.
        """
        import uuid

        from hloop.run.opening import RunOpening
        from hloop.run.rulerun import new_run_dir

        root = os.getcwd()
        session_id = (plan and plan.session_id) or session_id or uuid.uuid4().hex
        return RunOpening(
            run_dir=str(new_run_dir(root, session_id)) if plan is None else plan.run_dir,
            repo_root=root if plan is None else plan.repo_root,
            executor="hloop",
            snakemake=snakemake,
            session_id=session_id,
            config_files=tuple(self._files()),
        )

    def _files(self) -> Iterator[str]:
        """The Snakefiles and configuration files that lie on this machine."""
        included = (file.get_path_or_uri(secret_free=True) for file in self._workflow.included)
        paths = [os.path.abspath(path) for path in (*included, *self._workflow.configfiles)]
        yield from (path for path in dict.fromkeys(paths) if os.path.isfile(path))

    def declared(self, job: Any, argv: list[str]) -> dict[str, Any]:
        """Give what a job's record says of it; see :meth:`hloop.run.rulerun.RuleRun.declare`.

        Args:
            argv: its command, as it may be shown.
        """
        from snakemake.io import is_flagged

        left_out: list[str] = []
        inputs, outputs = [], []
        for role, item in _named(job, job.input):
            path = os.path.abspath(item)
            is_folder = os.path.isdir(path)
            if _is_elsewhere(item, path) or not (is_folder or os.path.isfile(path)):
                left_out.append(path)
            else:
                inputs.append({"role": role, "path": path, "directory": is_folder})
        for role, item in _named(job, job.output):
            path = os.path.abspath(item)
            if _is_elsewhere(item, path):
                left_out.append(path)
            else:
                is_folder = is_flagged(item, "directory")
                outputs.append({"role": role, "path": path, "directory": is_folder})
        temporary = [*self._workflow.dag.temp_input(job)]
        temporary += [item for item in job.output if is_flagged(item, "temp")]
        return {
            "rule": job.name,
            "argv": argv,
            "inputs": inputs,
            "outputs": outputs,
            "temporary": sorted({os.path.abspath(item) for item in temporary}),
            "not_covered": sorted(left_out),
        }


def _named(job: Any, items: Any) -> Iterator[tuple[str, Any]]:
    """Each file with the name that its rule gives it, or its number."""
    if job.is_group():
        pairs: Iterable[tuple[str | None, Any]] = ((None, item) for item in sorted(items))
    else:
        pairs = items._allitems()
    number = 0
    for name, found in pairs:
        for item in [found] if isinstance(found, str) else found:
            yield name or str(number), item
            number += 1


def _is_elsewhere(item: Any, path: str) -> bool:
    """Whether hloop cannot read a file, or no record can name it."""
    from snakemake.io import is_flagged

    try:
        path.encode()
    except UnicodeEncodeError:
        return True
    return any(is_flagged(item, flag) for flag in NOT_COVERED)

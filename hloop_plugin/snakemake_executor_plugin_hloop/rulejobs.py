"""Jobs that no plan holds: what hloop must know of Snakemake's jobs to run them.

Everything here answers as Snakemake's own local executor would; nothing here starts anything.
It is imported at every start of Snakemake, so imports stand where they are needed.
"""

from __future__ import annotations

import re
from typing import Any

from snakemake_interface_executor_plugins.settings import DeploymentMethod


class RuleJobs:
    """Answers about the jobs of one workflow."""

    def __init__(self, workflow: Any):
        self._workflow = workflow

    def is_native(self, job: Any) -> bool:
        """Whether a job is a plain shell command, which needs no Snakemake of its own."""
        deployment = self._workflow.deployment_settings.deployment_method
        return (
            not job.is_group()
            and job.is_shell
            and not job.is_shadow
            and job.benchmark is None
            and not (DeploymentMethod.CONDA in deployment and job.conda_env)
            and not (DeploymentMethod.APPTAINER in deployment and job.container_img_url)
            and not (DeploymentMethod.ENV_MODULES in deployment and job.env_modules)
        )

    def shell_command(self, job: Any) -> tuple[list[str], dict[str, str]]:
        """The command and the variables that Snakemake's own ``shell()`` would use."""
        from snakemake.shell import shell

        executable = job.resources.get("shell_exec") or shell.get_executable()
        shell._check_executable(executable)
        parts = (shell._get_process_prefix(executable), job.shellcmd, shell._process_suffix)
        threads = str(job.threads)
        variables = dict.fromkeys(
            (
                "OMP_NUM_THREADS",
                "GOTO_NUM_THREADS",
                "OPENBLAS_NUM_THREADS",
                "MKL_NUM_THREADS",
                "VECLIB_MAXIMUM_THREADS",
                "NUMEXPR_NUM_THREADS",
            ),
            threads,
        )
        if tmpdir := job.resources.get("tmpdir"):
            variables |= dict.fromkeys(("TMPDIR", "TMP", "TEMPDIR", "TEMP"), str(tmpdir))
        return [executable or "/bin/sh", "-c", " ".join(parts).strip()], variables

    def device_count(self, job: Any) -> int:
        """How many devices a job asks for, before Snakemake clamps it to ``--resources gpu``.

        Raises:
            HloopError: ``gpu`` is not a number of devices.
        """
        from hloop.errors import HloopError, Problem

        if job.is_group():
            return sum(self.device_count(member) for member in job)
        asked = job.rule.resources.get("gpu")
        if asked is not None and asked.is_evaluable():
            asked = asked.evaluate(
                job.wildcards,
                input=job.input,
                attempt=job.attempt,
                threads=job.threads,
                rulename=job.rule.name,
                async_run=self._workflow.async_run,
            )
        count = 0 if asked is None else asked.value or 0
        if not isinstance(count, int) or count < 0:
            raise HloopError(
                Problem(
                    "gpu_count",
                    f"rule {job.name}",
                    f"resources gpu={count!r}",
                    "the number of devices that the job needs",
                )
            )
        return count

    def uses_cache(self, job: Any) -> bool:
        """Whether a job's outputs are shared through Snakemake's cache (``--cache``)."""
        asked = self._workflow.workflow_settings.cache
        if asked is None or job.is_group() or not (job.rule.cache and job.rule.cache.output):
            return False
        # A Snakemake of its own is told the rules that --cache names, and sees to them itself.
        return self.is_native(job) or not asked

    def is_fetched(self, job: Any) -> bool:
        """Take a job's outputs from the cache. False where it does not have them."""
        from snakemake.exceptions import CacheMissException

        if not self.uses_cache(job):
            return False
        try:
            self._workflow.async_run(job.rule.cache.fetch(job))
        except CacheMissException:
            return False
        return True

    def store(self, job: Any) -> str:
        """Bring a job's outputs into the cache. Gives what was wrong, or ""."""
        from snakemake.exceptions import WorkflowError

        try:
            self._workflow.async_run(job.rule.cache.store(job))
        except (OSError, WorkflowError) as error:
            return f"its outputs cannot be cached: {error}"
        return ""


def will_be_retried(job: Any) -> bool:
    """Whether Snakemake starts a job again if this attempt fails."""
    return bool(job.restart_times > job.attempt - 1)


def safe(name: str) -> str:
    """Make the name of a rule or a group a part of a file's name."""
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:100]


def snakemake_version() -> str:
    import snakemake

    return str(snakemake.__version__)

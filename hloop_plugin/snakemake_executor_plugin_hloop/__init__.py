"""Snakemake's executor plugin ``hloop``: its settings.

Snakemake imports this at every start, whatever it is started for, and reads the settings'
types itself: it understands ``Optional[X]``, with plain annotations, and little else.
"""

from dataclasses import dataclass, field
from typing import Optional

from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from snakemake_executor_plugin_hloop.executor import Executor

__all__ = ["Executor", "ExecutorSettings", "common_settings"]


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    mode: Optional[str] = field(
        default=None,
        metadata={
            "help": "How jobs are started: sequential (one at a time, in the plan's order), "
            "hloop (each as soon as it is ready and its slot is free; the default), or "
            "bulk-sync (waves with a barrier between them).",
            "choices": ["sequential", "hloop", "bulk-sync"],
        },
    )
    devices: Optional[str] = field(
        default=None,
        metadata={
            "help": "The devices that jobs with resources gpu=N get: auto (those that "
            "CUDA_VISIBLE_DEVICES and NVML show; the default), simulated:N (N devices that do "
            "not exist, and every record says so), or entries as in CUDA_VISIBLE_DEVICES.",
        },
    )
    placement: Optional[str] = field(
        default=None,
        metadata={
            "help": "What a plan's device pin means: pinned (the job waits for its device; the "
            "default) or any (it takes whichever device is free first).",
            "choices": ["pinned", "any"],
        },
    )
    cpu_workers: Optional[int] = field(
        default=None,
        metadata={"help": "How many cpu jobs of a plan run at once, instead of the plan's limit."},
    )
    io_workers: Optional[int] = field(
        default=None,
        metadata={"help": "How many io jobs of a plan run at once, instead of the plan's limit."},
    )
    grace_seconds: Optional[int] = field(
        default=None,
        metadata={
            "help": "How long a job that is stopped has between TERM and KILL, in seconds "
            "(default: 10; 0 means KILL at once).",
        },
    )
    heartbeat_seconds: Optional[int] = field(
        default=None,
        metadata={
            "help": "How often the journal takes down what jobs and devices do, in seconds "
            "(default: 60, and 900 in a formal run; 0 means never).",
        },
    )
    max_log_bytes: Optional[int] = field(
        default=None,
        metadata={
            "help": "How long a log of a plan's job may be, in bytes: of a longer one the middle "
            "is cut out (default: 1073741824).",
        },
    )
    durations: Optional[str] = field(
        default=None,
        metadata={
            "help": "The run directory or report of a former run: of a plan's jobs that are "
            "ready at once, the one with the longest path before it, by the times of that run, "
            "starts first (default: by the plan's budget.expected_seconds).",
        },
    )
    session_id: Optional[str] = field(
        default=None,
        metadata={
            "help": "What the records of a plan's run call the session that it belongs to: up to "
            "64 letters, digits, dots, underscores and dashes (default: made for each run).",
        },
    )
    provenance: Optional[str] = field(
        default=None,
        metadata={
            "help": "Which jobs get records: those of the plan (plan; the default), or those of "
            "all rules (all).",
            "choices": ["plan", "all"],
        },
    )
    # Not Optional: that would make an option with a value of it. And not False by default: an
    # option that is not given would then go before the configuration.
    formal: bool = field(
        default=None,  # type: ignore[assignment]
        metadata={
            "help": "Run the plan formally, by the gate that --hloop-gate names: what did not "
            "pass it is refused.",
        },
    )
    gate: Optional[str] = field(
        default=None,
        metadata={"help": "The fidelity gate of a formal run, as `hloop gate` wrote it."},
    )
    # As formal.
    resume: bool = field(
        default=None,  # type: ignore[assignment]
        metadata={
            "help": "Go on with the run in the run directory: only what its records do not show "
            "to be done runs again. Mode, placement, devices, worker limits and grace period are "
            "as they were where nothing else is said.",
        },
    )
    lease_dir: Optional[str] = field(
        default=None,
        metadata={
            "help": "The folder of the locks that keep other runs off the devices of this one "
            "(default: /tmp/hloop-leases, which all users of a machine share). With it, "
            "simulated devices are leased too.",
        },
    )


common_settings = CommonSettings(
    non_local_exec=False,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=True,
    auto_deploy_default_storage_provider=False,
)

"""What hloop relies on inside Snakemake, held against the installed one; and what Snakemake
relies on in the plugin.

Where one of these fails after an update of Snakemake, its message says what hloop uses the
thing for.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest
import snakemake_executor_plugin_hloop as plugin
from snakemake import api, exceptions, io, parser
from snakemake.executors import local
from snakemake.scheduling import greedy
from snakemake.settings import types as settings
from snakemake.shell import shell
from snakemake_executor_plugin_hloop.executor import Executor
from snakemake_executor_plugin_hloop.rulejobs import RuleJobs
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry
from snakemake_interface_executor_plugins.settings import DeploymentMethod, ExecMode

SNAKEFILE = """
rule single:
    output: "single.txt"
    log: "single.log"
    params: hloop_job=None
    threads: 1
    resources: gpu=lambda wildcards, input, attempt: attempt
    shell: "touch {output}"

rule first:
    output: pipe("stream")
    shell: "echo > {output}"

rule second:
    input: "stream"
    output: "second.txt"
    shell: "cat {input} > {output}"

rule all:
    default_target: True
    input: "single.txt", "second.txt"
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Snakemake's own objects, as the executor got them in a real run."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "Snakefile").write_text(SNAKEFILE)
    found = SimpleNamespace()
    run_jobs = Executor.run_jobs

    def noting(self: Executor, jobs: list[Any]) -> None:
        found.executor, found.workflow = self, self.workflow
        for job in jobs:
            setattr(found, "group" if job.is_group() else job.name, job)
        run_jobs(self, jobs)

    with pytest.MonkeyPatch.context() as patch, api.SnakemakeApi() as snakemake_api:
        patch.setattr(Executor, "run_jobs", noting)
        workflow_api = snakemake_api.workflow(
            resource_settings=settings.ResourceSettings(cores=2),
            workdir=folder,
            snakefile=folder / "Snakefile",
        )
        workflow_api.dag().execute_workflow(
            executor="hloop",
            executor_settings=plugin.ExecutorSettings(devices="simulated:2"),
            scheduling_settings=settings.SchedulingSettings(scheduler="greedy"),
            scheduler_settings=greedy.SchedulerSettings(),
            greedy_scheduler_settings=greedy.SchedulerSettings(),
        )
    found.job = found.single
    found.rule, found.dag, found.scheduler = (
        found.job.rule,
        found.workflow.dag,
        found.workflow.scheduler,
    )
    found.resource = found.rule.resources.get("gpu")
    found.output = found.job.output[0]
    found.snakefile = next(found.workflow.included)
    found.shell, found.exceptions, found.io = shell, exceptions, io
    yield found


@dataclass(frozen=True)
class Need:
    """A thing that hloop uses.

    Attributes:
        owner: which of the real objects has it.
        name: its name; dots lead further in.
        use: what hloop uses it for.
        call: how it is called, as the names of the arguments; None where it is not.
    """

    owner: str
    name: str
    use: str
    call: tuple[str, ...] | None = None


NEEDS = [
    # Jobs
    Need("job", "is_group", "groups get a Snakemake of their own", ()),
    Need("job", "is_norun", "a rule without a body ends at once"),
    Need("job", "is_shell", "shell commands are run without a Snakemake of their own"),
    Need("job", "is_shadow", "a shadowed job gets a Snakemake of its own"),
    Need("job", "benchmark", "a benchmarked job gets a Snakemake of its own"),
    Need("job", "conda_env", "a job in a conda environment gets a Snakemake of its own"),
    Need("job", "container_img_url", "a job in a container gets a Snakemake of its own"),
    Need("job", "env_modules", "a job with modules gets a Snakemake of its own"),
    Need("job", "name", "names a job in messages"),
    Need("job", "jobid", "makes the name of a job unique"),
    Need("job", "attempt", "tells the attempts of a retried job apart"),
    Need("job", "restart_times", "a job that is retried has not failed the run"),
    Need("job", "params.get", "finds the plan's job behind a rule", ("name",)),
    Need("job", "shellcmd", "the command"),
    Need("job", "message", "an error in a message comes up before the job starts"),
    Need("job", "threads", "OMP_NUM_THREADS and the like"),
    Need("job", "resources.get", "tmpdir and shell_exec", ("name",)),
    Need("job", "wildcards", "evaluates the resource gpu"),
    Need("job", "input", "evaluates the resource gpu; the inputs in records"),
    Need("job", "input._allitems", "the names that a rule gives its inputs", ()),
    Need("job", "output", "the outputs in records"),
    Need("job", "prepare", "makes folders and removes old outputs before a job", ()),
    Need("job", "remove_existing_output", "makes room for outputs from the cache", ()),
    Need("output", "prepare", "makes the folder for an output from the cache", ()),
    Need("group", "is_group", "groups get a Snakemake of their own", ()),
    Need("group", "__iter__", "adds up the devices of a group's jobs", ()),
    Need("group", "jobid", "makes the name of a group unique"),
    Need("group", "attempt", "tells the attempts of a retried group apart"),
    Need("group", "restart_times", "a group that is retried has not failed the run"),
    Need("group", "name", "names a group in messages"),
    Need("group", "input", "the inputs in records"),
    Need("group", "output", "the outputs in records"),
    Need("rule", "name", "names a rule in messages"),
    Need("rule", "cache", "whether outputs go into Snakemake's cache"),
    Need("rule", "resources.get", "the devices that a rule asks for, before clamping", ("name",)),
    Need("resource", "is_evaluable", "a request for devices may be a function", ()),
    Need(
        "resource",
        "evaluate",
        "calls a function that says how many devices",
        ("wildcards", "input=", "attempt=", "threads=", "rulename=", "async_run="),
    ),
    # The workflow
    Need("workflow", "globals", "finds the plan that common.smk compiled"),
    Need("workflow", "async_run", "waits for job.prepare and for the cache", ("coroutine",)),
    Need("workflow", "global_resources.get", "refuses --resources gpu=N for plans", ("name",)),
    Need("workflow", "execution_settings.keep_going", "what a failure ends"),
    Need("workflow", "executor_settings", "resuming.py: whether a run is resumed"),
    Need("dag", "rules", "resuming.py: a run that is resumed asks for every job"),
    Need("dag", "forcerules", "resuming.py: a run that is resumed asks for every job"),
    Need("dag", "ignore_incomplete", "resuming.py: hloop decides what is incomplete"),
    Need("workflow", "execution_settings.keep_metadata", "whether params are written down"),
    Need("rule", "params", "whether there are any to be written down"),
    Need("workflow", "execution_settings.debug", "refuses --debug"),
    Need("workflow", "execution_settings.edit_notebook", "refuses --edit-notebook"),
    Need("workflow", "resource_settings.cores", "--cores of a spawned Snakemake"),
    Need("workflow", "deployment_settings.deployment_method", "whether conda and the like is on"),
    Need("workflow", "workflow_settings.cache", "whether --cache is given"),
    Need("workflow", "workdir_init", "where a spawned Snakemake starts"),
    Need("workflow", "dag", "the jobs that will be handed over"),
    Need("workflow", "scheduler", "gives jobs back"),
    Need("workflow", "executor_plugin.name", "report.smk: who runs the plan"),
    Need("workflow", "subprocess_exec", "common.smk: a Snakemake for one job"),
    Need("workflow", "basedir", "common.smk: the default repository root"),
    Need("workflow", "dryrun", "common.smk: a dry run may look at a used run directory"),
    Need("workflow", "touch", "common.smk: so may --touch"),
    Need("workflow", "is_main_process", "common.smk: so may a Snakemake for one job"),
    Need("workflow", "included", "the Snakefiles in the manifest of a run without a plan"),
    Need("workflow", "configfiles", "the configuration in that manifest"),
    Need("snakefile", "get_path_or_uri", "where a Snakefile lies", ("secret_free=",)),
    Need("dag", "temp_input", "the inputs that Snakemake removes", ("job",)),
    Need("io", "is_flagged", "directory(), temp(), pipe() and the like", ("file", "flag")),
    Need("dag", "needrun_jobs", "which jobs of the plan are asked for", ()),
    Need("dag", "bfs", "the jobs of the plan below a failed rule", ("direction", "job")),
    Need("dag", "depending", "the jobs of the plan below a failed rule"),
    Need("scheduler", "error_callback", "gives a job back without printing an error", ("job",)),
    # The base class
    Need("executor", "printjob", "prints a job when it starts", ("job",)),
    Need("executor", "report_job_submission", "tells that a job was taken", ("job_info",)),
    Need("executor", "report_job_success", "tells that a job completed", ("job_info",)),
    Need("executor", "report_job_error", "tells that a job failed", ("job_info", "msg=")),
    Need("executor", "format_job_exec", "the command of a spawned Snakemake", ("job",)),
    Need("executor", "get_envvar_declarations", "what records must not show of it", ()),
    Need("executor", "executor_settings", "the --hloop-… options"),
    Need("executor", "logger.info", "prints what starts where", ("text",)),
    Need("executor", "logger.handlers", "front.py: where it prints may lose its reader"),
    # What a native shell command is made of
    Need("shell", "get_executable", "the shell", ()),
    Need("shell", "_check_executable", "refuses a shell that is not there", ("executable",)),
    Need("shell", "_get_process_prefix", "bash's strict mode, or shell.prefix()", ("executable",)),
    Need("shell", "_process_suffix", "shell.suffix()"),
    Need("exceptions", "WorkflowError", "an error without a traceback"),
    Need("exceptions", "CacheMissException", "outputs that are not in the cache"),
]


def look_up(real: SimpleNamespace, need: Need) -> Any:
    thing = getattr(real, need.owner)
    for name in need.name.split("."):
        assert hasattr(thing, name), (
            f"{need.owner}.{need.name} is gone from Snakemake; hloop uses it for: {need.use}"
        )
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: f"{need.owner}.{need.name}")
def test_snakemake_has_what_hloop_uses(real: SimpleNamespace, need: Need) -> None:
    thing = look_up(real, need)
    if need.call is not None:
        positional = [name for name in need.call if not name.endswith("=")]
        named = {name[:-1]: None for name in need.call if name.endswith("=")}
        try:
            inspect.signature(thing).bind(*positional, **named)
        except TypeError as error:
            pytest.fail(
                f"{need.owner}.{need.name}({', '.join(need.call)}) is called differently now: "
                f"{error}; hloop uses it for: {need.use}"
            )


@pytest.mark.parametrize("name", ["prepare", "remove_existing_output"])
def test_what_hloop_awaits_is_awaitable(real: SimpleNamespace, name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(real.job, name))


@pytest.mark.parametrize("name", ["fetch", "store"])
def test_the_cache_is_awaited_by_job(name: str) -> None:
    from snakemake.caching.local import OutputFileCache

    method = getattr(OutputFileCache, name)
    assert inspect.iscoroutinefunction(method)
    assert list(inspect.signature(method).parameters) == ["self", "job"]


def test_records_know_the_flags_of_files() -> None:
    made = {
        flag: io.is_flagged(getattr(io, flag)("x"), flag)
        for flag in ("temp", "pipe", "service", "touch", "directory")
    }
    assert all(made.values()), made


def test_an_evaluated_resource_has_a_value(real: SimpleNamespace) -> None:
    wanted = real.resource.evaluate(
        real.job.wildcards,
        input=real.job.input,
        attempt=3,
        threads=1,
        rulename="single",
        async_run=real.workflow.async_run,
    )
    assert wanted.value == 3


def test_every_ready_job_that_needs_no_thread_is_handed_over_at_once() -> None:
    rule = parser.Rule.subautomata
    used = {"name", "input", "output", "log", "retries", "threads", "resources", "params", "run"}
    assert used <= rule.keys()


@pytest.mark.parametrize("name", ["onstart", "onsuccess", "onerror", "configfile", "include"])
def test_snakefiles_know_the_sections_of_the_packaged_workflow(name: str) -> None:
    assert name in parser.Python.subautomata


def test_the_variables_of_a_shell_command_are_snakemakes() -> None:
    # They stand as words in the body of shell(); a new one would be missed by native jobs.
    source = inspect.getsource(shell.__new__)
    names = {line.split('"')[1] for line in source.splitlines() if 'envvars["' in line}
    ours = inspect.getsource(RuleJobs.shell_command)
    assert names and all(f'"{name}"' in ours for name in names)


def test_a_spawned_snakemake_is_asked_for_as_the_local_executor_asks() -> None:
    names = ("get_exec_mode", "get_job_exec_prefix", "additional_general_args")
    theirs = SimpleNamespace(workflow=SimpleNamespace(workdir_init="/a b"))
    answers = [
        [
            kind.get_exec_mode(theirs),
            kind.get_job_exec_prefix(theirs, None),
            kind.additional_general_args(theirs),
            kind.get_python_executable(theirs),
            kind.job_specific_local_groupid.fget(theirs),
        ]
        for kind in (Executor, local.Executor)
    ]
    assert answers[0] == answers[1], names


def test_every_abstract_method_is_there() -> None:
    assert Executor.__abstractmethods__ == frozenset()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ExecMode, "SUBPROCESS"),
        (DeploymentMethod, "CONDA"),
        (DeploymentMethod, "APPTAINER"),
        (DeploymentMethod, "ENV_MODULES"),
    ],
)
def test_the_constants_are_there(kind: type, name: str) -> None:
    assert hasattr(kind, name)


def test_a_submission_carries_the_name_of_the_job() -> None:
    fields = {field.name for field in dataclasses.fields(SubmittedJobInfo)}
    assert {"job", "external_jobid"} <= fields


@pytest.mark.parametrize("name", ["run_jobs", "run_job", "handle_job_error", "shutdown", "cancel"])
def test_what_snakemake_calls_is_called_as_before(name: str) -> None:
    base, ours = getattr(RealExecutor, name), getattr(Executor, name)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(base).parameters)


# What Snakemake relies on


@pytest.fixture
def registered() -> Any:
    return ExecutorPluginRegistry().get_plugin("hloop")


def test_snakemake_finds_the_plugin() -> None:
    assert "hloop" in ExecutorPluginRegistry().plugins


def test_the_common_settings_are_those_of_a_local_executor(registered: Any) -> None:
    assert registered.common_settings == local.common_settings


SETTINGS = dataclasses.fields(plugin.ExecutorSettings)


@pytest.mark.parametrize("field", SETTINGS, ids=lambda field: field.name)
def test_a_setting_is_optional_and_of_a_type_that_snakemake_reads(field: Any) -> None:
    assert field.type in (Optional[str], Optional[int], bool)  # noqa: UP045
    assert field.default is None


@pytest.mark.parametrize("field", SETTINGS, ids=lambda field: field.name)
def test_a_setting_is_explained_in_a_sentence(field: Any) -> None:
    assert len(field.metadata["help"]) > 40 and field.metadata["help"].endswith(".")


@pytest.mark.parametrize("field", SETTINGS, ids=lambda field: field.name)
def test_a_setting_is_one_of_the_runs(field: Any) -> None:
    from hloop.run.settings import RunSettings

    assert field.name in {run_field.name for run_field in dataclasses.fields(RunSettings)}


@pytest.mark.parametrize("name", ["mode", "placement", "provenance"])
def test_the_choices_are_those_of_the_run(name: str) -> None:
    from hloop.run.settings import Provenance
    from hloop.schedule.events import Mode, Placement

    kind = {"mode": Mode, "placement": Placement, "provenance": Provenance}[name]
    (field,) = (field for field in SETTINGS if field.name == name)
    assert field.metadata["choices"] == [item.value for item in kind]


def parse(registered: Any, *argv: str) -> Any:
    arguments = argparse.ArgumentParser()
    ExecutorPluginRegistry().register_cli_args(arguments)
    return registered.get_settings(arguments.parse_args(argv))


def test_settings_are_read_from_the_command_line(registered: Any) -> None:
    found = parse(
        registered,
        *("--hloop-mode", "bulk-sync", "--hloop-devices", "simulated:2"),
        *("--hloop-placement", "any", "--hloop-cpu-workers", "3"),
        *("--hloop-io-workers", "1", "--hloop-grace-seconds", "0"),
        *("--hloop-heartbeat-seconds", "0", "--hloop-max-log-bytes", "65536"),
        *("--hloop-durations", "runs/first", "--hloop-session-id", "s-1"),
        *("--hloop-provenance", "all", "--hloop-formal", "--hloop-gate", "gate.json"),
        *("--hloop-resume", "--hloop-lease-dir", "leases"),
    )
    values = ("bulk-sync", "simulated:2", "any", 3, 1, 0, 0, 65536, "runs/first", "s-1", "all")
    values += (True, "gate.json", True, "leases")
    assert dataclasses.astuple(found) == values


def test_what_is_not_given_is_none(registered: Any) -> None:
    assert set(dataclasses.astuple(parse(registered))) == {None}


def test_a_mode_that_does_not_exist_is_refused_on_the_command_line(
    registered: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(registered, "--hloop-mode", "fast")
    assert "sequential" in capsys.readouterr().err


def run_python(script: str) -> str:
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


IMPORTED = """
import sys
import snakemake.cli
before = set(sys.modules)
import snakemake_executor_plugin_hloop
print(*sorted(set(sys.modules) - before))
"""


def test_the_plugin_brings_no_module_but_its_own_into_snakemake() -> None:
    # Snakemake imports every plugin at each start, so nothing of hloop may come with it.
    names = run_python(IMPORTED).split()
    assert [name for name in names if not name.startswith("snakemake_executor_plugin_hloop")] == []


HEAVY = ["pandas", "jsonschema", "pynvml", "rich", "typer", "altair", "hloop.run", "hloop.plan"]


def test_the_plugin_alone_imports_nothing_heavy() -> None:
    script = "import sys, snakemake_executor_plugin_hloop; print(*sys.modules)"
    loaded = set(run_python(script).split())
    assert loaded.isdisjoint(HEAVY)


def test_the_plugin_can_be_imported_without_a_driver() -> None:
    script = "import sys; sys.modules['pynvml'] = None; import snakemake_executor_plugin_hloop"
    run_python(script)


def test_nothing_below_the_plugin_imports_snakemake() -> None:
    import hloop

    folder = Path(hloop.__file__).parent
    modules = [
        ".".join(("hloop", *path.relative_to(folder).with_suffix("").parts))
        for path in sorted(folder.rglob("*.py"))
        if not path.name.startswith("__") and "_data" not in path.parts
    ]
    script = f"import sys\nfor name in {modules!r}: __import__(name)\nprint(*sys.modules)"
    assert [name for name in run_python(script).split() if name.startswith("snakemake")] == []

"""One plan, three modes, through real Snakemake processes."""

from __future__ import annotations

import json

import pytest
from hloop.files import data_dir
from hloop.plan.load import load_plan
from hloop.plan.order import topological_order

MODES = ("sequential", "hloop", "bulk-sync")


def write_diamond(workspace, make_job):
    """Two gpu jobs on two devices, a cpu job for each, and an io job that gathers."""
    jobs = []
    for index in (0, 1):
        out = "{run_dir}/" + f"out_{index}"
        jobs.append(
            make_job(
                f"roll_{index}",
                f"sleep 0.2; echo $MIMICX_DEVICE_ID $HLOOP_DEVICE_ID > {out}",
                "gpu",
                cuda_visible_devices=str(index),
                candidate_id=f"c{index}",
                outputs=[{"role": "device", "path": out}],
            )
        )
        jobs.append(
            make_job(
                f"look_{index}",
                f"cat {out}",
                candidate_id=f"c{index}",
                depends_on=[f"roll_{index}"],
                inputs=[{"role": "device", "path": out}],
            )
        )
    selection = "{run_dir}/selection.json"
    jobs.append(
        make_job(
            "gather",
            f"echo '{{{{\"selected\": 1}}}}' > {selection}",
            "io",
            depends_on=["look_0", "look_1"],
            outputs=[{"role": "selection", "path": selection}],
        )
    )
    workspace.plan(*jobs, selection_artifact=selection)


@pytest.fixture
def diamond(workspace, make_job):
    write_diamond(workspace, make_job)
    return workspace


@pytest.fixture(scope="module")
def finished(shared_workspace, make_job):
    """The diamond's run in each mode, under the mode's name; to be looked at only."""
    write_diamond(shared_workspace, make_job)
    for mode in MODES:
        result = shared_workspace.hloop_run("--mode", mode, run=mode)
        assert result.returncode == 0, result.stdout
    return shared_workspace


@pytest.mark.parametrize("mode", MODES)
def test_a_plan_completes_in_each_mode(finished, mode):
    report = finished.report(mode)
    assert (report["status"], report["mode"]) == ("completed", mode)


@pytest.mark.parametrize("mode", MODES)
def test_each_job_is_told_its_pinned_device(finished, mode):
    told = [(finished.root / mode / f"out_{index}").read_text() for index in (0, 1)]
    assert told == ["0 0\n", "1 1\n"]


def test_the_inherited_mask_is_passed_on_untouched(workspace, make_job):
    workspace.plan(make_job("look", "echo $CUDA_VISIBLE_DEVICES", "gpu", cuda_visible_devices="1"))
    argv = workspace.hloop_argv()
    workspace.run(*argv, env={"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"})
    assert (workspace.root / "run/jobs/look/stdout.log").read_text() == "GPU-a,GPU-b\n"


def test_a_cpu_job_is_told_no_device(workspace, make_job):
    workspace.plan(make_job("look", "echo ${MIMICX_DEVICE_ID-none} ${HLOOP_DEVICE_ID-none}"))
    workspace.run(*workspace.hloop_argv(), env={"MIMICX_DEVICE_ID": "5", "HLOOP_DEVICE_ID": "5"})
    assert (workspace.root / "run/jobs/look/stdout.log").read_text() == "none none\n"


def test_sequential_keeps_the_topological_order_and_overlaps_nothing(finished):
    jobs = finished.report("sequential")["jobs"]
    jobs = sorted(jobs, key=lambda job: job["start_offset_ns"])
    expected = topological_order(load_plan(finished.root / "plan.json"))
    assert [job["job_id"] for job in jobs] == expected
    assert all(
        a["end_offset_ns"] <= b["start_offset_ns"] for a, b in zip(jobs, jobs[1:], strict=False)
    )


def test_hloop_overlaps_the_two_devices(finished):
    assert "roll_1" in finished.jobs("hloop")["roll_0"]["concurrent_with"]


def test_the_published_waves(workspace, make_job):
    def gpu(job_id, device, **fields):
        return make_job(job_id, "sleep 0.1", "gpu", cuda_visible_devices=device, **fields)

    workspace.plan(
        gpu("gpu_a0", "3"),
        gpu("gpu_a1", "3"),
        gpu("gpu_b0", "4"),
        gpu("gpu_b1", "4", depends_on=["gpu_b0"]),
    )
    result = workspace.hloop_run("--mode", "bulk-sync", "--devices", "simulated:5")
    assert result.returncode == 0, result.stdout
    assert workspace.report()["waves"] == [["gpu_a0", "gpu_b0"], ["gpu_a1", "gpu_b1"]]


def test_placement_any_uses_the_free_device(workspace, make_job):
    workspace.plan(*(make_job(f"g{i}", "sleep 0.4", "gpu") for i in range(2)))
    workspace.hloop_run("--placement", "any")
    devices = {job["device"]["logical"] for job in workspace.report()["jobs"]}
    assert devices == {0, 1}


def test_worker_limits_can_be_overridden(workspace, make_job):
    workspace.plan(*(make_job(f"c{i}", "sleep 0.2") for i in range(3)), max_cpu_workers=3)
    workspace.hloop_run("--cpu-workers", "1")
    assert all(job["concurrent_with"] == [] for job in workspace.report()["jobs"])


def test_the_limit_of_io_workers_can_be_overridden(workspace, make_job):
    workspace.plan(*(make_job(f"io{i}", "sleep 0.2", "io") for i in range(3)), max_io_workers=3)
    workspace.hloop_run("--io-workers", "1")
    assert all(job["concurrent_with"] == [] for job in workspace.report()["jobs"])


def test_the_report_says_that_devices_were_simulated(finished):
    assert all(device["simulated"] for device in finished.report("hloop")["devices"])


def test_the_selection_is_in_the_report(finished):
    assert finished.report("hloop")["selection"]["value"] == {"selected": 1}


@pytest.mark.parametrize("pair", [("sequential", "bulk-sync"), ("bulk-sync", "hloop")])
def test_two_modes_compare_as_the_same_experiment(finished, pair):
    result = finished.run(
        "hloop", "compare", "--baseline", pair[0], "--candidate", pair[1], "--json"
    )
    assert result.returncode == 0, result.stdout
    assert json.loads(result.stdout)["passed"] is True


def test_no_absolute_path_of_the_run_is_in_the_report(finished):
    assert str(finished.root) not in (finished.root / "hloop/hloop_run.json").read_text()


def test_snakemake_itself_runs_the_packaged_workflow(diamond):
    result = diamond.run(*diamond.snakemake_argv())
    assert result.returncode == 0, result.stdout
    assert diamond.report()["status"] == "completed"


@pytest.fixture(scope="module")
def elsewhere(finished):
    """The diamond's run under Snakemake's own executor, called elsewhere."""
    argv = finished.snakemake_argv("--executor", "local", run="elsewhere")
    result = finished.run(*argv, "devices=simulated:2")
    assert result.returncode == 0, result.stdout
    return finished


def test_another_executor_is_said_to_have_decided_the_order(elsewhere):
    report = elsewhere.report("elsewhere")
    assert (report["status"], report["mode"]) == ("completed", "external")


def test_attempts_under_another_executor_leave_the_same_records(elsewhere):
    names = [
        sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        for root in (elsewhere.root / "hloop", elsewhere.root / "elsewhere")
    ]
    assert names[0] == names[1]


def test_a_dry_run_writes_nothing(diamond):
    result = diamond.run(*diamond.snakemake_argv("-n"))
    assert result.returncode == 0, result.stdout
    assert not (diamond.root / "run").exists()


def test_a_used_run_directory_is_refused_by_hloop_run(finished):
    before = (finished.root / "hloop/hloop_run.json").read_bytes()
    result = finished.hloop_run(run="hloop")
    assert result.returncode == 2
    assert "already used" in result.stdout and "Choose another run directory" in result.stdout
    assert (finished.root / "hloop/hloop_run.json").read_bytes() == before


def test_a_used_run_directory_is_refused_by_snakemake(finished):
    result = finished.run(*finished.snakemake_argv(run="hloop"))
    assert result.returncode == 1
    assert "already used" in result.stdout and "Choose another run directory" in result.stdout


def test_a_missing_device_is_named_before_the_first_job(diamond):
    result = diamond.hloop_run("--devices", "simulated:1")
    assert result.returncode == 2
    assert "needs device 1, but 1 device is visible" in result.stdout
    assert not (diamond.root / "run").exists()


def test_a_missing_device_stops_snakemake_before_the_first_job(diamond):
    result = diamond.run(*diamond.snakemake_argv("--hloop-devices", "simulated:1"))
    assert result.returncode == 1
    assert "needs device 1, but 1 device is visible" in result.stdout
    assert not (diamond.root / "run").exists()


def test_of_jobs_that_are_ready_together_the_longest_path_starts_first(workspace, make_job):
    seconds = {"short": 1, "longest": 3, "middle": 2}
    workspace.plan(
        *(make_job(n, "true", "gpu", budget={"expected_seconds": s}) for n, s in seconds.items())
    )
    workspace.hloop_run()
    jobs = sorted(workspace.report()["jobs"], key=lambda job: job["start_offset_ns"])
    assert [job["job_id"] for job in jobs] == ["longest", "middle", "short"]


def test_a_limit_that_would_hold_back_a_wave_is_refused(diamond):
    argv = diamond.snakemake_argv("--hloop-mode", "bulk-sync", "--resources", "gpu=1")
    result = diamond.run(*argv)
    assert result.returncode == 1
    assert "--resources: it limits gpu" in result.stdout
    assert not (diamond.root / "run").exists()


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_rule_outside_the_plan_ends_what_waits_for_it(workspace, make_job, mode):
    sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    made = {"role": "i", "path": "{repo_root}/made", "sha256": sha256}
    workspace.plan(make_job("needs", inputs=[made]), make_job("own"), make_job("zzz"))
    snakefile = data_dir("workflow") / "Snakefile"
    workspace.write(
        "Snakefile",
        f"include: {str(snakefile)!r}\n"
        "rule make:\n    output: hloop_run.rendered.repo_root / 'made'\n"
        "    shell: 'sleep 1; exit 1'\n",
    )
    argv = workspace.snakemake_argv("--keep-going", "--hloop-mode", mode)
    argv[argv.index(snakefile)] = "Snakefile"
    argv.insert(1, "all")
    result = workspace.run(*argv)
    assert result.returncode == 1, result.stdout
    statuses = {job_id: job["status"] for job_id, job in workspace.jobs().items()}
    assert statuses == {"needs": "skipped", "own": "completed", "zzz": "completed"}


def test_the_packaged_workflow_is_refused_as_a_module(workspace, make_job):
    workspace.plan(make_job("a"))
    snakefile = data_dir("workflow") / "Snakefile"
    workspace.write(
        "Snakefile",
        f"module plan:\n    snakefile: {str(snakefile)!r}\n    config: config\n"
        "use rule * from plan\n",
    )
    argv = workspace.snakemake_argv()
    argv[argv.index(snakefile)] = "Snakefile"
    result = workspace.run(*argv)
    assert result.returncode == 1
    assert "cannot be a module of another" in result.stdout
    assert not (workspace.root / "run").exists()


def test_times_of_a_former_run_go_before_what_the_plan_expects(workspace, make_job):
    seconds = {"quick": 0.1, "slow": 0.6}
    expected = {"quick": 9, "slow": 1}
    workspace.plan(
        *(
            make_job(name, f"sleep {s}", "gpu", budget={"expected_seconds": expected[name]})
            for name, s in seconds.items()
        )
    )
    workspace.hloop_run(run="first")
    workspace.hloop_run("--durations", "first", run="second")
    orders = [
        [job["job_id"] for job in sorted(jobs, key=lambda job: job["start_offset_ns"])]
        for jobs in (workspace.report(run)["jobs"] for run in ("first", "second"))
    ]
    assert orders == [["quick", "slow"], ["slow", "quick"]]


def test_a_former_run_that_is_none_is_refused_before_the_run(diamond):
    result = diamond.hloop_run("--durations", "nowhere")
    assert result.returncode == 2
    assert "a run directory, or its hloop_run.json" in result.stdout
    assert not (diamond.root / "run").exists()

"""The rules of lint beyond what the bad plans in tests/data/plans show."""

from dataclasses import replace
from pathlib import Path

from hloop.errors import Problem
from hloop.plan.lint import lint
from hloop.plan.model import Artifact, Job, Plan, ResourceClass

SHA256 = "0" * 64


def job(
    job_id: str, *needs: str, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = ()
) -> Job:
    return Job(
        job_id=job_id,
        resource=ResourceClass.CPU,
        command=("true",),
        depends_on=needs,
        inputs=tuple(Artifact("r", path) for path in inputs),
        outputs=tuple(Artifact("r", path) for path in outputs),
    )


def check(folder: Path, *jobs: Job, run_dir: str = "run") -> list[Problem]:
    return lint(Plan("p", jobs), folder, folder / run_dir)


def codes(folder: Path, *jobs: Job, run_dir: str = "run") -> list[str]:
    return [problem.code for problem in check(folder, *jobs, run_dir=run_dir)]


def test_a_link_that_leads_out_of_the_run_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link").symlink_to(tmp_path)
    assert codes(tmp_path, job("a", outputs=("{run_dir}/link/x",))) == ["output_outside_run_dir"]


def test_a_link_that_leads_into_the_run_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert codes(tmp_path, job("a", outputs=("link/x",))) == []


def test_two_names_of_one_output_are_one_path(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    jobs = job("a", outputs=("{run_dir}/x",)), job("b", outputs=("link/x",))
    assert codes(tmp_path, *jobs) == ["duplicate_output"]


def test_the_run_directory_itself_may_lie_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert codes(tmp_path, job("a", outputs=("{run_dir}/x",)), run_dir="link/run") == []


def test_an_input_behind_a_link_out_of_the_run_directory_is_external(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link").symlink_to(tmp_path)
    assert codes(tmp_path, job("a", inputs=("{run_dir}/link/x",))) == ["input_without_digest"]


def test_a_folder_whose_name_only_begins_like_the_run_directory_is_outside(tmp_path: Path) -> None:
    assert codes(tmp_path, job("a", outputs=("{run_dir}b/x",))) == ["output_outside_run_dir"]


def test_a_producer_need_not_be_a_direct_dependency(tmp_path: Path) -> None:
    jobs = (
        job("a", outputs=("{run_dir}/x",)),
        job("b", "a"),
        job("c", "b", inputs=("{run_dir}/x",)),
    )
    assert codes(tmp_path, *jobs) == []


def test_an_input_inside_an_output_is_made_by_no_job(tmp_path: Path) -> None:
    jobs = job("a", outputs=("{run_dir}/x",)), job("b", "a", inputs=("{run_dir}/x/y",))
    assert codes(tmp_path, *jobs) == ["input_without_producer"]


def test_who_reads_in_a_folder_that_a_job_makes_is_told_its_name(tmp_path: Path) -> None:
    jobs = job("a", outputs=("{run_dir}/x",)), job("b", "a", inputs=("{run_dir}/x/y",))
    [problem] = check(tmp_path, *jobs)
    assert problem.action == f"Name the whole output of 'a', {tmp_path}/run/x"


def test_two_jobs_may_have_a_checkpoint_of_the_same_name(tmp_path: Path) -> None:
    jobs = [
        replace(job(name), outputs=(Artifact("r", f"{{run_dir}}/{name}", checkpoint="policy"),))
        for name in "ab"
    ]
    assert codes(tmp_path, *jobs) == []


def test_a_cycle_does_not_hide_a_missing_dependency_elsewhere(tmp_path: Path) -> None:
    jobs = (
        job("a", "b"),
        job("b", "a"),
        job("c", outputs=("{run_dir}/x",)),
        job("d", inputs=("{run_dir}/x",)),
    )
    assert codes(tmp_path, *jobs) == ["dependency_cycle", "producer_not_ancestor"]


def test_jobs_on_a_cycle_are_not_blamed_for_their_inputs(tmp_path: Path) -> None:
    jobs = (
        job("a", "b", inputs=("{run_dir}/c",)),
        job("b", "a", outputs=("{run_dir}/b",)),
        job("c", outputs=("{run_dir}/c",)),
        job("d", inputs=("{run_dir}/b",)),
    )
    assert codes(tmp_path, *jobs) == ["dependency_cycle"]


def test_a_job_that_reads_its_own_output_is_not_told_to_depend_on_itself(tmp_path: Path) -> None:
    [problem] = check(tmp_path, job("a", inputs=("{run_dir}/x",), outputs=("{run_dir}/x",)))
    assert problem.action == "Remove this input"


def test_the_longest_job_id_that_is_allowed(tmp_path: Path) -> None:
    assert codes(tmp_path, job("é" * 100)) == []


def test_ordinary_job_ids_are_safe(tmp_path: Path) -> None:
    jobs = [job(job_id) for job_id in ("a", "A1", "x.y", "x-y", "_x", "a b", "a..b", "é", "x{y}")]
    assert codes(tmp_path, *jobs) == []


def test_a_name_of_hloops_own_is_free_below_the_top(tmp_path: Path) -> None:
    outputs = ("{run_dir}/out/plan.json", "{run_dir}/jobs.txt")
    assert codes(tmp_path, job("a", outputs=outputs)) == []


def test_near_misses_do_not_make_paths_look_wrong(tmp_path: Path) -> None:
    jobs = job("a", outputs=("{runs_dir}/x",)), job("b", "a", inputs=("{run_dir}/x",))
    assert codes(tmp_path, *jobs) == ["template_near_miss"]


def test_every_problem_of_every_job_is_told(tmp_path: Path) -> None:
    jobs = [job(f"j{number}", "nobody", outputs=("x",)) for number in range(3)]
    assert sorted(codes(tmp_path, *jobs)) == [
        *["duplicate_output"] * 2,
        *["output_outside_run_dir"] * 3,
        *["unknown_dependency"] * 3,
    ]


def test_a_problem_names_place_job_and_what_to_do(tmp_path: Path) -> None:
    [problem] = check(tmp_path, job("rollout"), job("diagnose", "rolout"))
    assert str(problem) == (
        "jobs[1].depends_on[0]: job 'diagnose': there is no job 'rolout'; "
        "expected the id of a job of this plan. Did you mean 'rollout'?"
    )


def test_limits_of_a_plan_that_was_made_in_code_are_checked(tmp_path: Path) -> None:
    plan = Plan("p", (job("a"),), max_cpu_workers=0, max_io_workers=-1)
    assert [problem.where for problem in lint(plan, tmp_path, tmp_path / "run")] == [
        "max_cpu_workers",
        "max_io_workers",
    ]


def test_a_device_of_a_plan_that_was_made_in_code_is_checked(tmp_path: Path) -> None:
    gpu = Job("a", ResourceClass.GPU, ("true",), cuda_visible_devices="0\n")
    assert codes(tmp_path, gpu) == ["device_not_one_index"]

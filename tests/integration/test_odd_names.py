"""Paths and job ids that mean something to Snakemake or to a shell."""

from __future__ import annotations

import sys

import pytest

PATHS = [
    "a{x}b",
    "{{x}}",
    "{y,.+}/z",
    "<results>",
    "a<nothing>b",
    "a\nb",
    "'a' \"b\"",
    "a,b",
    "100%s%20",
    "ü—日本",
    "~/x",
    " a b ",
    "*?[a]",
    "$HOME`id`",
    "a\\b",
    "#x;y&z|",
    "a\tb",
]
IDS = ["all", "a b", "a'b\"", "a:b", "#x", "a;b", "a\\b", "$(id)", "ü", "~", "*", "a%s"]


@pytest.mark.parametrize("executor", ["hloop", "local"])
def test_artifacts_may_have_any_name(workspace, make_job, executor):
    made = [
        {"role": str(index), "path": f"{{run_dir}}/{path}"} for index, path in enumerate(PATHS)
    ]
    script = (
        "import pathlib, sys\n"
        "for path in sys.argv[1:]:\n"
        "    pathlib.Path(path).write_text('made')\n"
    )
    paths = [artifact["path"] for artifact in made]
    workspace.plan(
        make_job("make", command=[sys.executable, "-c", script, *paths], outputs=made),
        make_job("read", command=["cat", *paths], inputs=made, depends_on=["make"]),
    )
    result = workspace.run(*workspace.snakemake_argv("--executor", executor))
    assert result.returncode == 0, result.stdout
    assert (workspace.root / "run/jobs/read/stdout.log").read_text() == "made" * len(PATHS)


def test_jobs_may_have_any_id_that_names_a_folder(workspace, make_job):
    workspace.plan(*(make_job(job_id) for job_id in IDS))
    result = workspace.hloop_run()
    assert result.returncode == 0, result.stdout
    assert set(workspace.jobs()) == set(IDS)


def test_another_executor_takes_any_id_too(workspace, make_job):
    workspace.plan(make_job("all"), make_job("$(touch injected)"), make_job("a'b\";#"))
    result = workspace.run(*workspace.snakemake_argv("--executor", "local"))
    assert result.returncode == 0, result.stdout
    assert not (workspace.root / "injected").exists()


def test_a_run_directory_that_snakemake_takes_for_a_pattern_is_refused(workspace, make_job):
    workspace.plan(make_job("a"))
    result = workspace.hloop_run(run="run{x}")
    assert result.returncode == 2
    assert "holds a brace" in result.stdout
    assert not (workspace.root / "run{x}").exists()


def test_rules_and_wildcards_with_odd_characters_get_their_devices(workspace):
    names = ["a b", "ü", "it's", "x;y", "%s", "a,b"]
    workspace.write(
        "Snakefile",
        f"rule all:\n    input: [f'out/{{n}}.txt' for n in {names!r}]\n"
        "rule ünicode:\n    output: 'out/{name}.txt'\n    resources: gpu=1\n"
        "    shell: 'echo $CUDA_VISIBLE_DEVICES > {output:q}'\n",
    )
    result = workspace.snakemake("--hloop-devices", "simulated:2")
    assert result.returncode == 0, result.stdout
    assert {(workspace.root / f"out/{name}.txt").read_text() for name in names} <= {"0\n", "1\n"}

"""Workflows that know nothing of plans: hloop as a good executor for any of them."""

from __future__ import annotations

import pytest

DEVICES = ("--hloop-devices", "simulated:2")

GPU_RULES = """
rule all:
    input: expand("out/{i}.txt", i=range(8))

rule train:
    output: "out/{i}.txt"
    resources: gpu=1
    shell:
        "date +%s.%N > {output}; echo $CUDA_VISIBLE_DEVICES $HLOOP_DEVICE_ID >> {output};"
        "sleep 0.1; date +%s.%N >> {output}"
"""


def intervals(workspace) -> dict[str, list[tuple[float, float]]]:
    """Device to the intervals in which jobs ran on it."""
    found: dict[str, list[tuple[float, float]]] = {}
    for path in sorted(workspace.root.glob("out/*.txt")):
        start, device, end = path.read_text().splitlines()
        found.setdefault(device, []).append((float(start), float(end)))
    return found


def test_gpu_jobs_are_told_one_device_each(workspace):
    workspace.write("Snakefile", GPU_RULES)
    assert workspace.snakemake(*DEVICES).returncode == 0
    assert set(intervals(workspace)) == {"0 0", "1 1"}


def test_no_two_gpu_jobs_share_a_device_at_one_time(workspace):
    workspace.write("Snakefile", GPU_RULES)
    workspace.snakemake(*DEVICES)
    for device in intervals(workspace).values():
        ends = [0.0, *(end for _, end in sorted(device))]
        assert all(start >= end for (start, _), end in zip(sorted(device), ends, strict=False))


def test_two_devices_come_in_inherited_order(workspace):
    workspace.write(
        "Snakefile",
        "rule both:\n    output: 'o'\n    resources: gpu=2\n"
        "    shell: 'echo $CUDA_VISIBLE_DEVICES > {output}'\n",
    )
    workspace.snakemake("--hloop-devices", "simulated:3")
    assert (workspace.root / "o").read_text() == "0,1\n"


def test_a_job_without_gpu_inherits_the_mask(workspace):
    workspace.write(
        "Snakefile",
        "rule one:\n    output: 'o'\n    shell: 'echo $CUDA_VISIBLE_DEVICES > {output}'\n",
    )
    workspace.snakemake(*DEVICES, env={"CUDA_VISIBLE_DEVICES": "7,5"})
    assert (workspace.root / "o").read_text() == "7,5\n"


def test_more_devices_than_there_are_is_an_error_not_a_clamp(workspace):
    workspace.write(
        "Snakefile",
        "rule five:\n    output: 'o'\n    resources: gpu=5\n    shell: 'touch {output}'\n",
    )
    result = workspace.snakemake(*DEVICES, "--resources", "gpu=2")
    assert result.returncode != 0
    assert "rule five asks for gpu=5, but 2 devices are visible" in result.stdout
    assert not (workspace.root / "o").exists()


def test_a_function_that_asks_for_too_many_devices_is_found_too(workspace):
    workspace.write(
        "Snakefile",
        "rule five:\n    output: 'o'\n    resources: gpu=lambda wildcards, attempt: 4 + attempt\n"
        "    shell: 'touch {output}'\n",
    )
    result = workspace.snakemake(*DEVICES, "--resources", "gpu=2")
    assert "asks for gpu=5" in result.stdout


SHELL_SEMANTICS = """
rule all:
    input: "pipefail", "threads", "log.txt"

rule pipefail:
    output: "pipefail"
    shell: "(false | true) && exit 3 || echo strict > {output}"

rule threads:
    output: "threads"
    threads: 2
    log: "log.txt"
    shell: "echo $OMP_NUM_THREADS > {output}; echo {rule} {threads} > {log}"
"""


def test_shell_rules_have_bash_strict_mode_and_thread_variables(workspace):
    workspace.write("Snakefile", SHELL_SEMANTICS)
    result = workspace.snakemake()
    assert result.returncode == 0, result.stdout
    found = [(workspace.root / name).read_text() for name in ("pipefail", "threads", "log.txt")]
    assert found == ["strict\n", "2\n", "threads 2\n"]


def test_shell_prefix_and_environment_of_the_snakefile_reach_the_job(workspace):
    workspace.write(
        "Snakefile",
        "import os\nos.environ['FROM_SNAKEFILE'] = 'seen'\nshell.prefix('PREFIXED=yes; ')\n"
        "rule one:\n    output: 'o'\n    shell: 'echo $PREFIXED $FROM_SNAKEFILE > {output}'\n",
    )
    assert workspace.snakemake().returncode == 0
    assert (workspace.root / "o").read_text() == "yes seen\n"


def test_a_command_longer_than_the_kernel_takes_still_runs(workspace):
    workspace.write(
        "Snakefile",
        "rule long:\n    output: 'o'\n    params: x='a' * 200000\n"
        "    shell: 'true {params.x}; touch {output}'\n",
    )
    result = workspace.snakemake()
    assert result.returncode == 0, result.stdout


MANY_KINDS = """
localrules: local

rule all:
    input: "script", "run", "local", "final", "protected"

rule script:
    output: "script"
    resources: gpu=1
    script: "a_script.py"

rule run:
    output: "run"
    resources: gpu=1
    run:
        import os
        with open(output[0], "w") as file:
            file.write(os.environ["CUDA_VISIBLE_DEVICES"])

rule local:
    output: "local"
    shell: "touch {output}"

checkpoint scatter:
    output: directory("parts")
    shell: "mkdir {output}; touch {output}/a {output}/b"

rule part:
    input: "parts/{name}"
    output: temp("done/{name}")
    group: "parts"
    shell: "touch {output}"

def parts(wildcards):
    checkpoints.scatter.get()
    return expand("done/{name}", name=["a", "b"])

rule final:
    input: parts
    output: "final"
    shell: "echo {input} > {output}"

rule protected:
    output: protected("protected")
    shell: "touch {output}"
"""


def write_many_kinds(workspace):
    workspace.write("Snakefile", MANY_KINDS)
    workspace.write(
        "a_script.py",
        "import os\nopen(snakemake.output[0], 'w').write(os.environ['CUDA_VISIBLE_DEVICES'])\n",
    )


@pytest.fixture
def many_kinds(workspace):
    write_many_kinds(workspace)
    return workspace


@pytest.fixture(scope="module")
def many_kinds_done(shared_workspace):
    """It has run; to be looked at only."""
    write_many_kinds(shared_workspace)
    result = shared_workspace.snakemake(*DEVICES)
    assert result.returncode == 0, result.stdout
    return shared_workspace


def test_checkpoints_groups_and_temp_files_work(many_kinds_done):
    assert (many_kinds_done.root / "final").read_text() == "done/a done/b\n"
    assert not (many_kinds_done.root / "done/a").exists()


def test_script_and_run_get_a_device(many_kinds_done):
    found = {(many_kinds_done.root / name).read_text() for name in ("script", "run")}
    assert found <= {"0", "1"}


def test_protected_outputs_are_protected(many_kinds_done):
    assert (many_kinds_done.root / "protected").stat().st_mode & 0o222 == 0


def test_a_second_run_has_nothing_to_do(many_kinds_done):
    assert "Nothing to be done" in many_kinds_done.snakemake(*DEVICES).stdout


def test_a_dry_run_starts_no_job(many_kinds):
    result = many_kinds.snakemake(*DEVICES, "-n")
    assert result.returncode == 0, result.stdout
    assert not (many_kinds.root / "script").exists()


def test_touch_starts_no_job(many_kinds):
    many_kinds.snakemake(*DEVICES)
    before = (many_kinds.root / "final").read_bytes()
    result = many_kinds.snakemake(*DEVICES, "--touch", "--forceall")
    assert result.returncode == 0, result.stdout
    assert (many_kinds.root / "final").read_bytes() == before


def test_forceall_runs_everything_again(many_kinds):
    many_kinds.snakemake(*DEVICES)
    before = (many_kinds.root / "final").stat().st_mtime_ns
    (many_kinds.root / "protected").chmod(0o644)
    result = many_kinds.snakemake(*DEVICES, "--forceall")
    assert result.returncode == 0, result.stdout
    assert (many_kinds.root / "final").stat().st_mtime_ns > before


def test_pipes_between_rules_work(workspace):
    workspace.write(
        "Snakefile",
        "rule all:\n    input: 'sorted'\n"
        "rule make:\n    output: pipe('stream')\n    shell: 'printf \"b\\na\\n\" > {output}'\n"
        "rule sort:\n    input: 'stream'\n    output: 'sorted'\n"
        "    shell: 'sort {input} > {output}'\n",
    )
    result = workspace.snakemake()
    assert result.returncode == 0, result.stdout
    assert (workspace.root / "sorted").read_text() == "a\nb\n"


def test_shadow_benchmark_and_params_work(workspace):
    workspace.write(
        "Snakefile",
        "rule one:\n    output: 'o'\n    benchmark: 'b.tsv'\n    shadow: 'minimal'\n"
        "    params: text='a b'\n    shell: 'touch litter; echo {params.text:q} > {output}'\n",
    )
    result = workspace.snakemake()
    assert result.returncode == 0, result.stdout
    assert (workspace.root / "o").read_text() == "a b\n"
    assert (workspace.root / "b.tsv").exists()
    assert not (workspace.root / "litter").exists()


def test_a_retried_job_is_started_again(workspace):
    workspace.write(
        "Snakefile",
        "rule flaky:\n    output: 'o'\n    retries: 2\n    resources: gpu=1\n"
        "    shell: 'echo x >> tries; [ $(wc -l < tries) -ge 2 ] && touch {output}'\n",
    )
    result = workspace.snakemake(*DEVICES)
    assert result.returncode == 0, result.stdout
    assert (workspace.root / "tries").read_text() == "x\nx\n"


FAILING = """
rule all:
    input: "good", "after_bad"

rule bad:
    output: "bad"
    shell: "echo the reason >&2; exit 7"

rule after_bad:
    input: "bad"
    output: "after_bad"
    shell: "touch {output}"

rule good:
    output: "good"
    shell: "sleep 0.3; touch {output}"
"""


def test_a_failed_job_fails_the_run_and_says_how(workspace):
    workspace.write("Snakefile", FAILING)
    result = workspace.snakemake()
    assert result.returncode == 1
    assert "it exited with 7" in result.stdout


def test_keep_going_runs_what_does_not_depend_on_the_failure(workspace):
    workspace.write("Snakefile", FAILING)
    assert workspace.snakemake("--keep-going").returncode == 1
    assert (workspace.root / "good").exists()
    assert not (workspace.root / "after_bad").exists()


def test_sequential_mode_runs_one_job_at_a_time(workspace):
    workspace.write("Snakefile", GPU_RULES)
    workspace.snakemake(*DEVICES, "--hloop-mode", "sequential")
    everything = sorted(i for device in intervals(workspace).values() for i in device)
    assert all(a[1] <= b[0] for a, b in zip(everything, everything[1:], strict=False))


def test_a_bad_setting_is_named_before_any_job(workspace):
    workspace.write("Snakefile", GPU_RULES)
    result = workspace.snakemake("--hloop-devices", "simulated:zero")
    assert result.returncode != 0
    assert "--hloop-devices" in result.stdout
    assert not (workspace.root / "out").exists()


def test_a_failed_run_leaves_no_lock(workspace):
    workspace.write("Snakefile", FAILING)
    workspace.snakemake()
    assert [p.name for p in workspace.root.glob(".snakemake/locks/*")] == []

"""An exported run: what lies in the crate, what the crate says of it, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ended_runs import external, run_plan
from hloop.errors import ReportError, RunDirectoryError
from hloop.files import hash_file
from hloop.provenance import crate as crate_module
from hloop.provenance.crate import ExportError, export_crate
from hloop.trees import hash_tree
from supervised import job, output

Entities = dict[str, dict[str, Any]]

COMPLETED, FAILED, POTENTIAL = (
    f"http://schema.org/{name}ActionStatus" for name in ("Completed", "Failed", "Potential")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of every ending: jobs that completed, one that failed, one that was skipped."""
    folder = tmp_path_factory.mktemp("runs")
    motion = folder / "motion.txt"
    motion.write_text("motion\n")
    (folder / "tool.sh").write_text("mkdir -p $1/tree/empty; echo deep > $1/tree/deep\n")
    odd = "öd d#?%.txt"
    run_plan(
        folder,
        job(
            "rollout",
            f"cat {motion} > '{{run_dir}}/{odd}'; echo said",
            "gpu",
            seed=7,
            environment={"PACE": "slow"},
            inputs=[external(motion)],
            outputs=[output(odd)],
        ),
        job(
            "diagnose",
            f"cat '{{run_dir}}/{odd}' > {{run_dir}}/report",
            depends_on=["rollout"],
            inputs=[external(motion), output(odd)],
            outputs=[output("report")],
        ),
        {
            **job("grow", outputs=[{**output("tree"), "type": "directory"}]),
            "command": ["sh", "{repo_root}/tool.sh", "{run_dir}"],
        },
        job("break", "echo why >&2; exit 3", outputs=[output("never")]),
        job("after", depends_on=["break"], inputs=[output("never")]),
    )
    return folder


@pytest.fixture(scope="module")
def run_dir(folder: Path) -> Path:
    return folder / "run"


@pytest.fixture(scope="module")
def crate(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("crates") / "crate"
    export_crate(run_dir, place)
    return place


@pytest.fixture
def own_run(run_dir: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may alter."""
    return Path(shutil.copytree(run_dir, tmp_path / "run", symlinks=True))


def entities(crate: Path) -> Entities:
    document = json.loads((crate / "ro-crate-metadata.json").read_text())
    return {entity["@id"]: entity for entity in document["@graph"]}


def ids(value: Any) -> list[str]:
    """The entities that a property refers to."""
    return [entry["@id"] for entry in (value if isinstance(value, list) else [value])]


def files(crate: Path) -> Iterator[Path]:
    return (path for path in crate.rglob("*") if path.is_file() and not path.is_symlink())


def files_by_sha256(found: Entities) -> dict[str, str]:
    return {id: entity["sha256"] for id, entity in found.items() if "sha256" in entity}


def test_every_file_is_described_with_its_sha256(crate: Path):
    described = files_by_sha256(entities(crate))
    there = {hash_file(path).sha256 for path in files(crate)}
    metadata = hash_file(crate / "ro-crate-metadata.json").sha256
    assert set(described.values()) == there - {metadata}


def test_every_file_is_described_with_its_size(crate: Path):
    sizes = [entity["contentSize"] for entity in entities(crate).values() if "sha256" in entity]
    there = [str(path.stat().st_size) for path in files(crate) if path.parent != crate]
    assert sorted(sizes) == sorted(there)


def test_the_run_directory_lies_in_it_as_it_is(crate: Path, run_dir: Path):
    assert hash_tree(crate / "run") == hash_tree(run_dir)


def test_the_run_directory_is_left_as_it_is(own_run: Path, tmp_path: Path):
    def facts() -> list[tuple[str, os.stat_result]]:
        return [(str(path), path.lstat()) for path in sorted(own_run.rglob("*"))]

    before = [(path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode) for path, stat in facts()]
    export_crate(own_run, tmp_path / "crate")
    after = [(path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode) for path, stat in facts()]
    assert after == before


def test_two_exports_of_a_run_are_the_same(crate: Path, run_dir: Path, tmp_path: Path):
    export_crate(run_dir, tmp_path / "again")
    assert hash_tree(tmp_path / "again") == hash_tree(crate)


def test_every_part_hangs_on_the_root(crate: Path):
    found = entities(crate)
    reached, todo = set(), ["./"]
    while todo:
        id = todo.pop()
        reached.add(id)
        todo += ids(found[id].get("hasPart", []))
    assert reached >= files_by_sha256(found).keys()


def test_every_term_that_is_used_stands_in_the_context(crate: Path):
    document = json.loads((crate / "ro-crate-metadata.json").read_text())
    used = {key for entity in document["@graph"] for key in entity}
    types = [entity["@type"] for entity in document["@graph"]]
    used |= {name for type in types for name in (type if isinstance(type, list) else [type])}
    assert used - {"@id", "@type"} <= document["@context"].keys()


def test_every_reference_leads_somewhere(crate: Path):
    document = json.loads((crate / "ro-crate-metadata.json").read_text())
    found = entities(crate)
    named = {
        id
        for entity in document["@graph"]
        for value in entity.values()
        if isinstance(value, dict | list) and not isinstance(value, str)
        for id in ids(
            [
                part
                for part in (value if isinstance(value, list) else [value])
                if isinstance(part, dict)
            ]
        )
    }
    assert named - found.keys() == {"https://w3id.org/ro/crate/1.1"}


@pytest.mark.parametrize(
    ("job_id", "status"),
    [
        ("rollout", COMPLETED),
        ("diagnose", COMPLETED),
        ("break", FAILED),
        ("after", POTENTIAL),
    ],
)
def test_every_job_says_how_it_ended(crate: Path, job_id: str, status: str):
    found = entities(crate)
    actions = [found[f"#{kind}/{job_id}"] for kind in ("job", "control")]
    assert [action["actionStatus"] for action in actions] == [status, status]


def test_the_run_says_that_it_failed_and_why(crate: Path):
    run = entities(crate)["#run"]
    assert (run["actionStatus"], run["error"]) == (
        FAILED,
        "the run is failed; break: it exited with 3",
    )


def test_only_a_failed_job_has_an_error(crate: Path):
    found = entities(crate)
    jobs = {id: entity for id, entity in found.items() if id.startswith("#job/")}
    assert {id: job["error"] for id, job in jobs.items() if "error" in job} == {
        "#job/break": "it exited with 3"
    }


def test_a_job_names_its_agent_tool_inputs_and_outputs(crate: Path):
    found = entities(crate)
    action = found["#job/diagnose"]
    names = {
        key: [found[id]["name"] for id in ids(action[key])]
        for key in ("agent", "instrument", "object", "result")
    }
    session = json.loads((crate / "run/hloop_run.json").read_text())["session_id"]
    motion = next(path for path in crate.rglob("motion.txt"))
    assert names == {
        "agent": [f"hloop session {session}"],
        "instrument": ["diagnose"],
        "object": [str(motion.relative_to(crate / "inputs")), "öd d#?%.txt"],
        "result": ["report"],
    }


def test_a_job_says_when_it_ran(crate: Path):
    action = entities(crate)["#job/diagnose"]
    report = json.loads((crate / "run/hloop_run.json").read_text())
    entry = next(entry for entry in report["jobs"] if entry["job_id"] == "diagnose")
    times = [action["startTime"], action["endTime"]]
    assert [time[:23] for time in times] == [entry["started_at"][:23], entry["ended_at"][:23]]


def test_a_seed_is_a_value_that_the_job_was_given(crate: Path):
    found = entities(crate)
    values = [found[id] for id in ids(found["#job/rollout"]["object"])]
    assert [value["value"] for value in values if value["@type"] == "PropertyValue"] == [7]


def test_the_environment_of_a_job_is_told(crate: Path):
    found = entities(crate)
    held = [found[id] for id in ids(found["#job/rollout"]["environment"])]
    assert {"PACE": "slow", "MIMICX_DEVICE_ID": "0"}.items() <= {
        value["name"]: value["value"] for value in held
    }.items()


def test_a_job_s_input_is_connected_to_the_output_that_it_was(crate: Path):
    found = entities(crate)
    connections = [found[id] for id in ids(found["#step/diagnose"]["connection"])]
    assert ids(connections[1]["sourceParameter"]) == ids(found["#tool/rollout"]["output"])


def test_a_script_that_a_command_names_lies_in_it(crate: Path, folder: Path):
    found = entities(crate)
    [script] = ids(found["#tool/grow"]["softwareRequirements"])
    assert (crate / script).read_bytes() == (folder / "tool.sh").read_bytes()


def test_the_file_that_the_plan_was_made_from_lies_in_it(crate: Path, folder: Path):
    found = entities(crate)
    [source] = ids(found["run/plan.json"]["isBasedOn"])
    assert (crate / source).read_bytes() == (folder / "run.json").read_bytes()


def test_a_folder_that_is_an_artifact_is_a_dataset_with_parts_and_digest(crate: Path):
    tree = entities(crate)["run/tree/"]
    digest = hash_tree(crate / "run/tree").sha256
    assert (tree["@type"], ids(tree["hasPart"]), tree["identifier"]) == (
        "Dataset",
        ["run/tree/deep"],
        f"hloop/directory/v1 sha256:{digest}",
    )


def test_a_record_says_which_job_it_is_about(crate: Path):
    assert ids(entities(crate)["run/jobs/break/attempt_status.json"]["about"]) == ["#job/break"]


def test_an_input_that_two_jobs_read_lies_in_it_once(crate: Path):
    assert len(list(crate.rglob("motion.txt"))) == 1


def test_without_inputs_none_is_copied(run_dir: Path, tmp_path: Path):
    export_crate(run_dir, tmp_path / "crate", inputs=False)
    assert not list((tmp_path / "crate").rglob("motion.txt"))


def test_an_input_that_is_not_copied_is_described_all_the_same(
    run_dir: Path, folder: Path, tmp_path: Path
):
    export_crate(run_dir, tmp_path / "crate", inputs=False)
    found = entities(tmp_path / "crate")
    first = found[ids(found["#job/diagnose"]["object"])[0]]
    assert (first["sha256"], first["description"]) == (
        hash_file(folder / "motion.txt").sha256,
        "Not in this crate: inputs were not asked for.",
    )


def test_an_input_that_has_changed_since_is_left_out(tmp_path: Path):
    motion = tmp_path / "motion.txt"
    motion.write_text("before")
    run_dir = run_plan(tmp_path, job("reads", inputs=[external(motion)]))
    motion.write_text("behind")
    exported = export_crate(run_dir, tmp_path / "crate")
    assert exported.left_out == {"${REPO_ROOT}/motion.txt": "it is not what the run read any more"}


def test_an_output_that_was_altered_is_no_result(own_run: Path, tmp_path: Path):
    recorded = hash_file(own_run / "report").sha256
    (own_run / "report").write_text("another")
    export_crate(own_run, tmp_path / "crate")
    found = entities(tmp_path / "crate")
    assert (found["#job/diagnose"].get("result"), found["run/report"]["description"]) == (
        None,
        f"Not what the run recorded: sha256 {recorded}.",
    )


def test_a_symbolic_link_is_kept_as_one(own_run: Path, tmp_path: Path):
    (own_run / "link").symlink_to("/nowhere/else")
    export_crate(own_run, tmp_path / "crate")
    assert os.readlink(tmp_path / "crate/run/link") == "/nowhere/else"


def test_a_fifo_is_left_out(own_run: Path, tmp_path: Path):
    os.mkfifo(own_run / "pipe")
    exported = export_crate(own_run, tmp_path / "crate")
    assert list(exported.left_out) == ["${RUN_DIR}/pipe"]


def test_a_job_s_cache_is_left_out(own_run: Path, tmp_path: Path):
    (own_run / "jobs/grow/cache").mkdir()
    (own_run / "jobs/grow/cache/huge").touch()
    export_crate(own_run, tmp_path / "crate")
    assert not (tmp_path / "crate/run/jobs/grow/cache").exists()


def test_a_used_folder_is_refused_and_kept(run_dir: Path, tmp_path: Path):
    (tmp_path / "mine").touch()
    with pytest.raises(ExportError, match="is not an empty folder"):
        export_crate(run_dir, tmp_path)
    assert os.listdir(tmp_path) == ["mine"]


def test_an_empty_folder_is_taken(run_dir: Path, tmp_path: Path):
    export_crate(run_dir, tmp_path)
    assert (tmp_path / "ro-crate-metadata.json").is_file()


def test_a_folder_in_the_run_directory_is_refused(own_run: Path):
    with pytest.raises(ExportError, match="lies in the run directory"):
        export_crate(own_run, own_run / "crate")


def test_an_export_that_breaks_off_leaves_nothing(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(crate_module, "build", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_crate(run_dir, tmp_path / "crate")
    assert not os.listdir(tmp_path)


def test_the_crate_is_in_its_place_only_when_it_is_whole(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """So a kill at any moment leaves a whole crate there or none."""
    rename, seen = os.rename, []

    def look(source: str, target: str) -> None:
        before = os.path.lexists(target)
        seen.append((before, (Path(source) / "ro-crate-metadata.json").is_file()))
        rename(source, target)

    monkeypatch.setattr(os, "rename", look)
    export_crate(run_dir, tmp_path / "crate")
    assert seen == [(False, True)]


def test_a_folder_without_a_report_is_refused(own_run: Path, tmp_path: Path):
    (own_run / "hloop_run.json").unlink()
    with pytest.raises(RunDirectoryError, match=r"hloop_run\.json cannot be read"):
        export_crate(own_run, tmp_path / "crate")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"jobs": [], "jobs": []}'])
def test_a_report_that_is_none_is_refused(own_run: Path, tmp_path: Path, text: str):
    (own_run / "hloop_run.json").unlink()
    (own_run / "hloop_run.json").write_text(text)
    with pytest.raises(ReportError):
        export_crate(own_run, tmp_path / "crate")


def test_a_run_without_a_plan_is_refused_as_such(own_run: Path, tmp_path: Path):
    (own_run / "hloop_run.json").unlink()
    (own_run / "hloop_run.json").write_text('{"_type": "hloop/rules_run/v1"}')
    with pytest.raises(ReportError) as caught:
        export_crate(own_run, tmp_path / "crate")
    assert [problem.code for problem in caught.value.problems] == ["no_plan"]


def test_a_run_whose_records_are_broken_can_be_exported(own_run: Path, tmp_path: Path):
    for path in own_run.rglob("scheduled_job.json"):
        path.unlink()
        path.write_text("[]")
    export_crate(own_run, tmp_path / "crate")
    assert "environment" not in entities(tmp_path / "crate")["#job/rollout"]


# The command line


def test_the_command_says_where_the_crate_is_and_what_is_not_in_it(
    hloop: Any, run_dir: Path, tmp_path: Path
):
    outcome = hloop("export", run_dir, "--crate", tmp_path / "crate", "--no-inputs", "--json")
    there = len(list(files(tmp_path / "crate")))
    assert (outcome.code, outcome.document["files"], outcome.document["left_out"]) == (
        0,
        there,
        {"${REPO_ROOT}/motion.txt": "inputs were not asked for"},
    )


def test_a_licence_that_is_given_stands_in_the_crate(hloop: Any, run_dir: Path, tmp_path: Path):
    hloop("export", run_dir, "--crate", tmp_path / "crate", "--license", "CC0-1.0")
    assert entities(tmp_path / "crate")["./"]["license"] == "CC0-1.0"


def test_a_crate_that_cannot_be_made_exits_with_2(hloop: Any, tmp_path: Path):
    outcome = hloop("export", tmp_path, "--crate", tmp_path / "crate")
    assert (outcome.code, "hloop_run.json cannot be read" in outcome.err) == (2, True)

"""`hloop gate`: what it writes, and every reason for which it writes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from formal_case import FormalCase, sha256
from hloop import canonical
from hloop.plan.load import load_checked, load_plan
from hloop.provenance.gate import rederive
from hloop.provenance.gatefolder import publish_gate, read_files

Spoil = Callable[[FormalCase], None]


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def passed(case: FormalCase, hloop: Any) -> FormalCase:
    """A case whose gate was passed and written."""
    outcome = hloop(*case.arguments())
    assert outcome.code == 0, outcome.err
    return case


def test_everything_that_the_gate_builds_on_lies_beside_it(passed: FormalCase) -> None:
    assert files_in(passed.gate.parent) == [
        *("author_fidelity.json", "evidence/parity.json", "fidelity_gate.json"),
        *("formal_manifest.json", "reviewed.patch"),
    ]


def test_the_gate_is_canonical_and_read_only(passed: FormalCase) -> None:
    canonical.loads(passed.gate.read_bytes())
    assert passed.gate.stat().st_mode & 0o777 == 0o444


def test_the_gate_says_what_was_found(passed: FormalCase) -> None:
    gate = json.loads(passed.gate.read_bytes())
    passed.git("add", "-A")
    tree = passed.git("write-tree").decode().strip()
    config = passed.source / "configs/repho.yaml"
    assert (gate["status"], gate["required_gates"], gate["source"], gate["configs"][0]) == (
        "passed",
        {"parity": True},
        {"path": "${REPO_ROOT}/source", "commit": passed.commit, "tree": tree},
        {
            "method": "repho",
            "case": "walk",
            "path": "configs/repho.yaml",
            "sha256": sha256(config),
        },
    )


def test_the_gate_refers_to_what_lies_beside_it(passed: FormalCase) -> None:
    gate = json.loads(passed.gate.read_bytes())
    beside = {
        f"${{RUN_DIR}}/formal/{name}": sha256(passed.gate.parent / name)
        for name in files_in(passed.gate.parent)
        if name != passed.gate.name
    }
    assert {entry["path"]: entry["sha256"] for entry in gate["upstream"]} == beside


def test_the_formal_manifest_fixes_each_job(passed: FormalCase) -> None:
    manifest = json.loads((passed.gate.parent / "formal_manifest.json").read_bytes())
    (first, *_), jobs = manifest["jobs"], len(manifest["jobs"])
    first.pop("command_digest")
    assert (jobs, first) == (
        8,
        {
            "job_id": "train_repho_1",
            "method": "repho",
            "case": "walk",
            "seed": 1,
            "phase": "train",
            "config": {
                "path": "${REPO_ROOT}/source/configs/repho.yaml",
                "sha256": sha256(passed.source / "configs/repho.yaml"),
            },
            "hard_timeout_ms": 60000,
            "device": "0",
            "checkpoint_roles": ["backward", "forward"],
        },
    )


def test_its_digest_is_printed(case: FormalCase, hloop: Any) -> None:
    assert hloop(*case.arguments()).out.endswith(f"\nsha256:{sha256(case.gate)}\n")


def test_an_unchanged_source_with_an_empty_patch_passes(case: FormalCase, hloop: Any) -> None:
    case.git("checkout", "-q", ".")
    case.patch.write_bytes(b"")
    assert hloop(*case.arguments()).code == 0


def test_the_inputs_may_lie_where_the_gate_goes(case: FormalCase, hloop: Any) -> None:
    case.gate = case.inputs / case.gate.name
    assert hloop(*case.arguments()).code == 0


def test_the_same_question_gives_the_same_bytes(passed: FormalCase, hloop: Any) -> None:
    first = passed.gate.read_bytes()
    passed.gate = passed.root / "again/fidelity_gate.json"
    hloop(*passed.arguments())
    assert passed.gate.read_bytes() == first


# Reasons


def method(case: FormalCase, index: int = 0) -> dict[str, Any]:
    entry: dict[str, Any] = case.manifest["methods"][index]
    return entry


def job(case: FormalCase, job_id: str = "train_repho_1") -> dict[str, Any]:
    return next(job for job in case.document["jobs"] if job["job_id"] == job_id)


def set_value(value: object, *path: str | int) -> Spoil:
    """Change one value of the author-fidelity manifest."""

    def spoil(case: FormalCase) -> None:
        holder: Any = case.manifest
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value

    return spoil


def change_job(job_id: str = "train_repho_1", **fields: object) -> Spoil:
    return lambda case: job(case, job_id).update(fields)


def drop(key: str) -> Spoil:
    return lambda case: job(case).pop(key)


def write(name: str, text: str) -> Spoil:
    return lambda case: (case.root / name).write_text(text) and None


def link_evidence(case: FormalCase) -> None:
    path = case.inputs / "evidence/parity.json"
    path.rename(case.inputs / "elsewhere.json")
    path.symlink_to("../elsewhere.json")


def link_evidence_folder(case: FormalCase) -> None:
    (case.inputs / "evidence").rename(case.inputs / "elsewhere")
    (case.inputs / "evidence").symlink_to("elsewhere")


def repeat_method(case: FormalCase) -> None:
    case.manifest["methods"].append(method(case))


def repeat_case(case: FormalCase) -> None:
    method(case)["configs"].append(method(case)["configs"][0])


def repeat_gate(case: FormalCase) -> None:
    case.manifest["required_gates"] *= 2


def repeat_checkpoint(case: FormalCase) -> None:
    method(case, 1)["checkpoints"] *= 2


def stray_output(case: FormalCase) -> None:
    job(case, "eval_repho_1")["outputs"][0]["path"] = "{run_dir}/final.json"


def other_seed_output(case: FormalCase) -> None:
    job(case, "eval_repho_1")["outputs"][0]["path"] = "{run_dir}/walk/repho/11/eval/x.json"


def both_phases(case: FormalCase) -> None:
    outputs = job(case)["outputs"]
    outputs.append({"role": "early", "path": "{run_dir}/walk/repho/1/eval/early.json"})


def no_output(case: FormalCase) -> None:
    job(case, "eval_repho_1")["outputs"] = []


def no_role(case: FormalCase) -> None:
    del job(case)["outputs"][2]["checkpoint"]


def role_twice(case: FormalCase) -> None:
    job(case, "eval_repho_1")["outputs"][0]["checkpoint"] = "forward"


def other_role(case: FormalCase) -> None:
    job(case, "eval_repho_1")["outputs"][0]["checkpoint"] = "sideways"


def other_config(case: FormalCase) -> None:
    path = case.source / "configs/ppo.yaml"
    entry = job(case)["inputs"][0]
    entry["path"], entry["sha256"] = "source/configs/ppo.yaml", sha256(path)


def other_checkpoint(case: FormalCase) -> None:
    job(case, "train_ppo_1")["inputs"][1]["sha256"] = "0" * 64


def other_program(case: FormalCase) -> None:
    (case.root / "own.py").write_text("")
    job(case)["command"] = ["python", "{repo_root}/own.py"]


GATE = ("required_gates", 0)
EVIDENCE = (*GATE, "evidence", 0)
REASONS: list[tuple[str, str, Spoil]] = [
    # The manifest
    ("no_value", "protocol", set_value("", "protocol")),
    ("no_value", "protocol", set_value(None, "protocol")),
    ("no_value", "fidelity_class", set_value(" ToDo ", "fidelity_class")),
    ("no_value", "methods", set_value([], "methods")),
    ("no_value", "source", set_value({}, "source")),
    ("missing_key", "", lambda case: case.manifest.pop("protocol")),
    ("unknown_key", "status", set_value("passed", "status")),
    ("not_allowed", "_type", set_value("hloop/author_fidelity/v2", "_type")),
    ("wrong_type", "required_gates[0].passed", set_value("true", *GATE, "passed")),
    ("bad_digest", "required_gates[0].evidence[0].sha256", set_value("ab", *EVIDENCE, "sha256")),
    (
        "bad_text",
        "required_gates[0].evidence[0].path",
        set_value("evidence/../x", *EVIDENCE, "path"),
    ),
    ("bad_text", "required_gates[0].evidence[0].path", set_value("x.json", *EVIDENCE, "path")),
    (
        "bad_text",
        "methods[0].configs[0].path",
        set_value("/c", "methods", 0, "configs", 0, "path"),
    ),
    ("bad_text", "source.commit", set_value("abc", "source", "commit")),
    ("listed_twice", "methods[2].method", repeat_method),
    ("listed_twice", "methods[0].configs[1].case", repeat_case),
    ("listed_twice", "methods[1].checkpoints[1].role", repeat_checkpoint),
    ("listed_twice", "required_gates[1].name", repeat_gate),
    # What it names
    ("gate_not_passed", "required_gates[0].passed", set_value(False, *GATE, "passed")),
    (
        "evidence_changed",
        "required_gates[0].evidence[0]",
        write("inputs/evidence/parity.json", ""),
    ),
    (
        "evidence_missing",
        "required_gates[0].evidence[0]",
        lambda case: (case.inputs / "evidence/parity.json").unlink(),
    ),
    ("evidence_not_a_file", "required_gates[0].evidence[0]", link_evidence),
    ("evidence_not_a_file", "required_gates[0].evidence[0]", link_evidence_folder),
    ("checkpoint_changed", "methods[1].checkpoints[0]", write("inputs/reference.pt", "x")),
    # The source
    ("source_differs", "", write("source/train.py", "print()")),
    ("source_differs", "", write("source/extra.py", "print()")),
    ("source_differs", "", write("inputs/reviewed.patch", "")),
    ("patch_does_not_apply", "", write("inputs/reviewed.patch", "nonsense")),
    ("no_commit", "source.commit", set_value("0" * 40, "source", "commit")),
    (
        "config_changed",
        "methods[0].configs[0]",
        set_value("1" * 64, "methods", 0, "configs", 0, "sha256"),
    ),
    ("source_not_used", "plan: jobs[0].command", other_program),
    # The plan
    ("not_formal", "plan: jobs[0].formal", drop("formal")),
    ("no_hard_timeout", "plan: jobs[0].budget.max_seconds", drop("budget")),
    (
        "own_cache",
        "plan: jobs[0].environment.TRITON_CACHE_DIR",
        change_job(environment={"TRITON_CACHE_DIR": "/shared"}),
    ),
    ("no_outputs", "plan: jobs[1].outputs", no_output),
    ("output_place", "plan: jobs[1].outputs[0].path", stray_output),
    ("output_place", "plan: jobs[1].outputs[0].path", other_seed_output),
    ("two_phases", "plan: jobs[0].outputs", both_phases),
    ("unknown_method", "plan: jobs[4].formal.method", lambda case: case.manifest["methods"].pop()),
    (
        "unknown_case",
        "plan: jobs[0].formal.case",
        set_value("run", "methods", 0, "configs", 0, "case"),
    ),
    ("config_mismatch", "plan: jobs[0].inputs[0].sha256", other_config),
    ("checkpoint_mismatch", "plan: jobs[4].inputs[1].sha256", other_checkpoint),
    ("checkpoint_role", "plan: jobs[0].outputs", no_role),
    ("checkpoint_role", "plan: jobs[0].outputs", role_twice),
    ("checkpoint_role", "plan: jobs[0].outputs", other_role),
]


@pytest.mark.parametrize(("code", "where", "spoil"), REASONS)
def test_a_reason_is_told_and_nothing_is_written(
    case: FormalCase, hloop: Any, code: str, where: str, spoil: Spoil
) -> None:
    spoil(case)
    case.write()
    outcome = hloop(*case.arguments(), "--json")
    found = [
        (item["code"], item["where"].endswith(where)) for item in outcome.document["problems"]
    ]
    assert (outcome.code, (code, True) in found, case.gate.parent.exists()) == (1, True, False)


@pytest.mark.parametrize(
    "text",
    [
        *("todo", "TBD", "FixMe", " unknown ", "missing", "N/A", "none", "null", "?", "xxx", " "),
        *("TODO: ask them", "tbd, see mail", "<TODO>", "T.B.D.", "-", "..."),
    ],
)
def test_a_value_that_stands_in_for_another_is_no_value(
    case: FormalCase, hloop: Any, text: str
) -> None:
    method(case)["checkpoint_roles"][1] = text
    case.write()
    (problem,) = hloop(*case.arguments(), "--json").document["problems"]
    assert (problem["code"], problem["where"]) == (
        "no_value",
        "author_fidelity.json: methods[0].checkpoint_roles[1]",
    )


def test_all_reasons_are_told_at_once(case: FormalCase, hloop: Any) -> None:
    set_value(False, *GATE, "passed")(case)
    drop("budget")(case)
    (case.source / "extra.py").write_text("")
    (case.inputs / "reference.pt").write_text("")
    case.write()
    assert sorted(hloop(*case.arguments(), "--json").codes) == [
        *("checkpoint_changed", "gate_not_passed", "no_hard_timeout", "source_differs")
    ]


# No answer


@pytest.mark.parametrize("name", ["plan", "fidelity", "patch"])
def test_a_file_that_is_not_there_is_no_answer(case: FormalCase, hloop: Any, name: str) -> None:
    getattr(case, name).unlink()
    assert (hloop(*case.arguments()).code, case.gate.parent.exists()) == (2, False)


@pytest.mark.parametrize("text", ["{", '{"a": 1, "a": 2}', "\ufeff{}", "[" * 100000])
def test_a_manifest_that_is_no_json_is_no_answer(case: FormalCase, hloop: Any, text: str) -> None:
    case.fidelity.write_text(text)
    outcome = hloop(*case.arguments(), "--json")
    assert (outcome.code, outcome.codes) == (2, ["not_json"])


def test_a_fifo_is_not_waited_for(case: FormalCase, hloop: Any) -> None:
    case.patch.unlink()
    os.mkfifo(case.patch)
    assert hloop(*case.arguments(), "--json").codes == ["unreadable"]


def test_a_plan_that_breaks_a_rule_is_no_answer(case: FormalCase, hloop: Any) -> None:
    del job(case)["seed"]
    case.write()
    outcome = hloop(*case.arguments(), "--json")
    assert (outcome.code, outcome.codes) == (2, ["formal_without_seed"])


def test_a_source_without_git_is_no_answer(case: FormalCase, hloop: Any) -> None:
    (case.source / ".git").rename(case.root / "moved")
    assert hloop(*case.arguments()).code == 2


@pytest.mark.parametrize("out", ["gate/passed.json", "source/fidelity_gate.json"])
def test_a_place_that_will_not_do_is_no_answer(case: FormalCase, hloop: Any, out: str) -> None:
    case.gate = case.root / out
    outcome = hloop(*case.arguments(), "--json")
    assert (outcome.code, outcome.codes, case.gate.exists()) == (2, ["usage"], False)


@pytest.mark.parametrize(
    "name", ["fidelity_gate.json", "formal_manifest.json", "author_fidelity.json"]
)
def test_nothing_is_overwritten(case: FormalCase, hloop: Any, name: str) -> None:
    case.gate.parent.mkdir()
    (case.gate.parent / name).write_text("{}")
    outcome = hloop(*case.arguments(), "--json")
    assert (outcome.code, outcome.codes, files_in(case.gate.parent)) == (2, ["exists"], [name])


def test_a_gate_is_written_once(passed: FormalCase, hloop: Any) -> None:
    assert hloop(*passed.arguments(), "--json").codes == ["exists", "exists"]


# Deriving it anew


def codes(case: FormalCase, *, with_source: bool = False) -> list[str]:
    rendered = load_checked(case.plan, case.root, case.root / "run")
    problems = rederive(
        case.gate.parent, load_plan(case.plan), rendered=rendered if with_source else None
    )
    return [problem.code for problem in problems]


@pytest.mark.parametrize("with_source", [True, False])
def test_a_gate_that_was_passed_derives_anew(passed: FormalCase, with_source: bool) -> None:
    assert codes(passed, with_source=with_source) == []


def test_a_copy_of_its_folder_derives_anew_without_the_rest(
    passed: FormalCase, tmp_path: Path
) -> None:
    publish_gate(read_files(passed.gate.parent), tmp_path / "formal")
    plan = load_plan(passed.plan)
    for folder in (passed.source, passed.inputs, passed.gate.parent):
        folder.rename(tmp_path / f"gone_{folder.name}")
    assert rederive(tmp_path / "formal", plan) == []


def alter(name: str, change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Change a record beside the gate, and keep it canonical."""

    def spoil(case: FormalCase) -> None:
        path = case.gate.parent / name
        document = json.loads(path.read_bytes())
        change(document)
        path.chmod(0o644)
        path.write_bytes(canonical.dumps(document))

    return spoil


def replace_beside(name: str, text: str) -> Spoil:
    def spoil(case: FormalCase) -> None:
        (case.gate.parent / name).unlink()
        (case.gate.parent / name).write_text(text)

    return spoil


def other_plan(case: FormalCase) -> None:
    job(case)["budget"]["max_seconds"] = 61
    case.write()


def failed_gate_made_to_pass(case: FormalCase) -> None:
    """A required gate that was not passed, and a gate that is edited to say otherwise."""
    alter("author_fidelity.json", lambda it: it["required_gates"][0].update(passed=False))(case)
    data = (case.gate.parent / "author_fidelity.json").read_bytes()

    def point(gate: dict[str, Any]) -> None:
        gate["upstream"][1] |= {
            "sha256": canonical.digest(json.loads(data)).removeprefix("sha256:"),
            "size": len(data),
        }

    alter("fidelity_gate.json", point)(case)


@pytest.mark.parametrize(
    ("code", "spoil"),
    [
        ("gate_mismatch", alter("fidelity_gate.json", lambda it: it.update(protocol="x"))),
        (
            "gate_mismatch",
            alter("fidelity_gate.json", lambda it: it["required_gates"].update(more=True)),
        ),
        ("gate_mismatch", alter("fidelity_gate.json", lambda it: it["upstream"].pop())),
        (
            "gate_mismatch",
            alter("fidelity_gate.json", lambda it: it["source"].update(commit="0" * 40)),
        ),
        ("not_allowed", alter("fidelity_gate.json", lambda it: it.update(status="failed"))),
        ("gate_mismatch", alter("formal_manifest.json", lambda it: it["jobs"].pop())),
        ("gate_mismatch", alter("author_fidelity.json", lambda it: it.update(protocol="x"))),
        ("gate_not_passed", failed_gate_made_to_pass),
        ("not_canonical", replace_beside("fidelity_gate.json", "{ }\n")),
        ("gate_mismatch", replace_beside("formal_manifest.json", "{ }\n")),
        ("not_json", replace_beside("author_fidelity.json", "{")),
        ("gate_mismatch", replace_beside("reviewed.patch", "")),
        ("evidence_changed", replace_beside("evidence/parity.json", "")),
        ("gate_mismatch", other_plan),
        ("unreadable", lambda case: case.gate.unlink()),
        ("unreadable", lambda case: (case.gate.parent / "reviewed.patch").unlink()),
        ("evidence_missing", lambda case: (case.gate.parent / "evidence/parity.json").unlink()),
    ],
)
def test_what_was_altered_does_not_derive_anew(
    passed: FormalCase, code: str, spoil: Spoil
) -> None:
    spoil(passed)
    assert code in codes(passed)


@pytest.mark.parametrize(
    ("code", "spoil"),
    [
        ("source_differs", write("source/train.py", "print()")),
        ("config_changed", write("source/configs/ppo.yaml", "x")),
        (
            "gate_mismatch",
            alter("fidelity_gate.json", lambda it: it["source"].update(tree="0" * 40)),
        ),
        ("source", alter("fidelity_gate.json", lambda it: it["source"].update(path="/nowhere"))),
    ],
)
def test_where_the_source_is_at_hand_it_is_looked_at(
    passed: FormalCase, code: str, spoil: Spoil
) -> None:
    spoil(passed)
    assert code in codes(passed, with_source=True)


def test_the_place_that_differs_is_named(passed: FormalCase) -> None:
    alter("fidelity_gate.json", lambda it: it["configs"][1].update(case="run"))(passed)
    (problem,) = rederive(passed.gate.parent, load_plan(passed.plan))
    assert problem.where == "fidelity_gate.json: configs[1].case"

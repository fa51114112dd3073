"""An oracle's spec: what it refuses, what a verdict is bound to, which commands are its paths."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hloop.errors import HloopError
from hloop.plan.contract import schema_problems
from hloop.plan.document import parse_document
from hloop.report.oraclespec import Spec, read_spec
from oracle_case import spec_document, write_case
from source_tree import ROOT


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return read_spec(write_case(tmp_path), tmp_path)


def refused(tmp_path: Path, **changes: Any) -> str:
    with pytest.raises(HloopError) as raised:
        read_spec(write_case(tmp_path, **changes), tmp_path)
    return str(raised.value)


def test_seeds_stand_in_the_command_one_by_one(spec: Spec) -> None:
    assert spec.command("slow", 2)[-3:] == ["4", "5", "6"]


def test_the_fast_path_is_told_its_workers(spec: Spec) -> None:
    assert spec.command("fast", 3)[3] == "3"


def test_a_setting_without_effect_is_refused(tmp_path: Path) -> None:
    settings = {"mode": "agrees", "dtype": "float32"}
    assert "does not take <settings.dtype>" in refused(tmp_path, settings=settings)


def test_a_placeholder_that_there_is_not_is_refused_with_the_nearest(tmp_path: Path) -> None:
    paths = spec_document()["paths"]
    paths["slow"].append("<outputs.trac>")
    assert "Did you mean <outputs.trace>?" in refused(tmp_path, paths=paths)


def test_a_slow_path_with_workers_is_refused(tmp_path: Path) -> None:
    paths = spec_document()["paths"]
    assert "<workers> is not known" in refused(tmp_path, paths=paths | {"slow": paths["fast"]})


def test_a_fast_path_without_workers_is_refused(tmp_path: Path) -> None:
    paths = spec_document()["paths"]
    assert "does not take <workers>" in refused(tmp_path, paths=paths | {"fast": paths["slow"]})


def test_a_field_that_is_left_out_needs_a_reason(tmp_path: Path) -> None:
    assert "ignore.latency_ms" in refused(tmp_path, ignore={"latency_ms": ""})


def test_a_tolerance_without_end_is_refused(tmp_path: Path) -> None:
    assert "a finite number" in refused(tmp_path, tolerances={"v": float("inf")})


@pytest.mark.parametrize("name", ["workers", "checkpoint_sha256", "code_sha256"])
def test_a_setting_with_a_name_of_the_verdicts_is_refused(tmp_path: Path, name: str) -> None:
    settings = {"mode": "agrees", name: "x"}
    assert f"a verdict has a {name} of its own" in refused(tmp_path, settings=settings)


def test_an_identity_without_the_seed_is_refused(tmp_path: Path) -> None:
    assert "identity: the list lacks 'seed'" in refused(tmp_path, identity=["task"])


def test_code_that_is_not_there_is_told(tmp_path: Path) -> None:
    spec = read_spec(
        write_case(tmp_path, code={"root": "{repo_root}", "files": ["x.py"]}), tmp_path
    )
    with pytest.raises(HloopError, match="there is no x.py"):
        spec.bound(2)


def test_what_a_verdict_is_bound_to(spec: Spec, tmp_path: Path) -> None:
    program = hashlib.sha256((tmp_path / "program.py").read_bytes()).hexdigest()
    assert spec.bound(2) == {
        "mode": "agrees",
        "workers": "2",
        "checkpoint_sha256": hashlib.sha256(b"weights").hexdigest(),
        "code_sha256": hashlib.sha256(f"{program}  program.py\n".encode()).hexdigest(),
    }


def test_versions_of_packages_are_bound(tmp_path: Path) -> None:
    spec = read_spec(write_case(tmp_path, packages=["pytest"]), tmp_path)
    assert spec.bound(2)["pytest_version"] == pytest.__version__


def test_another_program_is_other_code(spec: Spec, tmp_path: Path) -> None:
    before = spec.bound(2)["code_sha256"]
    (tmp_path / "more.py").write_text("")
    assert spec.bound(2)["code_sha256"] != before


def command(tmp_path: Path, *, mode: str = "agrees", workers: str = "2", more: Any = ()) -> Any:
    return [
        *("/any/python", f"{tmp_path}/program.py", mode, workers, f"{tmp_path}/checkpoint"),
        *("/runs/x/r.jsonl", "/runs/x/s.json", "100", "101", *more),
    ]


def test_a_command_of_the_fast_path_says_its_settings(spec: Spec, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"weights").hexdigest()
    expected = {"mode": "agrees", "workers": "2", "checkpoint_sha256": digest}
    assert spec.settings_of("fast", command(tmp_path)) == expected


@pytest.mark.parametrize("more", [["--fp8"], ["7", "--fp8"]])
def test_a_command_with_an_option_more_is_another(spec: Spec, tmp_path: Path, more: Any) -> None:
    assert spec.settings_of("fast", command(tmp_path, more=more)) is None


def test_a_setting_with_two_values_in_a_command_is_none_of_the_paths(tmp_path: Path) -> None:
    paths = spec_document()["paths"]
    for path in paths.values():
        path.insert(3, "<settings.mode>")
    spec = read_spec(write_case(tmp_path, paths=paths), tmp_path)
    twice = command(tmp_path)
    twice.insert(3, "agrees")
    assert spec.settings_of("fast", twice) is not None
    twice[3] = "parts"
    assert spec.settings_of("fast", twice) is None


def test_a_command_of_the_fast_path_is_not_one_of_the_slow(spec: Spec, tmp_path: Path) -> None:
    assert spec.settings_of("slow", command(tmp_path)) is None
    assert spec.settings_of("slow", command(tmp_path, workers="0")) is not None


@pytest.mark.parametrize("name", ["sum", "matmul"])
def test_the_specs_in_config_keep_their_schema(name: str) -> None:
    assert schema_problems(parse_document(ROOT / f"config/oracle-{name}.yaml"), "oracle") == []


def test_the_specs_in_config_differ_in_the_policy_only() -> None:
    first, second = (
        yaml.safe_load((ROOT / f"config/oracle-{name}.yaml").read_text())
        for name in ("sum", "matmul")
    )
    differing = {name for name in first if first[name] != second[name]}
    assert differing == {"oracle_id", "settings"}
    assert first["settings"] | {"policy": "matmul"} == second["settings"]

"""Whatever the records hold, verifying ends with a verdict."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tampering import JOBS, PER_JOB, Copy, run_small

RECORDS = (
    "plan.json",
    "manifest.json",
    "hloop_run.json",
    *(f"jobs/{job_id}/{name}" for job_id in JOBS for name in PER_JOB),
)
TEXTS = (
    *("", "x", "0", "make", "other", "GPU-1", "..", "/", "//", "/x/y", "\0", "\x1b[2J", "é", "𐀀"),
    *("${RUN_DIR}", "${RUN_DIR}/", "${RUN_DIR}/x", "${RUN_DIR}/../x", "${REPO_ROOT}/x"),
    *("{run_dir}", "{run_dir}/x", "{repo_root}", "{", "0" * 64, "sha256:" + "0" * 64),
    *("file", "directory", "hloop/manifest/v1", "hloop/rules_run/v1", "mimicx.hloop-run.v1"),
    *("completed", "failed", "timed_out", "gpu", "cpu", "io", "formal", "external", "bulk-sync"),
    *(
        "sequential",
        "any",
        "rejected",
        "device 1",
        "cpu 0",
        "a" * 5000,
        "2026-01-01T00:00:00.000000Z",
    ),
)
NUMBERS = (0, 1, 2, 7, 255, 10**9, 2**53 - 1, -1)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: what holds it, and the key or index."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def garbage(value: Any, chance: random.Random) -> Any:
    """Something else, mostly of the same kind, so that the schema does not stop it."""
    kind = chance.randrange(10)
    if kind == 0:
        return chance.choice([None, [], {}, "", 0, True, [[]], {"x": None}])
    if kind == 1:
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) or value is None:
        return chance.choice(TEXTS)
    if isinstance(value, int | float):
        return chance.choice(NUMBERS)
    if isinstance(value, list):
        return chance.choice([[], value * 2, value[::-1], value[1:], value[:1]])
    return dict(list(value.items())[1:])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("garbage") / "repository"
    run_small(root, "bulk-sync")
    return root


@pytest.mark.parametrize("seed", range(4))
def test_no_garbage_in_a_sealed_chain_is_an_error(
    original: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    copy = Copy.of(original, tmp_path / "copy")
    untouched = {name: copy.path(name).read_bytes() for name in RECORDS}
    for _ in range(60):
        for name in chance.sample(RECORDS, chance.choice([1, 1, 2, 4])):
            document = copy.load(name)
            for holder, key in chance.sample(list(places(document)), chance.choice([1, 1, 2])):
                holder[key] = garbage(holder[key], chance)
            copy.store(name, document)
        copy.seal()
        verdict = copy.verify(expect_head="sha256:" + "0" * 64)
        assert verdict.exit_code in (1, 2)
        assert str(verdict.to_dict()).isprintable()
        for name, data in untouched.items():
            copy.write(name, data)


def test_random_bytes_in_place_of_records_are_no_error(original: Path, tmp_path: Path) -> None:
    chance = random.Random(1)
    copy = Copy.of(original, tmp_path / "copy")
    for name in RECORDS:
        copy.write(name, chance.randbytes(200))
    assert copy.verify().unaltered is False

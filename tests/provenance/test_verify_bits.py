"""Every single bit of every record counts."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from hloop.provenance.chain import walk
from hloop.provenance.reading import Content, RunFiles
from tampering import Copy, run_small


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bits") / "repository"
    run_small(root)
    return root


class Watched(RunFiles):
    """Notes which file is held against which digest and size."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.demands: dict[str, set[tuple[str, int]]] = {}

    def read(self, path: str) -> Content:
        content = super().read(path)
        demands = self.demands.setdefault(path, set())

        class Noting(Content):
            def is_what(self, sha256: str, size: int) -> bool:
                demands.add((sha256, size))
                return super().is_what(sha256, size)

        return Noting(content.data, content.sha256, content.links)


def test_every_flipped_bit_of_every_record_is_noticed_when_the_head_is_given(
    original: Path,
) -> None:
    """The walk says what each file is held against; then each of its bits is flipped."""
    run = original / "run"
    files = Watched(str(run))
    chain = walk(files)
    report = (run / "hloop_run.json").read_bytes()
    assert chain.head == f"sha256:{hashlib.sha256(report).hexdigest()}"
    # The head stands for the report.
    files.demands["${RUN_DIR}/hloop_run.json"] = {
        (chain.head.removeprefix("sha256:"), len(report))
    }
    records = {"plan.json", "manifest.json", "journal.jsonl", "hloop_run.json"} | {
        str(path.relative_to(run)) for path in run.glob("jobs/*/*.json")
    }
    assert {name.removeprefix("${RUN_DIR}/") for name in files.demands} == records
    unnoticed = []
    for name, demands in files.demands.items():
        data = bytearray((run / name.removeprefix("${RUN_DIR}/")).read_bytes())
        assert demands == {(hashlib.sha256(data).hexdigest(), len(data))}
        for place in range(len(data)):
            for bit in range(8):
                data[place] ^= 1 << bit
                content = Content.of(bytes(data))
                if any(content.is_what(*demand) for demand in demands):
                    unnoticed.append((name, place, bit))
                data[place] ^= 1 << bit
    assert unnoticed == []


def test_a_flipped_bit_anywhere_makes_the_verdict_false(original: Path, tmp_path: Path) -> None:
    """The whole of it, once in every few hundred bytes of every record."""
    copy = Copy.of(original, tmp_path / "copy")
    head = copy.head()
    chance = random.Random(20)
    names = ["hloop_run.json", "manifest.json", "journal.jsonl", "plan.json"]
    names += [str(path.relative_to(copy.root)) for path in copy.root.glob("jobs/*/*.json")]
    for name in names:
        data = copy.path(name).read_bytes()
        for start in range(0, len(data), 400):
            changed = bytearray(data)
            place = chance.randrange(start, min(start + 400, len(data)))
            changed[place] ^= 1 << chance.randrange(8)
            copy.write(name, bytes(changed))
            assert copy.verify(expect_head=head).unaltered is False, (name, place)
        copy.write(name, data)
    assert copy.verify(expect_head=head).unaltered is True

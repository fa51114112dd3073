"""Small real runs, and copies of them to tamper with."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.files import RunPaths
from hloop.plan.render import RenderedPlan
from hloop.provenance.verify import Verdict, verify
from supervised import Supervised, job, output, rendered

INPUT = b"what the jobs read\n"
JOBS = ("make", "other", "read", "last")
PER_JOB = ("scheduled_job.json", "run_record.json", "attempt_status.json")
FOLDER = {**output("folder"), "type": "directory"}


def small_plan(root: Path) -> RenderedPlan:
    """Two gpu jobs, one of which makes a directory and a checkpoint; a cpu job; an io job."""
    (root / "in.txt").write_bytes(INPUT)
    sha256 = hashlib.sha256(INPUT).hexdigest()
    make = 'mkdir -p "$0/empty"; echo x > "$0/x"; chmod +x "$0/x"; cat in.txt > "$1"; sleep 0.1'
    return rendered(
        root,
        job(
            "make",
            resource="gpu",
            command=["sh", "-c", make, "{run_dir}/folder", "{run_dir}/deep/er/copy"],
            inputs=[{"role": "text", "path": "in.txt", "sha256": sha256}],
            outputs=[
                FOLDER,
                {"role": "copy", "path": "{run_dir}/deep/er/copy", "checkpoint": "policy"},
            ],
            seed=3,
            candidate_id="a",
            budget={"max_seconds": 30.5},
        ),
        job(
            "other",
            resource="gpu",
            command=["sh", "-c", 'sleep 0.1; echo other > "$0"', "{run_dir}/other"],
            outputs=[output("other")],
            environment={"WHERE": "{run_dir}/other"},
            candidate_id="b",
        )
        | {"cuda_visible_devices": "1"},
        job(
            "read",
            command=["cat", "{run_dir}/folder/x", "{run_dir}/deep/er/copy"],
            inputs=[FOLDER, {"role": "copy", "path": "{run_dir}/deep/er/copy"}],
            depends_on=["make"],
        ),
        job(
            "last",
            resource="io",
            command=["sh", "-c", """echo '{"a": 1}' > "$0" """, "{run_dir}/selection.json"],
            outputs=[output("selection.json")],
            depends_on=["read", "other"],
        ),
        selection_artifact="{run_dir}/selection.json",
    )


def run_small(root: Path, mode: str = "hloop") -> None:
    """Run the small plan into ``root/run``, to its end."""
    root.mkdir(parents=True)
    supervised = Supervised(root)
    try:
        supervised.open(small_plan(root), mode=mode)
        for names in (("make", "other"), ("read",), ("last",)):
            supervised.ready(*names)
            assert set(supervised.ended(*names)) == {"completed"}
        assert supervised.close()["status"] == "completed"
    finally:
        supervised.end()


@dataclass(frozen=True)
class Copy:
    """A copy of a run and of its repository root, to tamper with.

    Attributes:
        repo_root: holds ``in.txt``, and the run directory as ``run``.
    """

    repo_root: Path

    @classmethod
    def of(cls, root: Path, where: Path) -> Copy:
        shutil.copytree(root, where, symlinks=True)
        return cls(where)

    @property
    def root(self) -> Path:
        return self.repo_root / "run"

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.root)

    def path(self, name: str) -> Path:
        return self.root / name

    def record(self, job_id: str, name: str) -> str:
        return f"jobs/{job_id}/{name}.json"

    def verify(self, **options: Any) -> Verdict:
        return verify(self.root, repo_root=self.repo_root, **options)

    def codes(self, **options: Any) -> set[str]:
        """The codes of what costs something, but that the run is exploratory."""
        verdict = self.verify(**options)
        return {finding.code for finding in verdict.findings} - {"not_formal"}

    def head(self) -> str:
        return "sha256:" + hashlib.sha256(self.paths.report.read_bytes()).hexdigest()

    # Tampering

    def write(self, name: str, data: bytes) -> None:
        """Put other bytes in a file's place; records are read-only."""
        path = self.path(name)
        path.unlink(missing_ok=True)
        path.write_bytes(data)

    def change(self, name: str, how: Callable[[bytes], bytes]) -> None:
        self.write(name, how(self.path(name).read_bytes()))

    def load(self, name: str) -> Any:
        return json.loads(self.path(name).read_bytes())

    def store(self, name: str, document: Any) -> None:
        if name in ("hloop_run.json", "plan.json"):
            self.write(name, json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n")
        else:
            self.write(name, canonical.dumps(document))

    def edit(self, name: str, how: Callable[[Any], object]) -> None:
        """Change a record's document, in its own form."""
        document = self.load(name)
        how(document)
        self.store(name, document)

    def seal(self, leave: str = "", jobs: Sequence[str] = JOBS) -> None:
        """Make the whole chain fit again, from the bottom to the top, as a forger would; but
        for what the record ``leave`` refers to."""
        self._refresh("manifest.json", lambda document: document["upstream"])
        for name in PER_JOB:
            for job_id in jobs:
                path = f"jobs/{job_id}/{name}"
                if path != leave and self.path(path).exists():
                    self._refresh(path, lambda document: document["upstream"])
        self._refresh("hloop_run.json", _references)

    def _refresh(self, name: str, references: Callable[[Any], Iterator[Any]]) -> None:
        try:
            document = self.load(name)
            changed = [self.renew(entry) for entry in references(document)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return  # It is tampered with itself.
        if any(changed):
            self.store(name, document)

    def renew(self, reference: dict[str, Any]) -> bool:
        """Make a reference fit to the file that it names."""
        path = Path(reference["path"].replace("${RUN_DIR}", str(self.root)))
        if not path.is_file():
            return False
        data = path.read_bytes()
        new = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        changed = any(reference[key] != value for key, value in new.items())
        reference |= new
        return changed

    def put_back_mtime(self, name: str, how: Callable[[Path], object]) -> None:
        """Change a file and leave its times as they were."""
        path = self.path(name)
        before = path.stat()
        how(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _references(report: Any) -> Iterator[Any]:
    for name in ("manifest", "journal"):
        yield report["evidence"][name]
    for entry in report["jobs"]:
        if entry["attempt_status"] is not None:
            yield entry["attempt_status"]

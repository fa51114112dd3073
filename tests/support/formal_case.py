"""A small formal run: authors' source with a reviewed patch, a manifest of it, and a plan.

Two methods train on one case with two seeds; one of them has a forward and a backward network.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TRAIN = """
import os, pathlib, sys
config, out, *roles = sys.argv[1:]
for role in roles:
    path = pathlib.Path(out, "checkpoints", f"{role}_00012.pt")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{role} of {pathlib.Path(config).read_text()}")
pathlib.Path(out, "seen.txt").write_text(os.environ.get("XDG_CACHE_HOME", "none"))
"""
EVALUATE = """
import json, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps({"success": True}))
"""
ROLES = {"repho": ["forward", "backward"], "ppo": ["policy"]}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class FormalCase:
    """Everything that ``hloop gate`` takes, in files that a test may spoil.

    Attributes:
        root: the repository root; ``source`` is the Git work tree in it.
        manifest, document: the author-fidelity manifest and the plan, for :meth:`write`.
    """

    def __init__(self, root: Path, *, seeds: tuple[int, ...] = (1, 2)):
        self.root = root
        self.source, self.inputs = root / "source", root / "inputs"
        self.fidelity = self.inputs / "author_fidelity.json"
        self.patch = self.inputs / "reviewed.patch"
        self.plan = root / "plan.json"
        self.gate = root / "gate/fidelity_gate.json"
        (self.inputs / "evidence").mkdir(parents=True)
        self.source.mkdir(parents=True)
        self._make_source()
        (root / "evaluate.py").write_text(EVALUATE)
        (self.inputs / "evidence/parity.json").write_text('{"parity": true}\n')
        (self.inputs / "reference.pt").write_text("given")
        self.manifest: dict[str, Any] = {
            "_type": "hloop/author_fidelity/v1",
            "protocol": "studio",
            "fidelity_class": "author_algorithm_preserving",
            "source": {"commit": self.commit},
            "methods": [self._method("repho"), self._method("ppo")],
            "required_gates": [
                {
                    "name": "parity",
                    "passed": True,
                    "evidence": [
                        {
                            "path": "evidence/parity.json",
                            "sha256": sha256(self.inputs / "evidence/parity.json"),
                        }
                    ],
                }
            ],
        }
        self.manifest["methods"][1]["checkpoints"] = [
            {
                "role": "reference",
                "path": "reference.pt",
                "sha256": sha256(self.inputs / "reference.pt"),
            }
        ]
        pairs = [(method, seed) for method in ROLES for seed in seeds]
        self.document: dict[str, Any] = {
            "schema_version": "mimicx.hloop-plan.v1",
            "plan_id": "formal",
            "jobs": [
                job
                for index, (method, seed) in enumerate(pairs)
                for job in self._jobs(method, seed, index % 2)
            ],
        }
        self.write()

    def write(self) -> None:
        """Write the manifest and the plan as they are now."""
        self.fidelity.write_text(json.dumps(self.manifest, indent=2))
        self.plan.write_text(json.dumps(self.document, indent=2))

    def arguments(self) -> list[str]:
        """What ``hloop`` is called with to make the gate."""
        options = {
            "--plan": self.plan,
            "--fidelity": self.fidelity,
            "--patch": self.patch,
            "--source": self.source,
            "--out": self.gate,
            "--repo-root": self.root,
        }
        return ["gate", *(str(item) for pair in options.items() for item in pair)]

    def git(self, *arguments: str) -> bytes:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(self.source), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def _make_source(self) -> None:
        (self.source / "configs").mkdir()
        for method in ROLES:
            (self.source / f"configs/{method}.yaml").write_text(f"method: {method}\n")
        (self.source / "train.py").write_text("raise SystemExit('as the authors left it')\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "the authors' commit")
        self.commit = self.git("rev-parse", "HEAD").decode().strip()
        (self.source / "train.py").write_text(TRAIN)
        self.patch.write_bytes(self.git("diff", "--binary"))

    def _method(self, method: str) -> dict[str, Any]:
        config = self.source / f"configs/{method}.yaml"
        return {
            "method": method,
            "configs": [
                {"case": "walk", "path": f"configs/{method}.yaml", "sha256": sha256(config)}
            ],
            "checkpoint_roles": list(ROLES[method]),
        }

    def _jobs(self, method: str, seed: int, device: int) -> list[dict[str, Any]]:
        folder, config = f"{{run_dir}}/walk/{method}/{seed}", f"source/configs/{method}.yaml"
        train, evaluate = f"train_{method}_{seed}", f"eval_{method}_{seed}"
        common = {
            "seed": seed,
            "candidate_id": f"walk_{method}",
            "formal": {"method": method, "case": "walk", "config": "config"},
            "budget": {"max_seconds": 60},
        }
        config_input = {"role": "config", "path": config, "sha256": sha256(self.root / config)}
        checkpoints = [f"{folder}/train/checkpoints/{role}_00012.pt" for role in ROLES[method]]
        inputs = [config_input]
        if method == "ppo":
            given = self.inputs / "reference.pt"
            inputs.append(
                {"role": "reference", "path": "inputs/reference.pt", "sha256": sha256(given)}
            )
        return [
            {
                "job_id": train,
                "resource": "gpu",
                "cuda_visible_devices": str(device),
                "command": [
                    *(sys.executable, "{repo_root}/source/train.py", f"{{repo_root}}/{config}"),
                    *(f"{folder}/train", *ROLES[method]),
                ],
                "inputs": inputs,
                "outputs": [
                    {"role": "seen", "path": f"{folder}/train/seen.txt", "compare": "none"},
                    *(
                        {"role": f"checkpoint_{role}", "path": path, "checkpoint": role}
                        for role, path in zip(ROLES[method], checkpoints, strict=True)
                    ),
                ],
                **common,
            },
            {
                "job_id": evaluate,
                "resource": "cpu",
                "depends_on": [train],
                "command": [
                    *(sys.executable, "{repo_root}/evaluate.py"),
                    *(f"{folder}/eval/evaluation.json", *checkpoints),
                ],
                "inputs": [
                    config_input,
                    *({"role": Path(path).stem, "path": path} for path in checkpoints),
                ],
                "outputs": [{"role": "evaluation", "path": f"{folder}/eval/evaluation.json"}],
                **common,
            },
        ]

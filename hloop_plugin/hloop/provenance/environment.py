"""The software that a run uses: Python, its packages, and variables by an allow-list.

No variable is written down that does not stand in the list, since any other may hold a secret.
Nothing is started: a conda environment is read from its own records.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from hloop import __version__, canonical
from hloop.plan.paths import inside
from hloop.portable import Portable

VARIABLES = (
    # Which devices there are, and how they are numbered.
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),
    # How CUDA and its libraries work.
    *("CUDA_HOME", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS"),
    *("CUDA_CACHE_DISABLE", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"),
    # How many threads share a sum.
    *("OMP_NUM_THREADS", "OMP_DYNAMIC", "OMP_PROC_BIND", "OMP_PLACES", "OMP_SCHEDULE"),
    *("MKL_NUM_THREADS", "MKL_DYNAMIC", "MKL_CBWR", "KMP_AFFINITY", "GOMP_CPU_AFFINITY"),
    *("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("NUMEXPR_MAX_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"),
    # Python, and how texts are read, sorted and dated.
    *("PYTHONHASHSEED", "PYTHONOPTIMIZE", "PYTHONUTF8", "PYTHONNOUSERSITE"),
    *("LANG", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_NUMERIC", "TZ", "SOURCE_DATE_EPOCH"),
    # The frameworks.
    *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_JIT"),
    *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCHDYNAMO_DISABLE"),
    *("XLA_FLAGS", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
    *("XLA_PYTHON_CLIENT_ALLOCATOR", "JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_DISABLE_JIT"),
    *("JAX_DEFAULT_MATMUL_PRECISION", "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC"),
    *("TF_ENABLE_ONEDNN_OPTS", "TF_ENABLE_AUTO_MIXED_PRECISION", "TF_FORCE_GPU_ALLOW_GROWTH"),
    *("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS"),
    # What draws.
    *("MUJOCO_GL", "PYOPENGL_PLATFORM", "MUJOCO_EGL_DEVICE_ID", "EGL_DEVICE_ID"),
    # Where the software is from, and what gave the run its place.
    *("CONDA_DEFAULT_ENV", "CONDA_PREFIX", "VIRTUAL_ENV"),
    *("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_PARTITION"),
    *("SLURM_JOB_NODELIST", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"),
    *("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"),
    *("PBS_JOBID", "LSB_JOBID"),
)
"""The variables that are written down: they decide results or placement, and hold no secret."""

# A conda channel may carry a user with a password, a token as its first folder, or a query.
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@|/t/[^/]+(?=/|$)|[?#].*$")


def environment_facts(
    environ: Mapping[str, str], snakemake: str | None, portable: Portable
) -> dict[str, Any]:
    """Give what a manifest says of the software.

    Args:
        environ: the environment that the run inherits.
        snakemake: its version; None where no Snakemake takes part.
        portable: makes paths in the variables portable.
    """
    return {
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
        },
        "packages": packages(),
        "snakemake": snakemake,
        "hloop": __version__,
        "variables": {
            name: portable.text(valid_text(environ[name])) for name in VARIABLES if name in environ
        },
        "conda_export_digest": conda_export_digest(environ),
    }


def packages() -> dict[str, str]:
    """Give every installed distribution with its version, by its normalised name.

    Of one that is installed twice, the one that is imported counts. One whose metadata cannot
    be read is left out.
    """
    found: dict[str, str] = {}
    for distribution in distributions():
        try:
            name, version = _name_and_version(distribution)
            # The rule of the packaging specifications.
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), valid_text(version))
        except Exception:
            # Whatever a foreign file can be wrong in: it must not stop a run.
            continue
    return dict(sorted(found.items()))


def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    """Read what ``distribution.metadata`` has, which parses each package's whole description."""
    files = ("METADATA", "PKG-INFO", "")
    text = next(text for text in map(distribution.read_text, files) if text)
    header = text.partition("\n\n")[0]
    name, version = (
        re.search(rf"(?im)^{key}:[ \t]*(.*?)[ \t]*$", header) for key in ("Name", "Version")
    )
    assert name is not None and version is not None
    return name[1], version[1]


def conda_export_digest(environ: Mapping[str, str]) -> str | None:
    """Give one digest over the packages of the conda environment that this Python is in.

    It is over one canonical line for each record in ``conda-meta``, sorted: the record's file
    name, and the package's name, version, build, channel, url, sha256 and md5, null where one
    is not known. Credentials are taken out of the addresses. None outside of conda.
    """
    given = environ.get("CONDA_PREFIX")
    if not given:
        return None
    prefix, here = os.path.realpath(given), os.path.realpath(sys.prefix)
    records = Path(prefix, "conda-meta")
    if not (here == prefix or inside(here, prefix)) or not records.is_dir():
        return None
    lines = sorted(_package_line(path) for path in records.glob("*.json"))
    return "sha256:" + hashlib.sha256(b"".join(lines)).hexdigest()


def _package_line(path: Path) -> bytes:
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        record = None
    found: dict[str, str | None] = {"file": valid_text(path.name)}
    for key in ("name", "version", "build", "channel", "url", "sha256", "md5"):
        value = record.get(key) if isinstance(record, dict) else None
        found[key] = _CREDENTIALS.sub("", valid_text(value)) if isinstance(value, str) else None
    return canonical.dumps(found)


def valid_text(text: str) -> str:
    """Write lone surrogates, in which Python keeps bytes that are no UTF-8, as ``\\udcff``."""
    return text.encode(errors="backslashreplace").decode()

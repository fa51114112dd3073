"""Pools of machines: which architecture of GPU a pool has, from a table that names it.

A pool that the table does not know is an error and never a default: programs that are built for
another architecture fail only once they are on the device. Only the table is read.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from hloop.errors import Problem, WorkloadError
from hloop.plan.contract import format_problems
from hloop.plan.document import read_document


def architecture_of(pool: str, table: Path) -> str:
    """Give the architecture of a pool, such as ``sm_90``.

    Args:
        pool: its name.
        table: a file of the format ``hloop.pools.v1``.

    Raises:
        WorkloadError: the table is not there or wrong; no entry matches, or several that do not
            agree.
        PlanError: the table cannot be read.
    """
    if not table.exists():
        action = "Write it, as in docs/sweeps.md, or name another with --pools"
        problem = Problem("no_pools", "", "there is no such table of pools", action=action)
        raise WorkloadError(problem, file=table)
    document, problems = read_document(table)
    if problems := [*problems, *format_problems(document, "pools")]:
        raise WorkloadError(problems, file=table)
    pools: Mapping[str, str] = document["pools"]
    if pool in pools:
        return pools[pool]
    matching = {pattern: sm for pattern, sm in pools.items() if fnmatchcase(pool, pattern)}
    found = set(matching.values())
    if len(found) == 1:
        return found.pop()
    if found:
        listed = ", ".join(f"{pattern!r} ({sm})" for pattern, sm in matching.items())
        problem = Problem(
            "pool_ambiguous", "pools", f"the pool {pool!r} matches {listed}", "one architecture"
        )
    else:
        plain = {pattern.strip("*"): pattern for pattern in pools}
        close = difflib.get_close_matches(pool, plain, 1)
        problem = Problem(
            "unknown_pool",
            "pools",
            f"no entry matches the pool {pool!r}",
            f"one of {', '.join(map(repr, pools))}",
            f"Did you mean {plain[close[0]]!r}?" if close else "Add it with its architecture",
        )
    raise WorkloadError(problem, file=table)

"""The errors that hloop raises for what a user can mend.

An error holds fields first and makes its text from them: what was found, what was
expected, what to do, and where (file and dotted path). A traceback is for bugs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a file, found by validation or lint.

    Attributes:
        code: stable name of the rule, in snake_case.
        where: dotted path inside the file, e.g. ``jobs[3].outputs[0].path``; "" for the whole.
        found: what stands there, as a sentence without a final stop.
        expected: what should stand there; may be "".
        action: what to do; may be "".
    """

    code: str
    where: str
    found: str
    expected: str = ""
    action: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.found}" if self.where else self.found
        if self.expected:
            text += f"; expected {self.expected}"
        if self.action:
            text += f". {self.action}"
        return text

    def to_dict(self) -> dict[str, str]:
        return {
            "code": self.code,
            "where": self.where,
            "found": self.found,
            "expected": self.expected,
            "action": self.action,
        }


def first_of(names: Sequence[str], most: int = 3) -> str:
    """Give the first names, and how many more there are: ``a, b, c and 9 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


class HloopError(Exception):
    """Something that a user can mend.

    Attributes:
        problems: everything that is wrong, at least one.
        file: the file it is wrong in, if any.
        exit_code: what the command line exits with: 2, the question could not be answered.
    """

    exit_code = 2

    def __init__(self, problems: Problem | Sequence[Problem] | str, *, file: object = None):
        if isinstance(problems, str):
            problems = Problem(code="error", where="", found=problems)
        self.problems: tuple[Problem, ...] = (
            (problems,) if isinstance(problems, Problem) else tuple(problems)
        )
        self.file = None if file is None else str(file)
        super().__init__(str(self))

    def __str__(self) -> str:
        prefix = f"{self.file}: " if self.file else ""
        if len(self.problems) == 1:
            return f"{prefix}{self.problems[0]}"
        lines = [f"{prefix}{len(self.problems)} problems"]
        return "\n".join(lines + [f"  {problem}" for problem in self.problems])

    def to_dict(self) -> dict[str, object]:
        return {
            "error": type(self).__name__,
            "file": self.file,
            "problems": [problem.to_dict() for problem in self.problems],
        }


class PlanError(HloopError):
    """A plan that cannot be read or that breaks a rule."""


class WorkloadError(HloopError):
    """A workload configuration that gives no plan."""


class DeviceError(HloopError):
    """Devices that are asked for and are not there, or that cannot be told apart."""


class RunDirectoryError(HloopError):
    """A run directory that is in use, not empty, or not one."""


class ReportError(HloopError):
    """A run report that cannot be read or is of a foreign format."""

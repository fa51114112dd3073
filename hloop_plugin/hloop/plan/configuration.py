"""Configuration files: read, and held against the schema of their format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hloop.errors import Problem, WorkloadError
from hloop.plan.contract import schema_problems
from hloop.plan.document import read_document
from hloop.plan.load import _value_problems as value_problems


def read_configuration(path: Path, schema: str) -> dict[str, Any]:
    """Read a configuration and hold it against ``schemas/<schema>.schema.json``.

    Raises:
        PlanError: the file cannot be read, or has an error of syntax.
        WorkloadError: everything else that is wrong with its form.
    """
    document, problems = read_document(path)
    demand_form(document, problems, schema, path)
    return document


def demand_form(document: Any, problems: list[Problem], schema: str, file: Path) -> None:
    """Hold a document that was read with ``problems`` against a schema.

    Raises:
        WorkloadError: everything that is wrong with its form.
    """
    problems = [*problems, *value_problems(document, "")]
    if not any(problem.code == "key_not_text" for problem in problems):
        problems += schema_problems(document, schema)
    if problems:
        raise WorkloadError(problems, file=file)

"""The page on the run report names what the schema does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hloop.files import data_dir

PAGE = Path(__file__).parents[2] / "docs" / "run-report.md"


def named(text: str) -> set[str]:
    """Give the code words in the first column of the page's tables."""
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([a-z_]+)`", cell)}


def test_every_field_of_the_run_report_stands_in_the_tables() -> None:
    schema = json.loads((data_dir("schemas") / "hloop-run.schema.json").read_text())
    fields = schema["properties"].keys() | schema["properties"]["jobs"]["items"]["properties"]
    assert fields - named(PAGE.read_text()) == set()

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_run import SyntheticRun, make_pair


@pytest.fixture
def pair(tmp_path: Path) -> tuple[SyntheticRun, SyntheticRun]:
    """Two runs of one plan with the same results."""
    return make_pair(tmp_path / "repo")

"""The executor's last words: how the run ended, where its report is, and then its page."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def say_goodbye(goodbye: dict[str, Any], say: Callable[[str], None], *, claimed: bool) -> None:
    """Say how the run ended and where its report is; then have the page of a claimed run made.

    Raises:
        WorkflowError: there is no report.
    """
    from hloop.run.page import is_wanted, make_page
    from hloop.run.report import goodbye_text
    from snakemake.exceptions import WorkflowError

    if trouble := goodbye.get("trouble"):
        action = "Mend that; then hloop recover writes it"
        raise WorkflowError(f"hloop: {trouble}. {action}" if claimed else f"hloop: {trouble}")
    if not goodbye.get("status"):
        return
    say(f"hloop: {goodbye_text(goodbye)}")
    if not (claimed and is_wanted()):
        return
    if trouble := make_page(os.path.dirname(goodbye["report"])):
        say(f"hloop: {trouble}")

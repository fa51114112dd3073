"""What is written down when a supervisor died: its run is closed in its place."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from hloop.errors import HloopError
from hloop.plan.render import RenderedPlan
from hloop.run.opening import RunOpening
from hloop.run.planrun import PlanRun
from hloop.run.rulerun import RuleRun


def close_run(
    trouble: str,
    unheard: Collection[str],
    rendered: RenderedPlan | None,
    rules: RunOpening | None,
) -> dict[str, Any] | None:
    """Write the report of a run whose supervisor died. Gives what the executor prints.

    Args:
        trouble: why it died.
        unheard: the jobs, by the names that the supervisor had for them, that had not come back.
        rendered: the plan that was run; None without one.
        rules: the run whose records the jobs of no plan got; None where they got none.

    Returns:
        None where the run had neither.
    """
    try:
        rule_run = None
        if rules is not None:
            rule_run = RuleRun.attach(Path(rules.run_dir), Path(rules.repo_root))
            rule_run.supervisor_died(trouble, unheard)
        if rendered is None:
            return None if rule_run is None else rule_run.close(interrupted=False)
        if rule_run is not None:
            rule_run.leave()
        run = PlanRun.attach(rendered)
        run.supervisor_died(trouble, unheard)
        return run.close(interrupted=False)
    except (OSError, HloopError) as error:
        return {"trouble": f"the run report cannot be written: {error}"}

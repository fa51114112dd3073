"""The report page of one run: the verdict first, then where the time went, then every job.

What a reader must not miss is in the page itself; scripts draw the timeline and the job table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hloop.provenance.findings import CATALOGUE, ELIGIBLE, Finding
from hloop.report.html import (
    Markup,
    asset,
    element,
    file_href,
    join,
    page,
    section,
    table,
)
from hloop.report.rundata import UNDER_WAY, RunData, timeline_data
from hloop.report.whenpage import (
    critical_path_section,
    device_idle,
    facts_list,
    idle_section,
    seconds,
    timeline_block,
    timeline_section,
    warning,
)

MAX_FAILURES = 20
MAX_FINDINGS = 3
"""Of each code that many are shown; hloop verify shows more."""
MAX_ARTIFACTS = 5000
MAX_SELECTION = 20_000

_SIGNS = {"completed": "✓", "failed": "✗", "interrupted": "■", UNDER_WAY: "▶"}
_FAILED = ("failed", "timed_out", "stalled")


def run_page(run: RunData, folder: Path) -> str:
    """Give the page.

    Args:
        folder: where it will lie; links to files of the run start there.
    """
    base = os.path.relpath(run.run_dir.absolute(), folder.absolute())
    data = timeline_data(run, base)
    band = data["bands"][0]
    document = run.document
    name = str(document.get("plan_id", "a run"))
    body = join(
        [
            element("header", element("p", "hloop run", class_="kind"), element("h1", name)),
            element(
                "main",
                _verdict(run, band),
                *_failures(run, base),
                timeline_section(),
                *idle_section(band),
                critical_path_section(band),
                *_selection(document),
                section("Jobs", element("div", id="jobs")),
                *_rules(document),
                _artifacts(data),
                _origin(document),
            ),
            timeline_block(**data),
        ],
        "\n",
    )
    title = f"{name}: {document.get('status', 'completed')}"
    return page(title, body, scripts=[asset("timeline.js"), asset("jobs.js"), asset("start.js")])


# The verdict


def _verdict(run: RunData, band: Mapping[str, Any]) -> Markup:
    document = run.document
    status = str(document.get("status", "completed"))
    counts: dict[str, int] = {}
    for job in run.jobs:
        fate = job.get("status", "completed")
        counts[fate] = counts.get(fate, 0) + 1
    told = ", ".join(f"{count} {fate}" for fate, count in counts.items()) or "no jobs"
    elapsed = document.get("elapsed_seconds")
    took = "" if elapsed is None else f" in {seconds(elapsed)}"
    lines = [
        element(
            "p",
            element("span", _SIGNS.get(status, "?"), class_="sign", aria_hidden="true"),
            element("strong", status),
            element("span", f"{told}{took}", class_="told"),
            class_=f"status {status}",
        ),
    ]
    if status == UNDER_WAY:
        lines.append(warning("The run goes on: this page shows what its journal held."))
    elif not run.has_report:
        lines.append(
            warning("There is no hloop_run.json: this page shows what the run's journal holds.")
        )
    lines.append(_verification(run))
    if resumed := (document.get("evidence") or {}).get("resumed"):
        lines.append(
            warning(
                f"Resumed, {len(resumed) + 1} sessions: its time is not that of a run in one "
                "piece, and what jobs that ran again did before is in resumed/."
            )
        )
    if any(device.get("simulated") for device in document.get("devices", ())):
        lines.append(
            warning("Simulated devices: only the right to use one was scheduled, no GPU was used.")
        )
    return element("section", *lines, _facts(run, band), class_="verdict", aria_label="verdict")


def _verification(run: RunData) -> Markup:
    verdict = run.verdict
    if verdict is None:
        return element("p", run.unverified, " ", element("code", str(run.run_dir)), class_="quiet")
    words = {True: "yes", False: "no", None: "cannot be decided"}
    parts = [("complete", verdict.complete), ("unaltered", verdict.unaltered)]
    # Only a formal run can be eligible, and only there does it count.
    if verdict.run_kind == "formal":
        parts.append(("eligible", verdict.eligible))
    holds = {0: "verified", 1: "verified, and it does not hold", 2: "verified, and not decided"}
    sentence = ", ".join(f"{name}: {words[value]}" for name, value in parts)
    good = verdict.exit_code == 0
    head = element(
        "p",
        element("span", "✓" if good else "✗", class_="sign", aria_hidden="true"),
        element("strong", holds[verdict.exit_code]),
        element("span", sentence, class_="told"),
        class_=f"status {'completed' if good else 'failed'} small",
    )
    findings = [finding for finding in verdict.findings if _counts(finding.code, verdict.run_kind)]
    if not findings:
        return head
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code, []).append(finding)
    shown = [_finding_group(code, group) for code, group in groups.items()]
    return join([head, element("ul", *shown, class_="findings")])


def _finding_group(code: str, group: Sequence[Finding]) -> Markup:
    parts: list[object] = [element("code", code), f" {CATALOGUE[code].meaning}"]
    told = [
        f"{finding.where}: {finding.found}"
        + (f"; expected {finding.expected}" if finding.expected else "")
        for finding in group[:MAX_FINDINGS]
    ]
    if len(group) > MAX_FINDINGS:
        told.append(f"and {len(group) - MAX_FINDINGS} more")
    lines = [element("li", line) for line in told]
    return element("li", *parts, element("ul", *lines, class_="quiet"))


def _counts(code: str, run_kind: str | None) -> bool:
    """Whether a finding costs a run of this kind something."""
    rule = CATALOGUE[code]
    return run_kind == "formal" or (rule.denies | rule.clouds) != {ELIGIBLE}


def _facts(run: RunData, band: Mapping[str, Any]) -> Markup:
    document = run.document
    scheduling: Mapping[str, Any] = document.get("scheduling") or {}
    bound = scheduling.get("lower_bound") or {}
    efficiency = scheduling.get("efficiency")
    makespan = scheduling.get("makespan_seconds")
    facts: list[tuple[str, object]] = [("mode", document.get("mode"))]
    if document.get("mode") == "external":
        facts.append(("executor", document.get("executor")))
    facts.append(("placement", scheduling.get("placement")))
    if makespan is not None:
        facts.append(("makespan", seconds(makespan)))
    if bound:
        facts.append(("lower bound", f"{seconds(bound['seconds'])}, by {bound['limiting']}"))
    if efficiency is not None:
        facts.append(("bound over makespan", f"{efficiency:.1%}"))
    if (idle := device_idle(band)) is not None:
        facts.append(("devices idle", f"{idle.share:.0%} of the time"))
    facts += [("started", document.get("started_at")), ("kind", document.get("run_kind"))]
    if run.head is not None:
        facts.append(("head", element("code", run.head)))
    return facts_list(facts)


# What went wrong


def _failures(run: RunData, base: str) -> Iterator[Markup]:
    failed = [job for job in run.jobs if job.get("status") in _FAILED]
    if not failed:
        return
    # The first to fail is what a reader looks for; those that never started come last.
    failed.sort(key=lambda job: (job.get("end_offset_ns") is None, job.get("end_offset_ns") or 0))
    shown = [_failure(job, base) for job in failed[:MAX_FAILURES]]
    if len(failed) > MAX_FAILURES:
        shown.append(element("p", f"and {len(failed) - MAX_FAILURES} more; see the jobs"))
    yield section("What failed", *shown)


def _failure(job: Mapping[str, Any], base: str) -> Markup:
    failure = job.get("failure") or {}
    parts: list[object] = [
        element("h3", job["job_id"]),
        element("p", f"{job['status']}: {failure.get('message', 'no reason is recorded')}"),
    ]
    if failure.get("stderr_tail"):
        parts.append(element("pre", failure["stderr_tail"], tabindex="0"))
    log = job.get("stderr_log") or ""
    if log.startswith("${RUN_DIR}/"):
        href = file_href(os.path.join(base, log.removeprefix("${RUN_DIR}/")))
        parts.append(element("p", element("a", log, href=href), class_="quiet"))
    return element("article", *parts, class_="failure")


# What came of it


def _selection(document: Mapping[str, Any]) -> Iterator[Markup]:
    if document.get("selection_artifact") is None and not document.get("selection"):
        return
    selection = document.get("selection")
    if not selection:
        yield section("Selection", element("p", "No selection was made."))
        return
    value = json.dumps(selection.get("value"), indent=2, ensure_ascii=False)
    if len(value) > MAX_SELECTION:
        value = f"{value[:MAX_SELECTION]}\n… {len(value)} characters in all"
    facts = [
        ("file", document.get("selection_artifact")),
        ("sha256", element("code", selection["sha256"])),
    ]
    yield section("Selection", facts_list(facts), element("pre", value, tabindex="0"))


def _rules(document: Mapping[str, Any]) -> Iterator[Markup]:
    if rules := document.get("rules"):
        heads = ("attempt", "rule", "status", "why")
        rows = [
            (
                entry["name"],
                entry["rule"],
                entry["status"],
                (entry["failure"] or {}).get("message", ""),
            )
            for entry in rules
        ]
        yield section("Jobs of rules", table(heads, rows))


def _artifacts(data: Mapping[str, Any]) -> Markup:
    """List every input and output once, by number: what no job made comes first."""
    jobs = data["bands"][0]["jobs"]
    makers: dict[int, str] = {n: job["id"] for job in jobs for n in job["outputs"]}
    read = {n for job in jobs for n in job["inputs"]}
    made_paths = {data["artifacts"][n][1] for n in makers}
    outside = [n for n in sorted(read) if data["artifacts"][n][1] not in made_paths]
    numbers = [*outside, *makers]
    rows = [
        (
            element("code", path),
            role,
            makers.get(number, "input"),
            "" if size is None else f"{size:,}",
            element("code", sha256 or "not read"),
        )
        for number in numbers[:MAX_ARTIFACTS]
        for role, path, size, sha256 in [data["artifacts"][number]]
    ]
    note = f"{len(outside)} inputs from outside, {len(makers)} outputs."
    if len(numbers) > MAX_ARTIFACTS:
        note += f" The first {MAX_ARTIFACTS:,} are listed; hloop_run.json has all."
    heads = ("path", "role", "made by", "bytes", "sha256")
    listed = table(heads, rows, class_="digests")
    summary = element("summary", note)
    return section("Inputs and outputs", element("details", summary, listed))


def _origin(document: Mapping[str, Any]) -> Markup:
    devices = [
        (
            device["logical"],
            device.get("token") or "",
            device.get("uuid") or "",
            device.get("name") or "",
            "simulated" if device.get("simulated") else "",
        )
        for device in document.get("devices", ())
    ]
    facts = [*(document.get("host") or {}).items(), *(document.get("versions") or {}).items()]
    names = ("plan_semantic_hash", "experiment_digest", "placement_digest", "session_id")
    digests = [(name, element("code", document[name])) for name in names if document.get(name)]
    parts: list[object] = []
    if devices:
        parts.append(table(("device", "token", "uuid", "model", ""), devices, class_="plain"))
    return section("Where it ran", *parts, facts_list([*facts, *digests]))

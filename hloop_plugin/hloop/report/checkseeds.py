"""Was a seed used, or only accepted? Told from the outputs of jobs that differ in it alone.

The same seed twice must give the same outputs, and another seed others. That a file says which
seed and which job it is of does not count. Nothing is run and nothing is written.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

from hloop.errors import PlanError, Problem, ReportError
from hloop.files import RunPaths
from hloop.plan.load import load_plan
from hloop.plan.model import Job
from hloop.report.load import RunReport, load_report
from hloop.report.seedoutputs import digests_without, numbers_of, text_of

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class _Ran:
    """A completed job with a seed.

    Attributes:
        told: the numbers that its command has of its seed: itself, and the seeds of modules.
    """

    run_dir: Path
    entry: Entry
    told: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.run_dir.name}/{self.entry['job_id']}"

    @property
    def seed(self) -> int:
        return int(self.entry["seed"])


def check_seeds(run_dirs: Sequence[Path]) -> dict[str, Any]:
    """Hold all jobs against each other that differ in their seed alone, in one or more runs.

    Returns:
        ``groups``: of each such group its ``command``, ``jobs`` and ``seeds``; ``findings``: of
        each its ``code`` (``seed_ignored`` or ``not_reproducible``), two ``seeds`` and two
        ``jobs``, the first with which it is so and another; ``different`` and ``repeated``: how
        many pairs of each kind were compared; ``passed``: None where no two seeds could be
        compared and nothing was found.

    Raises:
        ReportError: a report cannot be read, or two are of the same run.
    """
    reports: dict[str, RunReport] = {}
    for report in map(load_report, run_dirs):
        if report.sha256 in reports:
            other = reports[report.sha256].path
            problem = Problem("same_run", "", f"the same run as {other}", "another run")
            raise ReportError(problem, file=report.path)
        reports[report.sha256] = report
    groups = _groups(list(reports.values()))
    findings = [finding for group in groups for finding in _findings(group)]
    pairs = sum(comb(len(group), 2) for group in groups)
    repeated = sum(
        comb(count, 2) for group in groups for count in Counter(r.seed for r in group).values()
    )
    return {
        "groups": [
            {
                "command": list(group[0].entry["command"]),
                "jobs": [ran.name for ran in group],
                "seeds": sorted({ran.seed for ran in group}),
            }
            for group in groups
        ],
        "findings": findings,
        "different": pairs - repeated,
        "repeated": repeated,
        "passed": False if findings else True if pairs > repeated else None,
    }


# Which jobs differ in their seed alone


def _groups(reports: Sequence[RunReport]) -> list[list[_Ran]]:
    """Give the completed jobs with a seed, those together that differ in it alone."""
    jobs = [(report, entry) for report in reports for entry in report.jobs.values()]
    planned = {report.path: _planned(report.run_dir) for report in reports}
    words = [_words(entry, planned[report.path].get(entry["job_id"])) for report, entry in jobs]
    groups: dict[str, list[_Ran]] = defaultdict(list)
    # What jobs do, their seeds left out: also of those that others depend on.
    deeds: dict[tuple[Path, str], str] = {}
    makers: dict[tuple[Path, str], str] = {}
    for (report, entry), (text, told) in zip(jobs, _without_seeds(jobs, words), strict=True):
        before = {makers.get((report.path, path["path"])) for path in entry.get("inputs") or ()}
        if plan := planned[report.path].get(entry["job_id"]):
            before |= {deeds.get((report.path, job_id)) for job_id in plan.depends_on}
        whole = "\0".join((text, *sorted(filter(None, before))))
        deed = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()
        deeds[report.path, entry["job_id"]] = deed
        makers |= {(report.path, path["path"]): deed for path in entry.get("outputs") or ()}
        if entry.get("seed") is not None and entry.get("status") == "completed":
            ran = _Ran(report.run_dir, entry, told)
            if _outputs(ran):
                roles = " ".join(output["role"] for output in _outputs(ran))
                groups[f"{deed} {roles}"].append(ran)
    return list(groups.values())


def _planned(run_dir: Path) -> dict[str, Job]:
    """Give the jobs of the run's plan, which say more than its report; none of a foreign run."""
    try:
        return load_plan(RunPaths(run_dir).plan).by_id()
    except PlanError:
        return {}


def _words(entry: Entry, planned: Job | None) -> str:
    """Give what a job is told and what it reads, without its names and places in the run."""
    told = list(entry["command"])
    if planned is not None:
        told += [f"{name}={value}" for name, value in sorted(planned.environment.items())]
    paths: dict[str, str] = {}
    registered = []
    for kind in ("inputs", "outputs"):
        for path in entry.get(kind) or ():
            if path["path"].startswith("${RUN_DIR}"):
                paths[path["path"]] = f"<{kind}.{path['role']}>"
            else:
                registered.append(f"{path['role']} {path.get('sha256')}")
    words = [str(entry.get("resource"))]
    for item in told:
        # The longest first: a folder's path begins that of a file in it.
        for place in sorted(paths, key=len, reverse=True):
            item = item.replace(place, paths[place])
        item = re.sub(r"\$?\{(?:RUN_DIR|run_dir)\}[^\s=,:]*", "<run_dir>", item)
        # Of names that only tell jobs of a sweep apart: they have a number.
        words.append(_without_names(item, (n for n in _names(entry) if re.search(r"\d", n))))
    return "\n".join([*words, *sorted(_digitless(text) for text in registered)])


def _digitless(text: str) -> str:
    """Write a digest so that no part of it is taken for a number."""
    return text.translate(str.maketrans("0123456789", "ghijklmnop"))


def _names(entry: Entry) -> list[str]:
    names = {str(name) for name in (entry["job_id"], entry.get("candidate_id")) if name}
    return sorted(names, key=len, reverse=True)


def _without_names(text: str, names: Iterable[str]) -> str:
    for name in names:
        if name in text:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "<name>", text)
    return text


def _without_seeds(
    jobs: Sequence[tuple[RunReport, Entry]], words: Sequence[str]
) -> list[tuple[str, frozenset[str]]]:
    """Take out of the words of each job where it is told its seed; give also these numbers."""
    numbers = [numbers_of(text) for text in words]
    forms: dict[str, list[int]] = defaultdict(list)
    for index, (form, _) in enumerate(numbers):
        if jobs[index][1].get("seed") is not None:
            forms[form].append(index)
    found = [(text, frozenset[str]()) for text in words]
    for form, members in forms.items():
        seeds = [int(jobs[index][1]["seed"]) for index in members]
        columns = zip(*(numbers[index][1] for index in members), strict=True)
        places = {place for place, column in enumerate(columns) if _tells(seeds, column)}
        for index, seed in zip(members, seeds, strict=True):
            own = numbers[index][1]
            kept = ["" if place in places else number for place, number in enumerate(own)]
            told = {str(abs(seed)), *(own[place] for place in places)}
            found[index] = "\0".join((form, *kept)), frozenset(told)
    return found


def _tells(seeds: Sequence[int], numbers: Sequence[str]) -> bool:
    """Say whether one place in the words of alike jobs tells each its seed, or a module's."""
    if all(number == str(abs(seed)) for seed, number in zip(seeds, numbers, strict=True)):
        return True
    by_seed: dict[int, set[str]] = defaultdict(set)
    for seed, number in zip(seeds, numbers, strict=True):
        by_seed[seed].add(number)
    if any(len(own) > 1 for own in by_seed.values()):
        return False
    # Of up to 64 bits, but for the default seed, which leaves the module's base.
    return len(by_seed) - 1 <= sum(16 <= len(number) <= 20 for (number,) in by_seed.values()) > 0


# What they gave


def _outputs(ran: _Ran) -> list[Entry]:
    entries = ran.entry.get("outputs") or ()
    return [e for e in entries if e.get("compare") != "none" and e.get("sha256")]


def _findings(group: Sequence[_Ran]) -> Iterator[dict[str, Any]]:
    contents = _contents(group)
    by_seed: dict[int, int] = {}
    by_content: dict[tuple[str, ...], int] = {}
    for index, ran in enumerate(group):
        first = by_seed.setdefault(ran.seed, index)
        if contents[index] != contents[first]:
            yield _finding("not_reproducible", group[first], ran)
        first = by_content.setdefault(contents[index], index)
        if group[first].seed != ran.seed:
            yield _finding("seed_ignored", group[first], ran)


def _finding(code: str, one: _Ran, two: _Ran) -> dict[str, Any]:
    return {"code": code, "seeds": [one.seed, two.seed], "jobs": [one.name, two.name]}


def _contents(group: Sequence[_Ran]) -> list[tuple[str, ...]]:
    """Give for each job what its outputs hold, as digests."""
    whole = [tuple(str(entry["sha256"]) for entry in _outputs(ran)) for ran in group]
    # What is the same byte for byte is read once.
    distinct = {digests: ran for digests, ran in zip(whole, group, strict=True)}
    if len(distinct) == 1:
        return whole
    told = [ran.told for ran in distinct.values()]
    columns = zip(*(_texts(ran) for ran in distinct.values()), strict=True)
    rows = zip(*(digests_without(told, texts) for texts in columns), strict=True)
    contents = dict(zip(distinct, rows, strict=True))
    return [contents[digests] for digests in whole]


def _texts(ran: _Ran) -> list[Callable[[], str]]:
    return [partial(_text, ran, entry) for entry in _outputs(ran)]


def _text(ran: _Ran, entry: Entry) -> str:
    text = text_of(ran.run_dir, entry)
    for folder in {str(ran.run_dir.absolute()), str(ran.run_dir.resolve())}:
        text = re.sub(rf"{re.escape(folder)}(?:/[^\s\"',:;]*)?(?![\w.-])", "<run_dir>", text)
    return _without_names(text, _names(ran.entry))

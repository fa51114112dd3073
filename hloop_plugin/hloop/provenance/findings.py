"""What ``hloop verify`` may find, by stable codes, and what each of them costs.

A code says what is wrong, what to do and which parts of the verdict it settles. Nothing here
looks at a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

COMPLETE = "complete"
UNALTERED = "unaltered"
ELIGIBLE = "eligible"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a code stands for.

    Attributes:
        meaning: a sentence without a final stop.
        action: what to do, a sentence without a final stop.
        denies: the parts of the verdict that are false then.
        clouds: the parts that cannot be decided then.
    """

    meaning: str
    action: str
    denies: frozenset[str]
    clouds: frozenset[str] = frozenset()

    @property
    def is_note(self) -> bool:
        return not self.denies and not self.clouds


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that verification found.

    Attributes:
        code: a key of :data:`CATALOGUE`.
        where: a portable path, or the id of a job.
        found: what is there, a sentence without a final stop.
        expected: what should be there; may be "".
    """

    code: str
    where: str
    found: str
    expected: str = ""

    @property
    def action(self) -> str:
        return CATALOGUE[self.code].action

    def to_dict(self) -> dict[str, str]:
        return {
            "code": self.code,
            "where": self.where,
            "found": self.found,
            "expected": self.expected,
            "action": self.action,
        }


def shown(text: str) -> str:
    """Give a text that can be printed, whatever a file or its name holds."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


_ASK = "Ask for the run directory as it was when the head was taken; this one proves nothing"
_ASK_SIGNED = "Ask for the run directory as it was when it was signed"
_REPORT_OF_A_BUG = "Nothing that hloop writes looks like this: take the run for altered"
_RERUN = "Run the plan again in a new run directory"

_BOTH = frozenset({COMPLETE, UNALTERED})
_ALTERED = frozenset({UNALTERED})
_INCOMPLETE = frozenset({COMPLETE})
_INELIGIBLE = frozenset({ELIGIBLE})
_NOTHING: frozenset[str] = frozenset()

CATALOGUE: Mapping[str, Rule] = {
    # The head and the records
    "head_mismatch": Rule(
        "the report is not there, or its digest is not the head that was given", _ASK, _ALTERED
    ),
    "report_missing": Rule(
        "there is no run report, so nothing holds the run's records together",
        "If the run was killed, run the plan again; else ask where the report is",
        _INCOMPLETE,
        _ALTERED,
    ),
    "record_missing": Rule("a record that another one refers to is not there", _ASK, _BOTH),
    "record_changed": Rule(
        "a record's bytes or size are not what the record that refers to it says", _ASK, _ALTERED
    ),
    "not_canonical": Rule(
        "a record is not canonical JSON, or the report or the plan is no JSON",
        _REPORT_OF_A_BUG,
        _BOTH,
    ),
    "schema": Rule("a record breaks its schema", _REPORT_OF_A_BUG, _BOTH),
    "wrong_type": Rule("a record says that it is of another type", _REPORT_OF_A_BUG, _BOTH),
    "wrong_job": Rule("a record tells of another job", _REPORT_OF_A_BUG, _BOTH),
    "reference_downstream": Rule(
        "a record refers to one that must be made after it", _REPORT_OF_A_BUG, _ALTERED
    ),
    "reference_type": Rule(
        "a record lacks a reference that it must have, or has one of another type",
        _REPORT_OF_A_BUG,
        _ALTERED,
    ),
    "reference_place": Rule(
        "a record of that type never lies where the reference says", _REPORT_OF_A_BUG, _ALTERED
    ),
    "path_escapes": Rule(
        "a path is not normalised, or leads out of the run directory",
        _REPORT_OF_A_BUG,
        _ALTERED,
    ),
    "not_a_plain_file": Rule(
        "a symbolic link, folder, FIFO, device or socket stands where a file or folder belongs",
        "Put the file itself there, if it is known to be the same; else take the run for altered",
        _BOTH,
    ),
    "unreadable": Rule(
        "a file is there and cannot be read",
        "Make it readable for whoever verifies",
        _NOTHING,
        _BOTH,
    ),
    "hard_link": Rule(
        "a record has a second name, through which it can be changed",
        "Copy the run directory without hard links",
        _ALTERED,
    ),
    "unexpected_file": Rule(
        "a file that no record and no declared output accounts for",
        "Find out who wrote it; a file that a job leaves must be a declared output",
        _ALTERED,
    ),
    # Inputs and outputs
    "output_changed": Rule("an output or a log is not what its job left", _ASK, _ALTERED),
    "output_missing": Rule("an output or a log of a job is not there", _ASK, _BOTH),
    "input_changed": Rule(
        "an input is not what its job read",
        "Put the former file back and verify again, or run the plan again on the new one",
        _ALTERED,
    ),
    "input_unavailable": Rule(
        "an input from outside the run directory is not on this machine",
        "Verify where it is, or give --repo-root",
        _NOTHING,
        _ALTERED,
    ),
    # The plan and the run's own claims
    "plan_mismatch": Rule(
        "a record is not what this plan asks for", "The records are of another plan", _ALTERED
    ),
    "self_report_mismatch": Rule(
        "what the report or a record says is not what the records below it give",
        "Believe the records below, and take the run for altered",
        _ALTERED,
    ),
    "job_not_completed": Rule("a job did not complete", _RERUN, _INCOMPLETE),
    # Time and devices
    "time_order": Rule("an event lies before one that must come first", _RERUN, _ALTERED),
    "dependency_order": Rule(
        "a job was scheduled before a job that it depends on had completed", _RERUN, _ALTERED
    ),
    "device_overlap": Rule("two jobs were on one device at the same time", _RERUN, _ALTERED),
    "limit_exceeded": Rule("more jobs ran at once than the run allows", _RERUN, _ALTERED),
    "wave_overlap": Rule("a wave began before the one before it was over", _RERUN, _ALTERED),
    # Formal runs
    "not_formal": Rule(
        "the run is exploratory: it was started without --formal",
        "Only a formal run is eligible",
        _INELIGIBLE,
    ),
    "gate_mismatch": Rule(
        "the gate does not re-derive, or is not the one that the records name",
        "Make the gate again with hloop gate, and run again",
        _INELIGIBLE | _ALTERED,
    ),
    "device_not_real": Rule(
        "a gpu job ran on a simulated device, or on one whose UUID is not known",
        "Run on devices that NVML names",
        _INELIGIBLE,
    ),
    "formal_rule": Rule(
        "a formal job lacks its method, case, seed, configuration or hard timeout",
        "Complete the plan and run again",
        _INELIGIBLE,
    ),
    # Attestations
    "attestation_signature": Rule(
        "no signature of the attestation is one of the given key",
        "Ask who signed it, and for their public key by another way",
        _ALTERED,
    ),
    "attestation_head": Rule("the head is not the one that was signed", _ASK_SIGNED, _ALTERED),
    "attestation_subject": Rule(
        "the digest of an output in the report is not the one that was signed",
        _ASK_SIGNED,
        _ALTERED,
    ),
    "attestation_format": Rule(
        "the attestation is none of hloop's, or not a whole one",
        "Ask for the file that hloop attest wrote",
        _NOTHING,
        _ALTERED,
    ),
    # Notes
    "code_differs": Rule(
        "a script or a configuration file is not what it was, or is not here",
        "Nothing: its digest is in the records, and the difference is shown by git",
        _NOTHING,
    ),
    "marker_differs": Rule(
        "a completion marker is not the one that hloop wrote",
        "Nothing: it serves Snakemake and is no evidence",
        _NOTHING,
    ),
    "undeclared": Rule(
        "a file that the run's report lists and that no declared output accounts for",
        "Nothing in an exploratory run; its content is not covered",
        _NOTHING,
    ),
    "not_covered": Rule(
        "a record that nothing refers to, since the process that would have died before",
        "Do not build on it",
        _NOTHING,
    ),
    "unfinished_write": Rule(
        "what a process left that was killed while it published a record",
        "Nothing: the record is there complete or not at all",
        _NOTHING,
    ),
    "earlier_attempt": Rule(
        "what an earlier session left, and the run set aside when it was resumed",
        "Nothing: it counts no more, and its content is not covered",
        _NOTHING,
    ),
    "another_executor": Rule(
        "another executor decided what starts when",
        "Nothing: limits and devices are not judged then",
        _NOTHING,
    ),
}
"""Every code; docs/evidence.md shows them in this order."""

"""What a crate is written in: its terms, its profiles, and how names and times look in it.

The terms stand in every crate itself, which RO-Crate 1.1 allows ("by value", appendix
JSON-LD), so that nobody needs the network to read or to validate one.
"""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from urllib.parse import quote

METADATA_NAME = "ro-crate-metadata.json"
RUN_FOLDER = "run"
INPUTS_FOLDER = "inputs"

_BIOSCHEMAS = "https://bioschemas.org"
_WFRUN = "https://w3id.org/ro/terms/workflow-run#"
_SCHEMA_TERMS = """
    ComputerLanguage ControlAction CreateAction CreativeWork Dataset HowTo HowToStep
    OrganizeAction PropertyValue SoftwareApplication SoftwareSourceCode
    about actionStatus additionalType agent contentSize datePublished description
    encodingFormat endTime error exampleOfWork hasPart identifier instrument isBasedOn license
    mainEntity mentions name object position programmingLanguage propertyID result
    softwareRequirements softwareVersion startTime step unitCode value version workExample
"""
_WFRUN_TERMS = """
    ParameterConnection connection environment resourceUsage sha256 sourceParameter targetParameter
"""
CONTEXT: Mapping[str, str] = {
    **{term: f"http://schema.org/{term}" for term in _SCHEMA_TERMS.split()},
    "File": "http://schema.org/MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
    "ComputationalWorkflow": f"{_BIOSCHEMAS}/ComputationalWorkflow",
    "FormalParameter": f"{_BIOSCHEMAS}/FormalParameter",
    "input": f"{_BIOSCHEMAS}/ComputationalWorkflow#input",
    "output": f"{_BIOSCHEMAS}/ComputationalWorkflow#output",
    **{term: _WFRUN + term for term in _WFRUN_TERMS.split()},
}
"""The terms that are used, as the contexts of RO-Crate 1.1 and of Workflow Run Crate map them."""

RO_CRATE = "https://w3id.org/ro/crate/1.1"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
WORKFLOW_RO_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"

NO_LICENSE = "Not stated. Whoever made the run holds the rights; ask them before you use it."

ACTION_STATUS = {
    "completed": "http://schema.org/CompletedActionStatus",
    "skipped": "http://schema.org/PotentialActionStatus",
}
FAILED = "http://schema.org/FailedActionStatus"

FILES = {
    "plan.json": "The plan that was run.",
    "manifest.json": "Under what the run began, written before its first job.",
    "journal.jsonl": "What happened during the run, line by line.",
    "hloop_run.json": "The report. Its SHA-256 is the head, which covers the whole run.",
    "scheduled_job.json": "What the job was to be, written before its process started.",
    "run_record.json": "What the job's process did.",
    "attempt_status.json": "How the job ended, with the digest of each output.",
    "completed": "The marker that lets Snakemake start what depends on the job.",
    "stdout.log": "What the job wrote to its standard output.",
    "stderr.log": "What the job wrote to its standard error.",
}
USAGE = {
    "elapsed_seconds": "https://qudt.org/vocab/unit/SEC",
    "cpu_seconds": "https://qudt.org/vocab/unit/SEC",
    "max_rss_bytes": "https://qudt.org/vocab/unit/BYTE",
}


def iri(path: str) -> str:
    """Give a path in the crate as an ``@id``: what is no part of an IRI path is escaped.

    Letters of any script stay as they are (RO-Crate 1.1, appendix JSON-LD).
    """
    return re.sub(r"[^\w./~-]", lambda found: quote(os.fsencode(found[0])), path)


def text_of(path: str) -> str:
    """Give a path as text, even where it is not UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def time_of(moment: str | None) -> str | None:
    """Give a time as the profile wants it. The records have the microseconds."""
    if moment is None:
        return None
    return datetime.fromisoformat(moment).astimezone(UTC).isoformat(timespec="milliseconds")


def media_type(path: str) -> str:
    """Give the media type of a file by its name."""
    kind = _types().guess_type(path)[0]
    own = {".jsonl": "application/jsonl", ".log": "text/plain", ".yaml": "application/yaml"}
    return own.get(os.path.splitext(path)[1]) or kind or "application/octet-stream"


@cache
def _types() -> mimetypes.MimeTypes:
    # Only the types that Python itself knows: a machine's own lists differ.
    return mimetypes.MimeTypes()


def action_status(status: str) -> str:
    """Give what an action says of a job or run that ended as ``status``."""
    return ACTION_STATUS.get(status, FAILED)

"""What a crate says of a run: the entities of ``ro-crate-metadata.json``.

The plan is the workflow; each job is a step, a tool and an action, after the profile
https://w3id.org/ro/wfrun/provenance/0.5. Nothing here reads or writes a file, and nothing is
said that the run's own files do not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hloop.files import PLAN_NAME
from hloop.provenance.crate_files import Contents, Entity, Key, Payload, compact, ref, refs
from hloop.provenance.crate_terms import (
    CONTEXT,
    FAILED,
    METADATA_NAME,
    PROFILES,
    RO_CRATE,
    RUN_FOLDER,
    USAGE,
    WORKFLOW_RO_CRATE,
    action_status,
    iri,
    time_of,
)
from hloop.provenance.ended import EndedRun


def build(run: EndedRun, contents: Contents, license: str) -> dict[str, Any]:
    """Give the document of ``ro-crate-metadata.json``."""
    entities = _Graph(run, contents).build(license)
    return {"@context": dict(CONTEXT), "@graph": [compact(entity) for entity in entities]}


def input_key(run: EndedRun, job: Mapping[str, Any], index: int) -> Key:
    """Give an input's key: the digest that was read or, if nobody read it, the declared one."""
    entry = job["inputs"][index]
    planned = run.plan.by_id().get(job["job_id"])
    declared = planned.inputs[index].sha256 if planned and index < len(planned.inputs) else None
    return entry["path"], entry["sha256"] or declared


class _Graph(Payload):
    """What was to be done and what was done, on top of the files.

    Attributes:
        produced: the parameter that gives an artifact, by portable path.
        workflow: what the plan as a whole takes, gives and connects.
        taken, given: the artifacts that the run as a whole took and gave.
    """

    def __init__(self, run: EndedRun, contents: Contents) -> None:
        self.run = run
        self.jobs: Sequence[Mapping[str, Any]] = run.report["jobs"]
        super().__init__(contents, (job["job_id"] for job in self.jobs))
        self.planned = run.plan.by_id()
        self.consumed = {entry["path"] for job in self.jobs for entry in job["inputs"]}
        self.plan = f"{RUN_FOLDER}/{PLAN_NAME}"
        self.produced: dict[str, str] = {}
        self.workflow: dict[str, list[str]] = {"input": [], "output": [], "connection": []}
        self.taken: list[str] = []
        self.given: list[str] = []

    def build(self, license: str) -> list[Entity]:
        about = refs([RO_CRATE, WORKFLOW_RO_CRATE])
        self.add(METADATA_NAME, "CreativeWork", conformsTo=about, about=ref("./"))
        self.add("./", "Dataset")
        for profile, (name, version) in PROFILES.items():
            self.add(profile, "CreativeWork", name=name, version=version)
        self.add_files()
        self.add_software()
        # In topological order: what a job takes was given by one before it.
        for position, job in enumerate(self.jobs):
            self.add_job(position, job)
        self.add_plan()
        self.add_run()
        report = self.run.report
        self.entities["./"] |= {
            "name": f"hloop run of {report['plan_id']}",
            "description": f"One run of the plan {report['plan_id']}, {report['status']}: "
            f"{len(self.jobs)} jobs with their inputs, outputs and records. {RUN_FOLDER}/ is the "
            "run directory as it was found; the export did not verify it.",
            "datePublished": time_of(report["completed_at"]),
            "license": license,
            "conformsTo": refs(PROFILES),
            "identifier": self.run.head,
            "mainEntity": ref(self.plan),
            "hasPart": self.parts(""),
            "mentions": refs(["#run", "#engine", *(f"#job/{job['job_id']}" for job in self.jobs)]),
        }
        return list(self.entities.values())

    # What was to be done

    def add_software(self) -> None:
        report = self.run.report
        versions = report["versions"]
        needed = [
            self.add(f"#software/{name}", "SoftwareApplication", name=name, softwareVersion=found)
            for name, found in versions.items()
            if name != "hloop" and found is not None
        ]
        self.add(
            "#hloop",
            "SoftwareApplication",
            name="hloop",
            softwareVersion=versions.get("hloop"),
            description=f"The engine, in mode {report['mode']}.",
            softwareRequirements=refs(needed),
        )
        self.add(
            "#session",
            "SoftwareApplication",
            name=f"hloop session {report.get('session_id', '')}".strip(),
            softwareVersion=versions.get("hloop"),
            description="The session that ran the plan. hloop records no user names: the person "
            "behind it is not known here.",
        )
        self.add("#plan-format", "ComputerLanguage", name=self.run.plan.schema_version)

    def add_plan(self) -> None:
        report = self.run.report
        ids = [job["job_id"] for job in self.jobs]
        self.entities.setdefault(self.plan, {"@id": self.plan}).update(
            {
                "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
                "name": report["plan_id"],
                "identifier": report["experiment_digest"],
                "programmingLanguage": ref("#plan-format"),
                "hasPart": refs(f"#tool/{id}" for id in ids),
                "step": refs(f"#step/{id}" for id in ids),
                "isBasedOn": refs(self.sources(self.contents.configs)),
                **{key: refs(found) for key, found in self.workflow.items()},
            }
        )

    def sources(self, keys: Iterable[Key]) -> list[str]:
        return [found for key in keys if (found := self.artifact(*key)) is not None]

    def parameter(self, id: str, kind: str, name: str, example: str | None) -> str:
        """Add a formal parameter, with the entity that stood for it in this run."""
        self.add(id, "FormalParameter", additionalType=kind, name=name)
        if example is not None:
            self.entities[example].setdefault("exampleOfWork", []).append(ref(id))
        return id

    def file_parameter(self, id: str, name: str, example: str | None) -> str:
        kind = "Dataset" if example is not None and example.endswith("/") else "File"
        return self.parameter(id, kind, name, example)

    def connection(self, source: str, target: str) -> str:
        return self.add(
            f"#connection/{target.removeprefix('#')}",
            "ParameterConnection",
            sourceParameter=ref(source),
            targetParameter=ref(target),
        )

    def value(self, job_id: str, kind: str, name: str, value: str | int) -> tuple[str, str]:
        """Add a value that a job was given: its parameter, and the value."""
        at = f"{job_id}/{iri(name)}"
        held = self.add(f"#value/{at}", "PropertyValue", name=name, value=value)
        return self.parameter(f"#parameter/{at}", kind, name, held), held

    # What was done

    def add_job(self, position: int, job: Mapping[str, Any]) -> None:
        id, status = job["job_id"], action_status(job["status"])
        takes, connections, objects = self.take(id, job)
        gives, results = self.give(id, job)
        if job["seed"] is not None:
            parameter, held = self.value(id, "Integer", "seed", job["seed"])
            takes.append(parameter)
            objects.append(held)
        added = [
            self.value(id, "Text", name, text)
            for name, text in sorted(self.contents.environment.get(id, {}).items())
        ]
        after = self.planned[id].depends_on if id in self.planned else ()
        error = job["failure"]["message"] if job["failure"] else None
        self.add(
            f"#tool/{id}",
            "SoftwareApplication",
            name=id,
            description=f"{job['resource']} job: {' '.join(job['command'])}",
            input=refs(takes),
            output=refs(gives),
            environment=refs(parameter for parameter, _ in added),
            softwareRequirements=refs(self.sources(self.contents.scripts.get(id, ()))),
        )
        self.add(
            f"#step/{id}",
            "HowToStep",
            name=id,
            position=str(position),
            description=f"Starts when these have completed: {', '.join(after)}."
            if after
            else None,
            workExample=ref(f"#tool/{id}"),
            connection=refs(connections),
        )
        outcome = {"actionStatus": status, "error": error if status == FAILED else None}
        device = f" on device {job['device']['logical']}" if job["device"] else ""
        self.add(
            f"#job/{id}",
            "CreateAction",
            name=f"Job {id}",
            description=f"{job['status']}{device}{f': {error}' if error else ''}",
            agent=ref("#session"),
            instrument=ref(f"#tool/{id}"),
            object=refs(objects),
            result=refs(results),
            startTime=time_of(job["started_at"]),
            endTime=time_of(job["ended_at"]),
            environment=refs(held for _, held in added),
            resourceUsage=refs(self.usage(id, job)),
            **outcome,
        )
        self.add(
            f"#control/{id}",
            "ControlAction",
            name=f"Orchestration of {id}",
            instrument=ref(f"#step/{id}"),
            object=ref(f"#job/{id}"),
            **outcome,
        )

    def take(self, id: str, job: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
        """Give a job's input parameters, their connections, and what it took."""
        parameters, connections, objects = [], [], []
        for index, entry in enumerate(job["inputs"]):
            portable = entry["path"]
            held = self.artifact(*input_key(self.run, job, index))
            parameter = self.file_parameter(f"#in/{id}/{index}", entry["role"], held)
            source = self.produced.get(portable)
            if source is None:
                source = f"#run-in/{iri(portable)}"
                if source not in self.entities:
                    self.file_parameter(source, portable, held)
                    self.workflow["input"].append(source)
                    self.taken += [held] if held else []
            parameters.append(parameter)
            connections.append(self.connection(source, parameter))
            objects += [held] if held else []
        return parameters, connections, objects

    def give(self, id: str, job: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Give a job's output parameters, and what it gave."""
        parameters, results = [], []
        for index, entry in enumerate(job["outputs"]):
            portable = entry["path"]
            held = self.artifact(portable, entry["sha256"])
            parameter = self.file_parameter(f"#out/{id}/{index}", entry["role"], held)
            self.produced[portable] = parameter
            parameters.append(parameter)
            results += [held] if held else []
            if portable not in self.consumed:
                of_run = self.file_parameter(f"#run-out/{iri(portable)}", portable, held)
                self.workflow["output"].append(of_run)
                self.workflow["connection"].append(self.connection(parameter, of_run))
                self.given += [held] if held else []
        return parameters, results

    def usage(self, id: str, job: Mapping[str, Any]) -> list[str]:
        return [
            self.add(
                f"#usage/{id}/{name}",
                "PropertyValue",
                name=name,
                propertyID=f"urn:x-hloop:usage:{name}",
                unitCode=unit,
                value=str(job[name]),
            )
            for name, unit in USAGE.items()
            if job[name] is not None
        ]

    def add_run(self) -> None:
        report = self.run.report
        status = action_status(report["status"])
        failed = [job for job in self.jobs if action_status(job["status"]) == FAILED]
        error = f"the run is {report['status']}"
        if failed and failed[0]["failure"]:
            error += f"; {failed[0]['job_id']}: {failed[0]['failure']['message']}"
        common = {
            "agent": ref("#session"),
            "startTime": time_of(report["started_at"]),
            "endTime": time_of(report["completed_at"]),
            "actionStatus": status,
            "error": error if status == FAILED else None,
        }
        self.add(
            "#run",
            "CreateAction",
            name=f"Run of {report['plan_id']}",
            description=f"{report['status']}, in mode {report['mode']}",
            instrument=ref(self.plan),
            object=refs(self.taken),
            result=refs(self.given),
            **common,
        )
        self.add(
            "#engine",
            "OrganizeAction",
            name="Run of hloop",
            instrument=ref("#hloop"),
            object=refs(f"#control/{job['job_id']}" for job in self.jobs),
            result=ref("#run"),
            **common,
        )

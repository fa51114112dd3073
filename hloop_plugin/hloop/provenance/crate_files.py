"""What a crate says of the files in it: one entity for each, with its digest.

The entities of the run build on these. Nothing here reads or writes a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hloop.files import JOBS_NAME, FileDigest
from hloop.provenance.crate_terms import FILES, RUN_FOLDER, iri, media_type, text_of

Entity = dict[str, Any]
Key = tuple[str, str | None]
"""A portable path, and the SHA-256 that was recorded for it."""


@dataclass(frozen=True)
class Outside:
    """A file or folder from outside the run directory that the run names.

    Attributes:
        path: its copy in the crate; None where there is none.
        reason: why there is none.
    """

    path: str | None
    reason: str = ""


@dataclass(frozen=True)
class Contents:
    """What lies in the crate; paths are relative to it, with ``/``.

    Attributes:
        files: every plain file.
        folders: every folder that is an artifact, with its digest; None where it has none.
        outside: what the run names outside of its directory.
        configs: what the plan was made from; keys of ``outside``.
        scripts: what each job's command names; keys of ``outside``.
        environment: what was added to each job's environment.
    """

    files: Mapping[str, FileDigest]
    folders: Mapping[str, FileDigest | None]
    outside: Mapping[Key, Outside]
    configs: Sequence[Key]
    scripts: Mapping[str, Sequence[Key]]
    environment: Mapping[str, Mapping[str, str]]


def ref(entity: str) -> dict[str, str]:
    return {"@id": entity}


def refs(entities: Iterable[str]) -> list[dict[str, str]]:
    return [ref(entity) for entity in dict.fromkeys(entities)]


def compact(entity: Entity) -> Entity:
    """Leave out what is absent, and unpack lists of one, as RO-Crate has it."""
    found: Entity = {}
    for key, value in entity.items():
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is not None and value != []:
            found[key] = value
    return found


class Payload:
    """The entities by their ``@id``: first those of the files, then what is added.

    Args:
        jobs: the ids of the run's jobs.
    """

    def __init__(self, contents: Contents, jobs: Iterable[str]) -> None:
        self.contents = contents
        self.entities: dict[str, Entity] = {}
        self._jobs = frozenset(jobs)
        self._parts: dict[str, list[str]] = defaultdict(list)
        for path in contents.files:
            self._parts[self._folder_of(path)].append(iri(path))
        self._parts[""] += [f"{iri(path)}/" for path in contents.folders]

    def add(self, id: str, type: str | list[str], **properties: Any) -> str:
        self.entities[id] = {"@id": id, "@type": type, **properties}
        return id

    def add_files(self) -> None:
        names = {entry.path: key[0] for key, entry in self.contents.outside.items()}
        scripts = [key for keys in self.contents.scripts.values() for key in keys]
        sources = {self.contents.outside[key].path for key in (*scripts, *self.contents.configs)}
        for path, digest in self.contents.files.items():
            about = description = None
            top, _, inside = path.partition("/")
            if top == RUN_FOLDER:
                parts = inside.split("/")
                of_job = len(parts) > 2 and parts[0] == JOBS_NAME and parts[1] in self._jobs
                about = ref(f"#job/{parts[1]}" if of_job else "#run")
                if len(parts) == (3 if of_job else 1):
                    description = FILES.get(parts[-1])
            elif path in names:
                description = f"A copy of {names[path]}."
            self.add(
                iri(path),
                ["File", "SoftwareSourceCode"] if path in sources else "File",
                name=text_of(inside),
                description=description,
                encodingFormat=media_type(path),
                contentSize=str(digest.size),
                sha256=digest.sha256,
                about=about,
            )
        for path, tree in self.contents.folders.items():
            self.add(
                f"{iri(path)}/",
                "Dataset",
                name=text_of(path.partition("/")[2]),
                description="A folder that is one artifact.",
                identifier=tree and f"hloop/directory/v1 sha256:{tree.sha256}",
                hasPart=self.parts(path),
            )

    def parts(self, folder: str) -> list[dict[str, str]]:
        """Give what lies in a folder that is an artifact, or with "" what lies in none."""
        return refs(self._parts[folder])

    def _folder_of(self, path: str) -> str:
        while path := path.rpartition("/")[0]:
            if path in self.contents.folders:
                return path
        return ""

    def artifact(self, portable: str, sha256: str | None) -> str | None:
        """Give an artifact's entity; None where nothing was recorded or it is not that."""
        entry = self.contents.outside.get((portable, sha256))
        if entry is not None and entry.path is None:
            # A local identifier, since it is no part of the crate.
            id = f"#outside/{iri(portable)}/{sha256}"
            if id not in self.entities:
                reason = f"Not in this crate: {entry.reason}."
                self.add(
                    id,
                    "File",
                    name=portable,
                    description=reason,
                    encodingFormat=media_type(portable),
                    sha256=sha256,
                )
            return id
        path = portable.replace("${RUN_DIR}", RUN_FOLDER, 1) if entry is None else entry.path
        assert path is not None
        folder = path in self.contents.folders
        held = (self.contents.folders if folder else self.contents.files).get(path)
        if sha256 is None or held is None:
            return None
        id = iri(path) + "/" * folder
        if held.sha256 != sha256:
            self.entities[id]["description"] = f"Not what the run recorded: sha256 {sha256}."
            return None
        return id

"""A folder as one artifact: its digest, over all that lies in it.

The folder is listed, read and listed again: what changes meanwhile is refused. Symbolic links
in it are recorded and never followed, so nothing outside the folder is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from hloop import canonical
from hloop.errors import Problem
from hloop.files import FileDigest, FileRefused, hash_file, kind_of

# Snakemake makes this file in a folder that is an output of a rule, when the rule's job is over.
SNAKEMAKE_STAMP = ".snakemake_timestamp"

Listing = dict[str, os.stat_result]
"""All that lies in a folder, by relative path, and the folder itself as ``""``."""


def hash_tree(path: str | Path, *, follow: bool = False) -> FileDigest:
    """Read a folder and give its digest. ``follow`` allows a symbolic link to it.

    The digest is SHA-256 over the canonical JSON of ``hloop/directory/v1``: the entries by
    path, each a file with its digest, its size and whether its owner may execute it, a folder
    (empty ones too), or a symbolic link with its text. The digest's size is the sum of the
    sizes of the files. Names, times and owners of the folder itself do not enter, nor does an
    empty file ``.snakemake_timestamp`` in it.

    Raises:
        FileRefused: ``missing``; ``not_a_directory``, which includes a symbolic link (without
            ``follow``); ``special_file``: a FIFO, device or socket lies in it; ``bad_name``: a
            name or a link's text is not UTF-8; ``unreadable``; ``changed_while_read``.
    """
    root = os.path.realpath(path) if follow else os.path.abspath(path)
    before = _list(root)
    try:
        entries, size = _read(root, before)
        after = _list(root)
    except OSError as error:
        # A link that is gone, or that is none any more.
        raise _changed(root) from error
    except FileRefused as error:
        if error.code in ("unreadable", "bad_name"):
            raise
        raise _changed(root) from error
    if _identities(before) != _identities(after):
        raise _changed(root)
    digest = canonical.digest({"_type": "hloop/directory/v1", "entries": entries})
    return FileDigest(digest.removeprefix("sha256:"), size)


def _list(root: str) -> Listing:
    try:
        found = os.lstat(root)
    except FileNotFoundError:
        raise _refuse("missing", f"{root} does not exist") from None
    except OSError as error:
        raise _refuse("unreadable", f"{root} cannot be read: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise _refuse("not_a_directory", f"{root} is {kind_of(found.st_mode)}")
    listing = {"": found}
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    _check_name(root, entry.name, f"the name {entry.name!r}")
                    name = os.path.join(folder, entry.name)
                    found = listing[name] = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        folders.append(name)
                    elif not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
                        kind = kind_of(found.st_mode)
                        raise _refuse("special_file", f"{root} holds {kind}, {name}")
        except (FileNotFoundError, NotADirectoryError):
            raise _changed(root) from None
        except OSError as error:
            where = os.path.join(root, folder)
            raise _refuse("unreadable", f"{where} cannot be read: {error.strerror}") from None
    return listing


def _read(root: str, listing: Listing) -> tuple[list[dict[str, Any]], int]:
    """Give the entries of the record, and the sum of the sizes of the files."""
    entries: list[dict[str, Any]] = []
    size = 0
    # By code points, which is the order of the UTF-8 bytes too.
    for name in sorted(listing.keys() - {""}):
        mode = listing[name].st_mode
        if name == SNAKEMAKE_STAMP and stat.S_ISREG(mode) and not listing[name].st_size:
            continue
        if stat.S_ISDIR(mode):
            entries.append({"path": name, "type": "directory"})
        elif stat.S_ISLNK(mode):
            target = os.readlink(os.path.join(root, name))
            _check_name(root, target, f"the text of the link {name}, {target!r},")
            entries.append({"path": name, "type": "symlink", "target": target})
        else:
            digest = hash_file(os.path.join(root, name))
            size += digest.size
            entries.append(
                {
                    "path": name,
                    "type": "file",
                    "sha256": digest.sha256,
                    "size": digest.size,
                    "executable": bool(mode & stat.S_IXUSR),
                }
            )
    return entries, size


def _identities(listing: Listing) -> dict[str, tuple[int, ...]]:
    return {
        name: (
            found.st_mode,
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
        )
        for name, found in listing.items()
    }


def _check_name(root: str, name: str, what: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _refuse("bad_name", f"in {root}, {what} is not UTF-8") from None


def _changed(root: str) -> FileRefused:
    return _refuse("changed_while_read", f"{root} changed while it was read")


def _refuse(code: str, found: str) -> FileRefused:
    expected = "a folder that holds files, folders and symbolic links"
    return FileRefused(Problem(code=code, where="", found=found, expected=expected))

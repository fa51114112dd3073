"""Paths in records: written so that they mean the same on another machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Portable:
    """Writes paths so that they mean the same on another machine.

    Attributes:
        run_dir: absolute; what lies in it is written as ``${RUN_DIR}/…``.
        repo_root: absolute; what lies in it is written as ``${REPO_ROOT}/…``.
    """

    run_dir: Path
    repo_root: Path

    @cached_property
    def _roots(self) -> list[tuple[str, str]]:
        pairs = [(str(self.run_dir), "${RUN_DIR}"), (str(self.repo_root), "${REPO_ROOT}")]
        # The longer root first: a run directory usually lies inside the repository.
        return sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)

    def path(self, path: str | Path) -> str:
        """Give ``path`` by its components: ``/r/ab`` is not inside ``/r/a``."""
        text = os.fspath(path)
        if "//" in text or "/./" in text or text.endswith("/"):
            text = str(Path(text))
        for root, name in self._roots:
            if text == root:
                return name
            inside = root if root == "/" else f"{root}/"
            if text.startswith(inside):
                return f"{name}/{text[len(inside) :]}"
        return str(path)

    @cached_property
    def _in_text(self) -> re.Pattern[str]:
        roots = (re.escape(root) for root, _ in self._roots if root != "/")
        # A root counts where a path can begin, and where its last component ends.
        return re.compile(
            r"(?:(?<![\w./~+-])|(?<=^-\w)|(?<=\s-\w))"
            rf"(?:{'|'.join(roots) or '(?!)'})"
            r"(?=$|[/\s'\"`:,;&|<>()\[\]{}]|\.(?:$|\s))"
        )

    def text(self, text: str) -> str:
        """Give a text, such as an item of a command, with every path in it portable.

        ``/r/a`` is found in ``--out=/r/a/x``, ``-I/r/a`` and ``cat '/r/a/x'``, and not in
        ``/r/ab``, ``/q/r/a`` or ``/r/a-1``.
        """
        return self._in_text.sub(lambda match: self.path(match[0]), text)

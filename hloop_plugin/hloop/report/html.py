"""HTML that holds whatever a run holds and nothing of it works: text, links, one whole page.

Everything that comes from a run is untrusted: names, commands, what jobs printed. A page asks for
nothing from anywhere; its policy forbids it, and lets no script run but those that are written in.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

_ASSETS = Path(__file__).parent / "assets"
_KEPT = frozenset("\n\t")


class Markup(str):
    """HTML, made of texts that :func:`text` has escaped."""


def visible(value: str) -> str:
    """Give a text with escapes for what cannot be seen, or changes what is seen around it."""
    if value.isprintable():
        return value
    return "".join(
        char if char.isprintable() or char in _KEPT else char.encode("unicode_escape").decode()
        for char in value
    )


def text(value: object) -> Markup:
    """Escape a text, for an element or a quoted attribute."""
    return value if isinstance(value, Markup) else Markup(html.escape(visible(str(value))))


def element(tag: str, *content: object, **attributes: str | None) -> Markup:
    """Give an element. ``class_`` stands for ``class``; attributes that are None are left out."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{given}>{''.join(map(text, content))}</{tag}>")


def join(parts: Iterable[object], between: object = "") -> Markup:
    return Markup(text(between).join(map(text, parts)))


def table(heads: Sequence[object], rows: Iterable[Sequence[object]], **attributes: str) -> Markup:
    """Give a table that may be wider than the page: it scrolls by itself."""
    head = element("tr", *(element("th", cell, scope="col") for cell in heads))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    whole = element("table", element("thead", head), element("tbody", *body), **attributes)
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label="table")


def section(title: str, *content: object) -> Markup:
    name = f"part-{title.lower().replace(' ', '-')}"
    return element(
        "section", element("h2", title, id=name), *content, class_="part", aria_labelledby=name
    )


def file_href(relative: str) -> str:
    """Give a link to a file by its path from the page's folder. It cannot be of another kind."""
    return "./" + quote(relative.encode("utf-8", "surrogateescape"))


def data_block(name: str, value: Any) -> Markup:
    """Give JSON that a script of the page reads; no text in it can end the block."""
    document = json.dumps(_visible_in(value), ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        document = document.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" id="{text(name)}">{document}</script>')


def _visible_in(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _visible_in(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_visible_in(item) for item in value]
    return value


@cache
def asset(name: str) -> str:
    """Read a style sheet or script that is shipped with hloop."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def page(title: str, body: Markup, *, scripts: Sequence[str] = ()) -> str:
    """Give a whole page.

    Args:
        scripts: what runs at the end of it; code, not names.
    """
    style = asset("page.css")
    allowed = " ".join(map(_digest, scripts)) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    code = "".join(f"<script>{script}</script>\n" for script in scripts)
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n{body}\n{code}</body>\n</html>\n"
    )


def _digest(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

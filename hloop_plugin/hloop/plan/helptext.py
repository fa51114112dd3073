"""Help texts: which flags a program offers, read from what its ``--help`` prints.

It reads the forms of argparse, click, typer (with and without boxes) and clap. What it cannot
tell stays unknown, so that nothing is refused for it. Nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Flag:
    """One flag that a program offers.

    Attributes:
        names: all its names, such as ``-s`` and ``--seed``.
        takes_value: whether a value must follow; None where that is not known, or is optional.
        choices: the values that it allows; None where they are not listed.
        required: whether it must be given.
    """

    names: tuple[str, ...]
    takes_value: bool | None = None
    choices: tuple[str, ...] | None = None
    required: bool = False


_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|.\x08")
_NAME = re.compile(r"(?<![\w\]-])(--?)(\[no-\])?([A-Za-z0-9?@][\w.-]*)")
_CHOICES = re.compile(r"(?<![=:])(?:\{([^{}]*)\}|\[([^\[\]]*\|[^\[\]]*)\])")
# What stands for a value, in which no flag is to be looked for; not `--[no-]color`.
_VALUE = re.compile(r"\{[^{}]*\}|<[^<>]*>|(?<!--)\[[^\[\]]*\]")
_METAVAR = re.compile(r"([A-Z][A-Z0-9_]*( RANGE)?|<[^<>]+>)( \[[^\[\]]*\])?|\[.*\|.*\]")
# A range, as click has it, is nothing optional: `[x>=1]`.
_RANGE = re.compile(r"\[[^\[\]]*\bx\b[<>=][^\[\]]*\]|\[[^\[\]]*[<>]=?x\b[^\[\]]*\]")
# An entry stands at most this far to the right; a description further.
_FURTHEST = 8


def flags_of(text: str) -> list[Flag]:
    """Give the flags of a help text, in its order; none where it has another form."""
    lines = _plain(text)
    required = _required_by_usage(line for line, _ in lines)
    flags = []
    for head, description, boxed in _entries(lines):
        flag = _flag(head, description, boxed)
        if flag is not None:
            flags.append(replace(flag, required=flag.required or bool(required & {*flag.names})))
    return flags


def _plain(text: str) -> list[tuple[str, bool]]:
    """Give the lines without colours and boxes, and whether each stood in a box."""
    lines = []
    for line in _ANSI.sub("", text).expandtabs().splitlines():
        stripped = line.strip()
        if stripped[:1] in ("╭", "╰", "┏", "┗", "┌", "└", "+"):
            lines.append(("", True))
        elif len(stripped) > 1 and stripped[0] in "│┃" and stripped[-1] in "│┃":
            lines.append((" " + stripped[1:-1].rstrip(), True))
        else:
            lines.append((line.rstrip(), False))
    return lines


def _required_by_usage(lines: Iterable[str]) -> set[str]:
    """Give the flags that the usage names outside of brackets."""
    usage: list[str] = []
    for line in lines:
        if match := re.match(r"\s*usage:\s*", line, re.IGNORECASE):
            usage.append(line[match.end() :])
        elif usage and line.startswith(" ") and line.strip() and not _starts_entry(line):
            usage.append(line)
        elif usage and "".join(usage).strip():
            break
    forms = [line.split()[0] for line in usage if line.strip()]
    if forms.count(forms[0] if forms else "") > 1:
        # Several ways to call it: what one requires, another may not.
        return set()
    text, depth = "", 0
    for character in " ".join(usage):
        depth += character in "[(<{"
        text += character if not depth else ""
        depth -= character in "])>}" and depth > 0
    return set(re.findall(r"(?<!\S)--?[A-Za-z0-9][\w.-]*", text))


def _starts_entry(line: str) -> bool:
    match = re.match(r"(\s*)(\*\s+)?(--?[A-Za-z0-9?@\[])", line)
    return match is not None and len(match[1]) <= _FURTHEST


def _entries(lines: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, str, bool]]:
    """Give each entry's head, with names and metavar, its description, and if it is in a box."""
    head, description, in_box, in_usage = "", "", False, False
    for line, boxed in lines:
        if not line.strip():
            in_usage = False
        elif re.match(r"\s*usage:", line, re.IGNORECASE):
            in_usage = True
        elif not in_usage and _starts_entry(line):
            if head:
                yield head, description, in_box
            head, description = _split(line.strip(), boxed)
            in_box = boxed
        elif head and (boxed or line.startswith(" ")):
            description += "\n" + line.strip()
        else:
            # A heading: what follows belongs to no flag.
            if head:
                yield head, description, in_box
            head, description = "", ""
    if head:
        yield head, description, in_box


def _split(line: str, boxed: bool) -> tuple[str, str]:
    """Split an entry where its columns part."""
    cells = re.split(r"\s{2,}", line)
    last = 0
    for index, cell in enumerate(cells):
        # In a box the names and the metavar are columns of their own.
        metavar = boxed and _METAVAR.fullmatch(cell)
        if cell == "*" or _starts_entry(cell) or metavar:
            last = index
        elif index > 0:
            break
    return " ".join(cells[: last + 1]), "  ".join(cells[last + 1 :])


def _flag(head: str, description: str, boxed: bool) -> Flag | None:
    # pytest writes `--mode={a,b}`.
    words = re.sub(r"(?<!\S)(--?[\w-]+)=(?=\S)", r"\1 ", _RANGE.sub("", head))
    searched = _VALUE.sub("", words)
    names: list[str] = []
    for dashes, no, name in _NAME.findall(searched):
        name = name.rstrip(".")
        names += [f"{dashes}{name}"] + ([f"{dashes}no-{name}"] if no else [])
    if not names:
        return None
    rest = _NAME.sub("", searched).strip(" ,/|;=*")
    valued = rest != "" or _CHOICES.search(words) is not None or re.search(r"<.*>", words)
    optional = re.search(r"\[(?!no-\])[^|\[\]]*\]|<bool>|\bBOOLEAN\b|\.\.\.", words)
    choices = _choices_of_head(words)
    if boxed and (listed := re.search(r"<([^<>]*\|[^<>]*)>", words)):
        # So typer writes them; elsewhere `<path|url>` says only what a value is like.
        choices = tuple(listed[1].split("|"))
    return Flag(
        names=tuple(dict.fromkeys(names)),
        # In a box a metavar that is not in capitals looks like the beginning of the description.
        takes_value=None if optional or (boxed and not valued) else bool(valued),
        choices=choices or _possible_values(description),
        required=head.startswith("*")
        or re.search(r"\[(?:[^\[\]]*; ?)?required\]", description) is not None,
    )


def _choices_of_head(head: str) -> tuple[str, ...] | None:
    match = _CHOICES.search(head)
    if match is None or "%" in match[0] or "..." in match[0]:
        return None
    values = [value.strip() for value in re.split(r"[,|]", match[1] or match[2] or "")]
    # A metavar in braces, or one that only describes what is allowed.
    return tuple(values) if len(values) > 1 and all(values) else None


def _possible_values(description: str) -> tuple[str, ...] | None:
    """Read clap's two ways of listing values."""
    if match := re.search(r"\[possible values: ([^\]]*)\]", description):
        return tuple(value.strip() for value in match[1].split(","))
    before, title, listed = description.partition("Possible values:\n")
    if not title:
        return None
    return tuple(re.findall(r"^- ([\w.-]+)(?::|$)", listed, re.MULTILINE)) or None

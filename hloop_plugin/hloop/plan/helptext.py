"""Help texts: which flags a program offers, read from what its ``--help`` prints.

It reads the forms of argparse, click, typer (with and without boxes) and clap. What it cannot
tell stays unknown, so that nothing is refused for it. Nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Group:
    """Flags that are alternatives.

    Attributes:
        names: one name of each, in the order of the usage.
        required: whether one of them must be given.
        exclusive: whether no two of them may be.
    """

    names: tuple[str, ...]
    required: bool
    exclusive: bool


@dataclass(frozen=True)
class Flag:
    """One flag that a program offers.

    Attributes:
        names: all its names, such as ``-s`` and ``--seed``.
        takes_value: whether a value must follow; None where that is not known, or is optional.
        choices: the values that it allows; None where they are not listed.
        required: whether it must be given.
        group: the flags that it is an alternative to; None where the usage shows none.
    """

    names: tuple[str, ...]
    takes_value: bool | None = None
    choices: tuple[str, ...] | None = None
    required: bool = False
    group: Group | None = None


_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|.\x08")
_NAME = re.compile(r"(?<![\w\]-])(--?)(\[no-?\])?([A-Za-z0-9?@][\w.-]*)")
_CHOICES = re.compile(r"(?<![=:])(?:\{([^{}]*)\}|\[([^\[\]]*\|[^\[\]]*)\])")
# What stands for a value, in which no flag is to be looked for; not `--[no-]color`.
_VALUE = re.compile(r"\{[^{}]*\}|<[^<>]*>|(?<!--)\[[^\[\]]*\]")
_METAVAR = re.compile(r"([A-Z][A-Z0-9_]*( RANGE)?|<[^<>]+>)( \[[^\[\]]*\])?|\[.*\|.*\]")
# A range, as click has it, is nothing optional: `[x>=1]`.
_RANGE = re.compile(r"\[[^\[\]]*\bx\b[<>=][^\[\]]*\]|\[[^\[\]]*[<>]=?x\b[^\[\]]*\]")
# An entry stands at most this far to the right; a description further, and a usage's next line.
_FURTHEST = 8
_BELOW_USAGE = 4


def flags_of(text: str) -> list[Flag]:
    """Give the flags of a help text, in its order; none where it has another form."""
    lines = _plain(text)
    required, groups = _usage(line for line, _ in lines)
    flags = []
    for head, description, boxed in _entries(_below_heading(lines)):
        flag = _flag(head, description, boxed)
        if flag is not None:
            group = next((group for group in groups if {*group.names} & {*flag.names}), None)
            flags.append(
                replace(
                    flag,
                    required=flag.required or bool(required & {*flag.names}),
                    group=group,
                )
            )
    return flags


def names_subcommand(text: str, word: str) -> bool:
    """Say whether a help text lists a word among the sub-commands."""
    entry = re.compile(
        rf"[\s│┃]{{1,8}}(?:{re.escape(word)}(?:,|\s{{2,}}|$)|\{{.*\b{re.escape(word)}\b)"
    )
    heading = ""
    for line in _ANSI.sub("", text).splitlines():
        if line[:1].strip(" │┃"):
            heading = line.lower()
        elif "command" in heading and entry.match(line):
            return True
    return False


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


def _usage(lines: Iterable[str]) -> tuple[set[str], list[Group]]:
    """Give the flags that the usage names outside of brackets, and those that it groups."""
    usage: list[str] = []
    for line in lines:
        if match := re.match(r"\s*usage:\s*", line, re.IGNORECASE):
            usage.append(line[match.end() :])
        elif (
            usage
            and line.startswith(" ")
            and line.strip()
            and not _starts_entry(line, _BELOW_USAGE)
        ):
            usage.append(line)
        elif usage and "".join(usage).strip():
            break
    forms = [line.split()[0] for line in usage if line.strip()]
    if forms.count(forms[0] if forms else "") > 1:
        # Several ways to call it: what one requires, another may not.
        return set(), []
    outside, inside, depth = "", [""], 0
    for character in " ".join(usage):
        if character in "[(<{":
            depth += 1
            if depth == 1:
                inside.append("")
        if depth:
            inside[-1] += character
        else:
            outside += character
        depth -= character in "])>}" and depth > 0
    groups = [group for text in inside if (group := _group(text))]
    return set(re.findall(r"(?<!\S)--?[A-Za-z0-9][\w.-]*", outside)), groups


def _group(text: str) -> Group | None:
    """Read `(--cpu | --gpu GPU)` or `[--cpu | --gpu GPU]`, and clap's `<--cpu|--gpu <GPU>>`."""
    parts = re.split(r"\s*\|\s*", re.sub(r"\{[^{}]*\}|(?<!^)<[^<>]*>", "", text)[1:-1])
    names = [re.match(r"--?[A-Za-z0-9][\w.-]*", part) for part in parts]
    if len(names) < 2 or not all(names):
        return None
    # Several of a group that clap requires may be given, where the program says so.
    return Group(
        tuple(name[0] for name in names if name),
        required=text[0] != "[",
        exclusive=text[0] != "<",
    )


def _starts_entry(line: str, furthest: int = _FURTHEST) -> bool:
    match = re.match(r"(\s*)(\*\s+)?(--?[A-Za-z0-9?@\[])", line)
    return match is not None and len(match[1]) <= furthest


def _entries(lines: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, str, bool]]:
    """Give each entry's head, with names and metavar, its description, and if it is in a box."""
    head, description, in_box, in_usage = "", "", False, False
    for line, boxed in lines:
        if not line.strip():
            in_usage = False
        elif re.match(r"\s*usage:", line, re.IGNORECASE):
            in_usage = True
        elif _starts_entry(line, _BELOW_USAGE if in_usage else _FURTHEST):
            in_usage = False
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


def _below_heading(lines: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Leave out what stands above the first heading: a description may name flags."""
    for index, (line, _) in enumerate(lines):
        if re.match(r"\s{0,2}\S.*:$", line) and not re.match(r"\s*usage:", line, re.IGNORECASE):
            below = lines[index:]
            return below if any(_starts_entry(line) for line, _ in below) else lines
    return lines


def _split(line: str, boxed: bool) -> tuple[str, str]:
    """Split an entry where its columns part."""
    if match := re.match(r"((?:-\S+,)?-\S+):\s+", line):
        # absl writes `--seed: The seed` and `--[no]amp: Whether`.
        return match[1] + ("" if "[no" in match[1] else " VALUE"), line[match.end() :]
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
        names += [f"{dashes}{name}"] + ([f"{dashes}{no[1:-1]}{name}"] if no else [])
    if not names:
        return None
    for short, listed in re.findall(r"\[(short )?alias(?:es)?: ([^\]]*)\]", description):
        # clap 4 left out the dashes in its first years.
        dashes = "-" if short else "--"
        names += [f"{dashes}{name.lstrip('-')}" for name in re.split(r",\s*", listed)]
    rest = _NAME.sub("", searched).strip(" ,/|;=*")
    valued = rest != "" or _CHOICES.search(words) is not None or re.search(r"<.*>", words)
    optional = re.search(r"\[(?!no-?\])[^|\[\]]*\]|<bool>|\bBOOLEAN\b|\.\.\.", words)
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
        or re.search(r"\[(?:[^\[\]]*;\s*)?required\]", description) is not None
        # So tyro writes it.
        or (boxed and "(required)" in description),
    )


def _choices_of_head(head: str) -> tuple[str, ...] | None:
    match = _CHOICES.search(head)
    if match is None or re.search(r"[%()]|\.\.\.", match[0]):
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

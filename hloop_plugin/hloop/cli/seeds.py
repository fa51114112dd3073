"""``hloop seeds``: the seeds of a sweep, and what its modules make of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json
from hloop.plan.seeds import DEFAULT_SEED


def command(
    base: Annotated[int, typer.Option(metavar="B", min=0, max=2**64 - 1, help="The first seed.")],
    count: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="How many.")] = 1,
    module: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=BASE]",
            help="A module, and the base of its random numbers; may be repeated. "
            "[default base: made from the name]",
        ),
    ] = None,
    default: Annotated[
        int, typer.Option(metavar="SEED", help="The seed with which every module keeps its base.")
    ] = DEFAULT_SEED,
    as_json: JsonOption = False,
) -> None:
    """Print seeds, made with SplitMix64.

    Without --module: the first N numbers that SplitMix64 makes from the state B. With it: for
    each of the N seeds from B on, the seed that each module gets.
    """
    from hloop.errors import HloopError, Problem
    from hloop.plan.seeds import module_seed, splitmix64

    if module is None:
        numbers = splitmix64(base, count)
        if as_json:
            print_json({"base": base, "splitmix64": numbers})
        else:
            for number in numbers:
                print(f"{number:016X}  {number}")
        return
    bases = dict(_base(text) for text in module)
    if len(bases) < len(module):
        raise HloopError(Problem("usage", "--module", "a module is named twice", "each name once"))
    if base + count > 2**64:
        raise HloopError(
            Problem("usage", "--count", f"the last seed is {base + count - 1}", "at most 64 bits")
        )
    rows: list[dict[str, Any]] = [
        {
            "seed": seed,
            "modules": {name: module_seed(seed, own, default) for name, own in bases.items()},
        }
        for seed in range(base, base + count)
    ]
    if as_json:
        print_json({"base": base, "default": default, "modules": bases, "seeds": rows})
        return
    for row in rows:
        seeds = " ".join(f"{name}={value}" for name, value in row["modules"].items())
        print(f"seed={row['seed']} {seeds}")


def _base(text: str) -> tuple[str, int]:
    """Read ``NAME`` or ``NAME=BASE``."""
    from hloop.errors import HloopError, Problem
    from hloop.plan.seeds import module_base

    name, equals, number = text.partition("=")
    try:
        base = int(number, 0) if equals else module_base(name)
    except ValueError:
        base = -1
    if not name or not 0 <= base < 2**64:
        expected = "NAME or NAME=BASE, with a base of at most 64 bits, as in 42 or 0x2A"
        raise HloopError(Problem("usage", "--module", f"{text!r} is no module", expected))
    return name, base

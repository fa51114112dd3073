"""``hloop profile-compare``: did the kernels of a job become slower?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hloop.cli.options import JsonOption
from hloop.cli.output import print_json


def command(
    baseline: Annotated[Path, typer.Argument(metavar="BASE", help="The report to hold against.")],
    candidate: Annotated[Path, typer.Argument(metavar="CAND", help="The report to judge.")],
    threshold: Annotated[
        float, typer.Option(metavar="FRACTION", help="The largest slowdown that passes.")
    ] = 0.20,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="How many epochs each of them covers.")
    ] = None,
    base_epochs: Annotated[
        int | None, typer.Option(metavar="N", help="How many the first one covers.")
    ] = None,
    cand_epochs: Annotated[
        int | None, typer.Option(metavar="M", help="How many the second one covers.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the time in kernels for each epoch, from the profiler's cuda_gpu_kern_sum as CSV.

    Exit 0: it grew by no more than the threshold. 1: by more. 2: it cannot be computed.
    """
    from hloop.report.profilecompare import compare_profiles

    if epochs is not None and (base_epochs is not None or cand_epochs is not None):
        raise typer.BadParameter("--epochs goes without --base-epochs and --cand-epochs")
    found = compare_profiles(
        baseline,
        candidate,
        base_epochs=epochs if base_epochs is None else base_epochs,
        cand_epochs=epochs if cand_epochs is None else cand_epochs,
        threshold=threshold,
    )
    if as_json:
        print_json(found)
    else:
        for side in ("baseline", "candidate"):
            report = found[side]
            per_epoch = report["kernel_ns_per_epoch"]
            print(f"{side}: {per_epoch / 1e6:.6g} ms in kernels per epoch ({report['report']})")
        for kind in ("new", "gone"):
            for name in found[kind]:
                print(f"{kind} kernel: {name}")
        verdict = "passes" if found["passed"] else "does not pass"
        print(f"slowdown: {found['slowdown']:+.2%}, threshold {threshold:.2%}: {verdict}")
    raise typer.Exit(0 if found["passed"] else 1)

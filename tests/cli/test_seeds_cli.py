"""`hloop seeds`: what it prints."""

from __future__ import annotations

from typing import Any

import pytest


def test_without_modules_it_prints_what_splitmix64_makes(hloop: Any) -> None:
    assert hloop("seeds", "--base", 1234567, "--count", 2).out.splitlines() == [
        "599ED017FB08FC85  6457827717110365317",
        "2C73F08458540FA5  3203168211198807973",
    ]


def test_with_modules_it_prints_a_line_for_each_seed(hloop: Any) -> None:
    outcome = hloop("seeds", "--base", 42, "--count", 3, "--module", "replay=0x10")
    assert [line.split()[0] for line in outcome.out.splitlines()] == [
        *("seed=42", "seed=43", "seed=44")
    ]


def test_the_default_seed_leaves_the_bases_as_they_are(hloop: Any) -> None:
    assert hloop("seeds", "--base", 42, "--module", "a=0x10", "--module", "b=3").out == (
        "seed=42 a=16 b=3\n"
    )


def test_json_holds_all_of_it(hloop: Any) -> None:
    document = hloop("seeds", "--base", 7, "--default", 7, "--module", "a=5", "--json").document
    assert document == {
        "base": 7,
        "default": 7,
        "modules": {"a": 5},
        "seeds": [{"seed": 7, "modules": {"a": 5}}],
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--module", "a=many"), "NAME=BASE"),
        (("--module", "a=18446744073709551616"), "at most 64 bits"),
        (("--module", "=5"), "NAME=BASE"),
        (("--module", "a", "--module", "a=5"), "named twice"),
        (("--module", "a", "--base", 2**64 - 1, "--count", 2), "the last seed is"),
        (("--base", -1), "greater than or equal to 0"),
        (("--base", 2**64), "less than or equal to"),
    ],
)
def test_what_is_no_base_is_refused(hloop: Any, options: tuple[object, ...], words: str) -> None:
    outcome = hloop("seeds", "--base", 42, *options)
    assert (outcome.code, words in outcome.err) == (2, True)

"""SplitMix64, and the seeds of modules."""

from __future__ import annotations

import pytest
from hloop.plan.seeds import module_base, module_seed, splitmix64


@pytest.mark.parametrize(
    ("state", "numbers"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (42, [0xBDD732262FEB6E95, 0x28EFE333B266F103, 0x47526757130F9F52]),
        (1234567, [6457827717110365317, 3203168211198807973]),
    ],
)
def test_splitmix64_gives_the_published_numbers(state: int, numbers: list[int]) -> None:
    assert splitmix64(state, len(numbers)) == numbers


def test_the_default_seed_changes_nothing() -> None:
    assert module_seed(42, 0xBEEF) == 0xBEEF


def test_another_default_can_be_declared() -> None:
    assert module_seed(7, 0xBEEF, default=7) == 0xBEEF
    assert module_seed(42, 0xBEEF, default=7) != 0xBEEF


def test_neighbouring_seeds_give_module_seeds_that_share_half_their_bits() -> None:
    shared = [
        (module_seed(seed, base) ^ module_seed(seed + 1, base)).bit_count()
        for seed in range(1000, 1200)
        for base in (0, 1, 0xBEEF)
    ]
    assert 31 < sum(shared) / len(shared) < 33


def test_no_two_of_many_module_seeds_are_the_same() -> None:
    made = {module_seed(seed, base) for seed in range(200) for base in range(50)}
    assert len(made) == 200 * 50


def test_a_base_made_from_a_name_stays_the_same() -> None:
    # printf replay | sha256sum | head -c 16
    assert module_base("replay") == int(REPLAY, 16)


REPLAY = "ac203c9843b5bd8c"

"""Seeds: numbers that lie apart although the seeds of a sweep are neighbours.

A program has several places that draw random numbers, and each has a base of its own. Mixed with
SplitMix64, the seeds 1 and 2 give bases that have nothing to do with each other. Nothing here
reads or writes anything.
"""

from __future__ import annotations

import hashlib

DEFAULT_SEED = 42
"""The seed that changes nothing, where a workload declares no other."""

LARGEST_SEED = 2**53 - 1
"""The largest seed of a job: the largest integer that records can hold."""

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def splitmix64(state: int, count: int) -> list[int]:
    """Give the first numbers that SplitMix64 makes from a state, each of 64 bits.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014, as in
    Java's ``SplittableRandom``; with the constants of Vigna's public ``splitmix64.c``.
    """
    return [_avalanche(state + _GAMMA * (index + 1)) for index in range(count)]


def _avalanche(z: int) -> int:
    z &= _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def module_base(name: str) -> int:
    """Give the base of a module that declares none: the first 8 bytes of its name's SHA-256."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def module_seed(seed: int, base: int, default: int = DEFAULT_SEED) -> int:
    """Give the seed of one module in a run with ``seed``, of 64 bits.

    The default seed changes nothing: the module's seed is its base, as it was before there was
    any seed to give.
    """
    if seed == default:
        return base
    return splitmix64(splitmix64(seed, 1)[0] ^ base, 1)[0]

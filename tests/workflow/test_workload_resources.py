"""The registered inputs: their digests, and the script that made them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

# A change in the last bits of the linear algebra moves the feedback, of values up to 250, by
# about 1e-4; everything else agrees to its 6 decimals.
TOLERANCE = {"feedback": 1e-2}


@pytest.fixture
def resources(pytestconfig):
    return pytestconfig.rootpath / "resources"


@pytest.fixture(scope="module")
def built(build_program):
    return build_program.build()


def digests(resources) -> dict[str, str]:
    lines = (resources / "SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def test_every_file_has_its_registered_digest(resources):
    for name, digest in digests(resources).items():
        assert hashlib.sha256((resources / name).read_bytes()).hexdigest() == digest, name


def test_every_file_is_registered(resources):
    files = {path.relative_to(resources).as_posix() for path in resources.rglob("*.npz")}
    assert set(digests(resources)) == files


def test_the_script_makes_the_registered_files(resources, built):
    assert set(built) == set(digests(resources))


def test_the_script_makes_the_registered_arrays(resources, built):
    for name, arrays in built.items():
        with np.load(resources / name, allow_pickle=False) as archive:
            registered = dict(archive)
        assert set(registered) == set(arrays)
        for key, array in registered.items():
            if array.dtype.kind == "U":
                assert str(array) == str(arrays[key])
            else:
                tolerance = TOLERANCE.get(key, 5e-6)
                assert np.allclose(array, arrays[key], rtol=0, atol=tolerance), (name, key)

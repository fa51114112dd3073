"""Canonical JSON is RFC 8785 and a newline, and its reader takes nothing else."""

import json
from typing import Any

import pytest
import rfc8785
from hloop import canonical
from hloop.canonical import MAX_INTEGER, CanonicalError
from hypothesis import example, given, settings
from hypothesis import strategies as st

# Unicode without surrogates, which are no characters.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none() | st.booleans() | st.integers(min_value=-MAX_INTEGER, max_value=MAX_INTEGER) | TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda values: st.lists(values) | st.dictionaries(TEXTS, values), max_leaves=20
)
# Beyond U+FFFF the order of code points is not that of UTF-16 code units.
TURNED = {"\uffff": 1, "\U00010000": 2}


@settings(deadline=None)
@given(VALUES)
@example(TURNED)
@example({"nested": [TURNED]})
@example("".join(map(chr, range(0x100))))
def test_it_is_rfc_8785_and_a_newline(value: Any) -> None:
    assert canonical.dumps(value) == rfc8785.dumps(value) + b"\n"


@settings(deadline=None)
@given(VALUES)
@example(TURNED)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert canonical.loads(canonical.dumps(value)) == value


# RFC 8785, section 3.2.3.
def test_keys_stand_in_the_order_of_the_rfcs_example() -> None:
    value = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert list(json.loads(canonical.dumps(value)).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


# What the bytes are, and what `printf ... | sha256sum` prints of them.
@pytest.mark.parametrize(
    ("value", "data", "sha256"),
    [
        ({}, b"{}\n", "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"),
        (
            {"a": [True, False, None, 0, -1, MAX_INTEGER]},
            b'{"a":[true,false,null,0,-1,9007199254740991]}\n',
            "d90f9f5b0be18ca5deb4c14933bf3f842682c3a099e28d49c94ca1b04db66c87",
        ),
        (
            'é\u2028\x7f\x1f\x00\b\t\n\f\r"\\/',
            b'"\xc3\xa9\xe2\x80\xa8\x7f\\u001f\\u0000\\b\\t\\n\\f\\r\\"\\\\/"\n',
            "8a66a78ed179022470a833ee72a3069ba4092530ccef3cb9df5dad0471eef356",
        ),
        (
            TURNED,
            b'{"\xf0\x90\x80\x80":2,"\xef\xbf\xbf":1}\n',
            "78f6c5c87bd4c6a89643df0c34677202305a19d234fc8097b57c71e4e39ae1e7",
        ),
    ],
    ids=["empty", "scalars", "escapes", "order"],
)
def test_golden_bytes_and_digest(value: Any, data: bytes, sha256: str) -> None:
    assert (canonical.dumps(value), canonical.digest(value)) == (data, f"sha256:{sha256}")


def mutated(data: bytes, draw: Any) -> bytes:
    """Give ``data`` with one bit turned, or a byte or two taken out, put in or turned round."""
    at = draw.draw(st.integers(0, len(data) - 1))
    kind = draw.draw(st.sampled_from(["flip", "cut", "put", "swap", "double"]))
    if kind == "flip":
        bit = 1 << draw.draw(st.integers(0, 7))
        return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
    if kind == "cut":
        return data[:at] + data[at + draw.draw(st.integers(1, 2)) :]
    if kind == "put":
        return data[:at] + bytes([draw.draw(st.sampled_from(b' \t\r\n0-+.eE"\\,:'))]) + data[at:]
    if kind == "swap":
        return data[:at] + data[at : at + 2][::-1] + data[at + 2 :]
    return data[: at + 1] + data[at:]


@settings(deadline=None, max_examples=500)
@given(VALUES, st.data())
def test_a_mutation_is_refused_or_the_form_of_another_value(value: Any, draw: Any) -> None:
    data = mutated(canonical.dumps(value), draw)
    try:
        other = canonical.loads(data)
    except CanonicalError:
        return
    assert rfc8785.dumps(other) + b"\n" == data


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans(), st.sampled_from([":", ": ", " :"]))
def test_the_same_value_written_otherwise_is_refused(
    value: Any, indent: int | None, ascii: bool, colon: str
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii, separators=(",", colon))
    data = text.encode() + b"\n"
    if data != canonical.dumps(value):
        with pytest.raises(CanonicalError, match="not in canonical form"):
            canonical.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}",
        b"{}\n\n",
        b"{}\r\n",
        b" {}\n",
        b"{}\n{}\n",
        b"{}\0\n",
        b"\xef\xbb\xbf{}\n",
        "{}\n".encode("utf-16"),
        b'"\xff"\n',
        b'"\xed\xa0\x80"\n',
        b'"\\ud800"\n',
        b'"\\u0041"\n',
        b'"\\/"\n',
        b'"\\u001F"\n',
        b'"\\u000a"\n',
        b'"\n"\n',
        b'"\\x41"\n',
        b"NaN\n",
        b"Infinity\n",
        b"-Infinity\n",
        b"-0\n",
        b"+1\n",
        b"1.0\n",
        b"1e3\n",
        b"1E400\n",
        b"01\n",
        b"0x1\n",
        b"9007199254740992\n",
        b"-9007199254740992\n",
        b"9" * 5000 + b"\n",
        b"True\n",
        b"'a'\n",
        b"[1,]\n",
        b"[1 ,2]\n",
        b'{"b":1,"a":2}\n',
        b'{"a":1,"a":1}\n',
        b'{"a": 1}\n',
        b"{a:1}\n",
        b"{}//\n",
        b"[" * 100_000 + b"]" * 100_000 + b"\n",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
        b'{"\xef\xbf\xbf":1,"\xf0\x90\x80\x80":2}\n',
    ],
    ids=lambda data: repr(data[:20]),
)
def test_the_reader_refuses(data: bytes) -> None:
    with pytest.raises(CanonicalError):
        canonical.loads(data)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "where", "found"),
    [
        (1.0, ".", "the float 1.0"),
        (float("nan"), ".", "the float nan"),
        ({"a": [0, {"b": 0.5}]}, ".a[1].b", "the float 0.5"),
        ([MAX_INTEGER + 1], "[0]", "an integer beyond"),
        ([-MAX_INTEGER - 1], "[0]", "an integer beyond"),
        (10**5000, ".", "an integer beyond"),
        ({"a": {1: 2}}, ".a", "the key 1 is not a string"),
        ({None: 2}, ".", "the key None is not a string"),
        ({"a": "\ud800"}, ".a", "a string that is not valid Unicode"),
        ({"\udfff": 1}, ".", "a string that is not valid Unicode"),
        ([b"a"], "[0]", "bytes has no place in JSON"),
        ({"a": {1, 2}}, ".a", "set has no place in JSON"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "integer",
)
def test_what_has_no_canonical_form_is_refused_with_its_place(
    value: Any, where: str, found: str
) -> None:
    with pytest.raises(CanonicalError) as error:
        canonical.dumps(value)
    assert str(error.value).startswith(f"{where}: {found}")


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(CanonicalError, match="nested too deeply"):
        canonical.dumps(nested(100_000))


def test_a_value_within_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(CanonicalError, match="nested too deeply"):
        canonical.dumps(value)


def test_a_key_that_stands_twice_is_named() -> None:
    with pytest.raises(CanonicalError, match="the key 'a' stands twice"):
        canonical.loads(b'{"a":1,"\\u0061":1}\n')

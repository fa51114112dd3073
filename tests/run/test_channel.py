"""Messages on a stream of bytes, and a sender that never waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hloop.run.channel import LineReader, Message, Outbox, encode
from hypothesis import given
from hypothesis import strategies as st

MESSAGES: list[Message] = [{"say": "started", "name": "ü\n"}, {"say": "ended"}, {"n": [1, None]}]

values = st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=()))
messages = st.lists(st.dictionaries(st.text(), values))


@given(messages, st.integers(1, 50))
def test_messages_survive_being_cut_anywhere(sent: list[Message], size: int) -> None:
    data = b"".join(map(encode, sent))
    reader, found = LineReader(), []
    for start in range(0, len(data), size):
        found += reader.feed(data[start : start + size])
    assert found == sent


def test_several_messages_in_one_piece_come_apart() -> None:
    assert LineReader().feed(b"".join(map(encode, MESSAGES))) == MESSAGES


def test_half_a_message_is_kept_back() -> None:
    assert LineReader().feed(encode(MESSAGES[0])[:-1]) == []


@pytest.fixture
def pair() -> Iterator[tuple[Outbox, socket.socket]]:
    """An outbox and the other end, which reads when it is told to."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield Outbox(ours), theirs


def fill(outbox: Outbox) -> list[Message]:
    """Put messages until they do not fit any more. Gives them."""
    sent: list[Message] = []
    while outbox.flush():
        sent.append({"number": len(sent), "text": "x" * 10_000})
        outbox.put(sent[-1])
    return sent


def test_what_the_socket_takes_is_sent_at_once(pair: tuple[Outbox, socket.socket]) -> None:
    outbox, theirs = pair
    outbox.put(MESSAGES[0])
    assert LineReader().feed(theirs.recv(1000)) == [MESSAGES[0]]


def test_a_reader_that_does_not_read_holds_nobody_up(pair: tuple[Outbox, socket.socket]) -> None:
    outbox, _ = pair
    fill(outbox)
    outbox.put(MESSAGES[0])
    assert outbox.flush() is False


def test_what_waited_arrives_whole_and_in_order(pair: tuple[Outbox, socket.socket]) -> None:
    outbox, theirs = pair
    sent = fill(outbox)
    reader, found = LineReader(), []
    while len(found) < len(sent):
        found += reader.feed(theirs.recv(65536))
        outbox.flush()
    assert found == sent


def test_what_a_dead_reader_did_not_take_is_dropped(pair: tuple[Outbox, socket.socket]) -> None:
    outbox, theirs = pair
    fill(outbox)
    theirs.close()
    assert outbox.flush() is True

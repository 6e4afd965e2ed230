"""The blocks of a call: every logical block is dispatched once, and is over when its part is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.elastic.task_state import CallBlocks


def test_parts_are_taken_from_the_front():
    blocks = CallBlocks(12)
    assert [blocks.take(4), blocks.take(6)] == [0, 4]
    assert blocks.left == 2


def test_a_call_is_over_when_all_its_parts_are():
    blocks = CallBlocks(3)
    first, second, third = blocks.take(1), blocks.take(1), blocks.take(1)
    blocks.done(third)
    blocks.done(first)
    assert not blocks.finished
    blocks.done(second)
    assert blocks.finished


def test_all_blocks_can_be_taken_at_once():
    blocks = CallBlocks(7)
    assert (blocks.take(blocks.left), blocks.left, blocks.finished) == (0, 0, False)
    blocks.done(0)
    assert blocks.finished


def test_it_is_not_over_while_a_part_of_it_waits():
    blocks = CallBlocks(5)
    blocks.done(blocks.take(4))
    assert (blocks.finished, blocks.left) == (False, 1)


@pytest.mark.parametrize("count", [0, -1, 6])
def test_blocks_that_are_not_there_are_not_taken(count):
    blocks = CallBlocks(5)
    with pytest.raises(ValueError, match=f"{count} logical blocks were to be taken where 5 are left"):
        blocks.take(count)
    assert blocks.left == 5


def test_nothing_is_taken_twice():
    blocks = CallBlocks(5)
    blocks.take(5)
    with pytest.raises(ValueError, match="where 0 are left"):
        blocks.take(1)


def test_a_part_that_was_not_taken_here_is_not_over():
    blocks = CallBlocks(5)
    blocks.take(2)
    with pytest.raises(ValueError, match="is running"):
        blocks.done(1)


def test_a_part_is_over_once():
    blocks = CallBlocks(5)
    blocks.done(blocks.take(1))
    with pytest.raises(ValueError, match="is running"):
        blocks.done(0)


def test_a_call_without_blocks_is_refused():
    with pytest.raises(ValueError, match="at least one logical block, not 0"):
        CallBlocks(0)


@given(size=st.integers(1, 60), data=st.data())
def test_whatever_is_taken_and_over_in_whatever_order_each_block_is_there_once(size, data):
    blocks, running, taken = CallBlocks(size), [], []
    while blocks.left or running:
        if blocks.left and (not running or data.draw(st.booleans())):
            count = data.draw(st.integers(1, blocks.left))
            first = blocks.take(count)
            running.append(first)
            taken += range(first, first + count)
        else:
            blocks.done(running.pop(data.draw(st.integers(0, len(running) - 1))))
        assert blocks.left == size - len(taken)
        assert blocks.finished is (not blocks.left and not running)
    assert taken == [*range(size)]

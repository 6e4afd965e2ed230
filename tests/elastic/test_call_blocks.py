"""The blocks of a call: every logical block is dispatched once, and is over when its part is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.elastic.task_state import CallBlocks


@pytest.mark.parametrize("count", [0, -1, 6])
def test_blocks_that_are_not_there_are_not_taken(count):
    blocks = CallBlocks(5)
    with pytest.raises(ValueError, match=f"{count} logical blocks were to be taken where 5 are left"):
        blocks.take(count)
    assert blocks.left == 5


def test_a_part_is_over_once():
    blocks = CallBlocks(5)
    blocks.done(blocks.take(1))
    with pytest.raises(ValueError, match="is running"):
        blocks.done(0)


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

"""The tree of a call: every logical block is dispatched once, and is over when its shard is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.elastic.task_state import Shard, Tree


def test_shards_are_taken_from_the_front_each_in_its_own_shape():
    tree = Tree(12)
    assert [tree.take(4, shade=1), tree.take(6, shade=2)] == [Shard(0, 4, 1), Shard(4, 6, 2)]
    assert [(node.first, node.count, node.state, node.shade) for node in tree.leaves()] == [
        (0, 4, "actual", 1),
        (4, 6, "actual", 2),
        (10, 2, "virtual", None),
    ]
    assert tree.left == 2


def test_a_node_is_over_when_both_its_parts_are():
    tree = Tree(3)
    first, second, third = tree.take(1), tree.take(1), tree.take(1)
    head, rest = tree.root.children
    tree.done(third)
    tree.done(first)
    assert (head.state, rest.state, tree.root.state) == ("done", "actual", "actual")
    tree.done(second)
    assert (rest.state, tree.root.state) == ("done", "done")
    assert tree.finished


def test_all_blocks_at_once_are_the_root():
    tree = Tree(7)
    shard = tree.take(tree.left)
    assert (shard, tree.left, tree.root.children) == (Shard(0, 7, 1), 0, None)
    tree.done(shard)
    assert tree.finished


def test_it_is_not_over_while_a_part_of_it_waits():
    tree = Tree(5)
    tree.done(tree.take(4))
    assert (tree.finished, tree.root.state, tree.left) == (False, "actual", 1)


@pytest.mark.parametrize("count", [0, -1, 6])
def test_blocks_that_are_not_there_are_not_taken(count):
    tree = Tree(5)
    with pytest.raises(ValueError, match=f"{count} logical blocks were to be taken where 5 are left"):
        tree.take(count)
    assert tree.left == 5
    assert [(node.first, node.count) for node in tree.leaves()] == [(0, 5)]


def test_nothing_is_taken_twice():
    tree = Tree(5)
    tree.take(5)
    with pytest.raises(ValueError, match="where 0 are left"):
        tree.take(1)


@pytest.mark.parametrize("shard", [Shard(0, 2, 1), Shard(0, 1, 2), Shard(1, 1, 1)])
def test_a_shard_that_was_not_taken_here_is_not_over(shard):
    tree = Tree(5)
    tree.take(1)
    with pytest.raises(ValueError, match="is not running"):
        tree.done(shard)


def test_a_shard_is_over_once():
    tree = Tree(5)
    shard = tree.take(1)
    tree.done(shard)
    with pytest.raises(ValueError, match="is not running"):
        tree.done(shard)


def test_a_call_without_blocks_is_refused():
    with pytest.raises(ValueError, match="at least one logical block, not 0"):
        Tree(0)


def test_a_call_of_very_many_pieces_is_no_deeper_than_it_can_be_walked():
    tree = Tree(20_000)
    shards = [tree.take(1) for _ in range(20_000)]
    for shard in reversed(shards):
        tree.done(shard)
    assert tree.finished
    assert sum(node.count for node in tree.leaves()) == 20_000


@given(blocks=st.integers(1, 60), data=st.data())
def test_whatever_is_taken_and_over_in_whatever_order_each_block_is_there_once(blocks, data):
    tree, running, taken = Tree(blocks), [], []
    while tree.left or running:
        if tree.left and (not running or data.draw(st.booleans())):
            shard = tree.take(data.draw(st.integers(1, tree.left)), data.draw(st.sampled_from([1, 2, 4, 8])))
            running.append(shard)
            taken += range(shard.first, shard.first + shard.count)
        else:
            tree.done(running.pop(data.draw(st.integers(0, len(running) - 1))))
        leaves = list(tree.leaves())
        assert [block for node in leaves for block in range(node.first, node.first + node.count)] == [*range(blocks)]
        assert sum(node.count for node in leaves if node.state == "virtual") == tree.left == blocks - len(taken)
        actual = [(node.first, node.count, node.shade) for node in leaves if node.state == "actual"]
        assert sorted(actual) == sorted((shard.first, shard.count, shard.shade) for shard in running)
        assert tree.finished is (not tree.left and not running)
    assert sorted(taken) == [*range(blocks)]

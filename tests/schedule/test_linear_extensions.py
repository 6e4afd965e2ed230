"""In how many orders tasks can run: closed forms, and counting one by one."""

import math
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedule_builder import chain, layer

from edgetune.stages.schedule import dependencies
from edgetune.stages.schedule.dependencies import MODES, TaskNode, count_linear_extensions, dependency_graph
from edgetune.stages.schedule.network import LayeredNetwork


def one_by_one(before):
    return sum(
        all(order.index(leader) < order.index(node) for node, leaders in enumerate(before) for leader in leaders)
        for order in permutations(range(len(before)))
    )


def line(n):
    return [[node - 1] if node else [] for node in range(n)]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], 1),
        (line(7), 1),
        ([[]] * 7, math.factorial(7)),
        ([[], [0], [0], [0]], math.factorial(3)),  # all after one
        ([[], [], [], [0, 1, 2]], math.factorial(3)),  # one after all
        ([*line(3), [], [3], [4]], math.comb(6, 3)),  # two chains side by side
        ([[], [0], [0], [1], [1], [2], [2]], math.factorial(7) // (7 * 3 * 3)),  # a tree: the hook formula
        ([[], [], [0, 1], [0, 1]], 4),  # a crown is no tree: 2! * 2!
    ],
)
def test_closed_forms(before, expected):
    found = count_linear_extensions(before)
    assert (found.least, found.most) == (expected, expected)


def test_a_grid_is_counted_by_its_young_tableaux():
    """A grid of 2 by n has as many orders as there are standard Young tableaux: the Catalan number."""
    n = 12
    before = [[] if not i else [i - 1] for i in range(n)] + [[i] + ([n + i - 1] if i else []) for i in range(n)]
    found = count_linear_extensions(before)
    assert found.method == "downsets"
    assert found.least == math.comb(2 * n, n) // (n + 1)


@st.composite
def partial_orders(draw):
    """Arrows from smaller to larger numbers, none implied by others."""
    before, above = [], []
    for node in range(draw(st.integers(0, 6))):
        known, kept = 0, []
        for leader in sorted(draw(st.sets(st.integers(0, max(node - 1, 0)), max_size=3)) if node else (), reverse=True):
            if not known >> leader & 1:
                kept.append(leader)
                known |= above[leader] | 1 << leader
        above.append(known)
        before.append(sorted(kept))
    return before


@given(before=partial_orders())
def test_every_way_of_counting_agrees_with_one_by_one(before):
    expected, found = one_by_one(before), count_linear_extensions(before)
    assert found.least == found.most == expected
    assert dependencies._count_downsets(before) == expected
    assert dependencies._count_trees(dependencies._in_one_line(before)) <= expected
    assert dependencies._count_trees(dependencies._spanning(before)) >= expected


def test_where_it_cannot_be_counted_it_is_between_bounds(monkeypatch):
    crown = [[], [], [0, 1], [0, 1]]
    monkeypatch.setattr(dependencies, "MOST_DOWNSETS", 2)
    found = count_linear_extensions(crown)
    assert found.method == "bounds"
    assert 1 <= found.least <= 4 <= found.most <= math.factorial(4)
    assert found.least < found.most


TWO = chain("a", {"weights": 1}, {"weights": 1})
"""Six tasks: L0 E0 U0 L1 E1 U1."""


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("bulk", 1),
        ("linear", 1),
        ("deepeye", 4),  # L0 E0 L1 E1 U1 in turn, and U0 at one of four places behind E0
        ("partial", 10),
    ],
)
def test_two_layers(mode, expected):
    graph = dependency_graph(TWO, mode)
    named = {f"{node.kind[0].upper()}{node.layer}": index for index, node in enumerate(graph.nodes)}
    assert set(named) == {"L0", "E0", "U0", "L1", "E1", "U1"}
    arrows = {(name, other) for name, at in named.items() for other, to in named.items() if at in graph.before[to]}
    needed = {("L0", "E0"), ("L1", "E1"), ("E0", "E1"), ("E0", "U0"), ("E1", "U1")}
    if mode == "partial":
        assert arrows == needed
    if mode == "linear":
        assert arrows == {("L0", "E0"), ("E0", "U0"), ("U0", "L1"), ("L1", "E1"), ("E1", "U1")}
    if mode == "bulk":
        assert arrows == {("L0", "L1"), ("L1", "E0"), ("E0", "E1"), ("E1", "U0"), ("U0", "U1")}
    assert count_linear_extensions(graph.before).least == one_by_one(graph.before) == expected


def test_fully_connected_layers_load_beside_convolutions_in_deepeye():
    network = chain("a", {"weights": 1, "kind": "conv"}, {"weights": 1, "kind": "fc"}, {"weights": 1, "kind": "fc"})
    graph = dependency_graph(network, "deepeye")
    leaders = {node: {graph.nodes[at] for at in before} for node, before in zip(graph.nodes, graph.before, strict=True)}
    assert leaders[TaskNode("load", 1)] == set()
    assert leaders[TaskNode("load", 2)] == {TaskNode("load", 1)}
    assert leaders[TaskNode("execute", 2)] == {TaskNode("execute", 1), TaskNode("load", 2)}


def test_layers_without_weights_are_only_executed():
    network = LayeredNetwork("a", (layer(), layer(weights=1, after=[0]), layer(after=[0, 1])))
    for mode in MODES:
        nodes = dependency_graph(network, mode).nodes
        assert sorted(nodes, key=lambda node: (node.kind, node.layer)) == [
            TaskNode("execute", 0),
            TaskNode("execute", 1),
            TaskNode("execute", 2),
            TaskNode("load", 1),
            TaskNode("unload", 1),
        ]


@pytest.mark.parametrize(("mode", "kinds"), list(product(MODES, (["conv"], ["fc"], ["conv", "fc", "other"]))))
def test_every_mode_keeps_what_has_to_be_and_numbers_upwards(mode, kinds):
    readings = [sorted({max(index - 2, 0), index - 1}) if index else () for index in range(9)]
    layers = [
        layer(weights=index % 3, kind=kinds[index % len(kinds)], after=after) for index, after in enumerate(readings)
    ]
    network = LayeredNetwork("a", tuple(layers))
    graph = dependency_graph(network, mode)
    above = []
    for index, leaders in enumerate(graph.before):
        assert all(leader < index for leader in leaders)
        above.append(set(leaders).union(*(above[leader] for leader in leaders)))
    at = {node: index for index, node in enumerate(graph.nodes)}
    for index, each in enumerate(layers):
        assert all(at[TaskNode("execute", before)] in above[at[TaskNode("execute", index)]] for before in each.after)
        if each.weight_bytes:
            assert at[TaskNode("load", index)] in above[at[TaskNode("execute", index)]]
            assert at[TaskNode("execute", index)] in above[at[TaskNode("unload", index)]]


def test_many_layers_are_counted_exactly():
    network = chain("a", *[{"weights": 1}] * 150)
    partial = count_linear_extensions(dependency_graph(network, "partial").before)
    assert partial.method == "tree"
    assert len(f"{partial.least}") > 500
    assert count_linear_extensions(dependency_graph(network, "linear").before).least == 1

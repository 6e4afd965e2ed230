"""The loads, executions and unloads of a network that wait for each other, by mode, and the number of their orders.

    partial   load 0 -> execute 0 -> unload 0                 nothing but what has to be
              load 1 -> execute 1 -> unload 1   (execute 0 -> execute 1)
    linear    load 0 -> execute 0 -> unload 0 -> load 1 -> execute 1 -> unload 1
    bulk      load 0 -> load 1 -> execute 0 -> execute 1 -> unload 0 -> unload 1
    deepeye   two streams: convolutions load and execute in turn, fully connected layers load one after another

Layers without weights are neither loaded nor unloaded. Modes are those of the policies of the same names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise
from typing import Literal, get_args

from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.tasks import TaskKind

Mode = Literal["bulk", "linear", "deepeye", "partial"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A task of a layer."""

    kind: TaskKind
    layer: int


@dataclass(frozen=True, slots=True)
class DependencyGraph:
    """Tasks, and which waits for which.

    Args:
        nodes: In an order in which they can run.
        before: For each, the indices of those that it waits for, ascending, none of which another of them implies.
    """

    nodes: tuple[TaskNode, ...]
    before: tuple[tuple[int, ...], ...]


def dependency_graph(network: LayeredNetwork, mode: Mode) -> DependencyGraph:
    """Return which tasks of a network wait for which."""
    pairs = _needed(network)
    if mode == "bulk":
        pairs |= set(pairwise([*_of("load", network), *_of("execute", network), *_of("unload", network)]))
    elif mode == "linear":
        pairs |= set(pairwise(_by_layer(network, range(len(network.layers)), ("load", "execute", "unload"))))
    elif mode == "deepeye":
        dense = [index for index, layer in enumerate(network.layers) if layer.kind == "fc"]
        others = [index for index, layer in enumerate(network.layers) if layer.kind != "fc"]
        pairs |= set(pairwise(_by_layer(network, others, ("load", "execute"))))
        pairs |= set(pairwise(_by_layer(network, dense, ("load",))))
    return _reduced(pairs, _by_layer(network, range(len(network.layers)), ("load", "execute", "unload")))


def _needed(network: LayeredNetwork) -> set[tuple[TaskNode, TaskNode]]:
    """Return the pairs of every mode: load before execution before unload, and producers before consumers."""
    pairs: set[tuple[TaskNode, TaskNode]] = set()
    for index, layer in enumerate(network.layers):
        pairs |= set(pairwise(_by_layer(network, [index], ("load", "execute", "unload"))))
        pairs |= {(TaskNode("execute", producer), TaskNode("execute", index)) for producer in layer.after}
    return pairs


def _of(kind: TaskKind, network: LayeredNetwork) -> list[TaskNode]:
    return _by_layer(network, range(len(network.layers)), (kind,))


def _by_layer(network: LayeredNetwork, layers: Sequence[int], kinds: Sequence[TaskKind]) -> list[TaskNode]:
    return [
        TaskNode(kind, index)
        for index in layers
        for kind in kinds
        if kind == "execute" or network.layers[index].weight_bytes
    ]


def _reduced(pairs: set[tuple[TaskNode, TaskNode]], nodes: Sequence[TaskNode]) -> DependencyGraph:
    """Return the graph with its nodes in an order that is possible, without pairs that others imply."""
    leaders: dict[TaskNode, list[TaskNode]] = {node: [] for node in nodes}
    for first, second in pairs:
        leaders[second].append(first)
    order = _sorted(nodes, leaders)
    place = {node: index for index, node in enumerate(order)}
    ancestors: list[int] = []  # of each node as a set of bits
    before: list[tuple[int, ...]] = []
    for node in order:
        known, kept = 0, []
        for leader in sorted((place[each] for each in leaders[node]), reverse=True):  # later may imply earlier
            if not known >> leader & 1:
                kept.append(leader)
                known |= ancestors[leader] | 1 << leader
        ancestors.append(known)
        before.append(tuple(sorted(kept)))
    return DependencyGraph(tuple(order), tuple(before))


def _sorted(nodes: Sequence[TaskNode], leaders: Mapping[TaskNode, Sequence[TaskNode]]) -> list[TaskNode]:
    """Return the nodes, each behind those that it waits for; as near to the order given as that allows."""
    sorter = TopologicalSorter(leaders)
    sorter.prepare()
    rank = {node: index for index, node in enumerate(nodes)}
    order: list[TaskNode] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=rank.__getitem__)
        order += ready
        sorter.done(*ready)
    return order


MOST_DOWNSETS = 30_000
"""Sets of done tasks that are looked at: a second or two."""


@dataclass(frozen=True, slots=True)
class LinearExtensions:
    """The number of orders.

    Args:
        least, most: Between these; the same where the number is known.
        method: The method of counting: ``tree``, ``downsets`` or ``bounds``.
    """

    least: int
    most: int
    method: str


def count_linear_extensions(before: Sequence[Sequence[int]]) -> LinearExtensions:
    """Return the number of orders of tasks.

    Args:
        before: For each task the tasks that it waits for, each of a smaller number and none implied by another.
    """
    if (trees := _count_trees(before)) is not None:
        return LinearExtensions(trees, trees, "tree")
    if (counted := _count_downsets(before)) is not None:
        return LinearExtensions(counted, counted, "downsets")
    least = _count_trees(_in_one_line(before))
    most = _count_trees(_spanning(before))
    return LinearExtensions(least or 1, most or math.factorial(len(before)), "bounds")


def _count_trees(before: Sequence[Sequence[int]]) -> int | None:
    """Return the number of orders where arrows taken for lines close no circle; ``None`` where they do."""
    lines: list[list[tuple[int, bool]]] = [[] for _ in before]
    for node, leaders in enumerate(before):
        for leader in leaders:
            lines[node].append((leader, True))
            lines[leader].append((node, False))
    seen = [False] * len(before)
    total, placed = 1, 0
    for root in range(len(before)):
        if seen[root]:
            continue
        walk = _walk(root, lines, seen)
        if walk is None:
            return None
        total *= math.comb(placed + len(walk), placed) * sum(_by_position(walk, lines)[root])
        placed += len(walk)
    return total


def _walk(root: int, lines: Sequence[Sequence[tuple[int, bool]]], seen: list[bool]) -> list[tuple[int, int]] | None:
    """Return the nodes of a tree, each with the one that it was reached from, the root first; ``None``: no tree."""
    walk, at = [(root, -1)], 0
    seen[root] = True
    while at < len(walk):
        node, parent = walk[at]
        at += 1
        for other, _ in lines[node]:
            if other != parent:
                if seen[other]:
                    return None
                seen[other] = True
                walk.append((other, node))
    return walk


def _by_position(walk: Sequence[tuple[int, int]], lines: Sequence[Sequence[tuple[int, bool]]]) -> dict[int, list[int]]:
    """Return, for the root, in how many orders of its tree it is at each position."""
    ways: dict[int, list[int]] = {node: [1] for node, _ in walk}
    for node, parent in reversed(walk[1:]):
        waits_for_parent = (parent, True) in lines[node]
        ways[parent] = _joined(ways[parent], ways.pop(node), first=waits_for_parent)
    return ways


def _joined(root: Sequence[int], child: Sequence[int], *, first: bool) -> list[int]:
    """Return the ways of a root once the tree of a child is mixed in; ``first`` where the root is before the child.

    With the root at position i of its n, and k of the child's m before it, the k go among the i in C(i+k, k) ways and
    the others among what is behind in C(n-1-i+m-k, m-k); the child itself is among the first k, or it is not.
    """
    n, m = len(root), len(child)
    upto = [0, *accumulate(child)]  # ways of the child with its root among the first k
    joined = [0] * (n + m)
    for i, ways in enumerate(root):
        for k in range(m + 1):
            inner = upto[m] - upto[k] if first else upto[k]
            if ways and inner:
                joined[i + k] += ways * inner * math.comb(i + k, k) * math.comb(n - 1 - i + m - k, m - k)
    return joined


def _count_downsets(before: Sequence[Sequence[int]]) -> int | None:
    """Return the number of orders by the sets of tasks that can be done first; ``None`` where there are too many sets.

    Tasks that nothing waits for and that wait for one are left out: behind the one that it waits for, with r others
    still to come, such a task has r + 1 places, whatever the others do.
    """
    followers = _followers(before)
    hanging = {node for node, leaders in enumerate(before) if len(leaders) == 1 and not followers[node]}
    core = [node for node in range(len(before)) if node not in hanging]
    hung = {node: sum(other in hanging for other in followers[node]) for node in core}
    masks = {node: sum(1 << leader for leader in before[node]) for node in core}
    layer, looked_at = {0: 1}, 1
    for size in range(len(core)):
        ahead: dict[int, int] = {}
        for done, ways in layer.items():
            behind = len(core) - size - 1 + sum(hung[node] for node in core if not done >> node & 1)
            for node in core:
                if not done >> node & 1 and masks[node] & done == masks[node]:
                    places = 1
                    for number in range(hung[node]):
                        places *= behind - hung[node] + number + 1
                    ahead[done | 1 << node] = ahead.get(done | 1 << node, 0) + ways * places
        layer, looked_at = ahead, looked_at + len(ahead)
        if looked_at > MOST_DOWNSETS:
            return None
    return sum(layer.values())


def _followers(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return, for each task, the tasks that wait for it."""
    found: list[list[int]] = [[] for _ in before]
    for node, leaders in enumerate(before):
        for leader in leaders:
            found[leader].append(node)
    return found


def _spanning(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return a part of the arrows that closes no circle: fewer arrows, more orders."""
    group = list(range(len(before)))

    def find(node: int) -> int:
        while group[node] != node:
            group[node] = group[group[node]]
            node = group[node]
        return node

    kept: list[list[int]] = [[] for _ in before]
    for node, leaders in enumerate(before):
        for leader in reversed(leaders):  # the nearest say the most
            if find(leader) != find(node):
                group[find(leader)] = find(node)
                kept[node].append(leader)
    return kept


def _in_one_line(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return an order that has all arrows and more, and is a tree: what hangs on one task still does, the rest queues.

    Tasks that only one other waits for, and that wait for none, and tasks that wait for one, and none for them, keep
    their freedom; all others run in the order of their numbers.
    """
    followers = _followers(before)
    free = {
        node
        for node, leaders in enumerate(before)
        if (not leaders and len(followers[node]) == 1) or (len(leaders) == 1 and not followers[node])
    }
    free -= {node for node in free for other in before[node] if other in free}
    line = [node for node in range(len(before)) if node not in free]
    found: list[list[int]] = [[] for _ in before]
    for first, second in pairwise(line):
        found[second].append(first)
    for node in free:
        for leader in before[node]:
            found[node].append(leader)
        for follower in followers[node]:
            found[follower].append(node)
    return [sorted(leaders) for leaders in found]

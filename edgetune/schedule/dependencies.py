"""Which loads, executions and unloads of a network wait for which, by mode; and in how many orders they can run.

    partial   load 0 -> execute 0 -> unload 0                 nothing but what has to be
              load 1 -> execute 1 -> unload 1   (execute 0 -> execute 1)
    linear    load 0 -> execute 0 -> unload 0 -> load 1 -> execute 1 -> unload 1
    bulk      load 0 -> load 1 -> execute 0 -> execute 1 -> unload 0 -> unload 1
    deepeye   two streams: convolutions load and execute in turn, fully connected layers load one after another

Layers without weights are neither loaded nor unloaded. Modes are those of the policies of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from edgetune.schedule.network import LayeredNetwork
from edgetune.schedule.view import TaskKind

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
    """Return what holds in every mode: weights before execution before unload, and producers before consumers."""
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
    followers: dict[TaskNode, set[TaskNode]] = {node: set() for node in nodes}
    for first, second in pairs:
        followers[first].add(second)
    order = _sorted(nodes, followers)
    place = {node: index for index, node in enumerate(order)}
    ancestors: list[int] = []  # of each node as a set of bits
    before: list[tuple[int, ...]] = []
    leaders: dict[TaskNode, list[int]] = {node: [] for node in nodes}
    for first, second in pairs:
        leaders[second].append(place[first])
    for node in order:
        known, kept = 0, []
        for leader in sorted(leaders[node], reverse=True):  # a later one may imply an earlier one, never the reverse
            if not known >> leader & 1:
                kept.append(leader)
                known |= ancestors[leader] | 1 << leader
        ancestors.append(known)
        before.append(tuple(sorted(kept)))
    return DependencyGraph(tuple(order), tuple(before))


def _sorted(nodes: Sequence[TaskNode], followers: dict[TaskNode, set[TaskNode]]) -> list[TaskNode]:
    """Return the nodes such that none is behind one that waits for it; as near to the order given as that allows."""
    from graphlib import TopologicalSorter

    sorter: TopologicalSorter[TaskNode] = TopologicalSorter({node: () for node in nodes})
    for first, seconds in followers.items():
        for second in seconds:
            sorter.add(second, first)
    sorter.prepare()
    rank = {node: index for index, node in enumerate(nodes)}
    order: list[TaskNode] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=rank.__getitem__)
        order += ready
        sorter.done(*ready)
    return order

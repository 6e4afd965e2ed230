"""In how many orders tasks can run that wait for each other: linear extensions of a partial order.

    chain of n         1            n independent         n!
    a tree             exact, in n^2 steps (M. D. Atkinson, "On computing the number of linear extensions of a tree",
                       Order 7, 1990): no circle even where arrows are taken for lines
    few downsets       exact: orders in which a set of tasks can be done, from those of the sets with one task less
    else               between two trees: with more arrows there are fewer orders, with less there are more

Numbers are exact integers of any size; the orders of 150 layers are a number of hundreds of digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

MOST_DOWNSETS = 30_000
"""Sets of done tasks that are looked at: a second or two."""


@dataclass(frozen=True, slots=True)
class LinearExtensions:
    """How many orders there are.

    Args:
        least, most: Between these; the same where the number is known.
        method: How it was found: ``tree``, ``downsets`` or ``bounds``.
    """

    least: int
    most: int
    method: str


def count_linear_extensions(before: Sequence[Sequence[int]]) -> LinearExtensions:
    """Return how many orders there are of tasks.

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
    followers: list[list[int]] = [[] for _ in before]
    for node, leaders in enumerate(before):
        for leader in leaders:
            followers[leader].append(node)
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
    followers: list[list[int]] = [[] for _ in before]
    for node, leaders in enumerate(before):
        for leader in leaders:
            followers[leader].append(node)
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

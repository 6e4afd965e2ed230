"""What is left of the pieces of a kernel: which are kept, and which is launched beside what.

threads                         critical
of a block                      threads
512  o   o   x                  |aaaa|      |
256  o   o   x                  |bbbb|bbbb  |       a, b, c: threads of a block of the piece;
128  o   x   x                  |cccc|cccc  |       beside more threads than c allows: nothing
     49  98  196 blocks          0 1 2 3 ...  critical blocks modulo multiprocessors

Of several critical kernels at once the threads of their blocks add up, so that they may be more than a block can have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgetune.artifacts.elastic_table import ElasticRow, ElasticTable
from edgetune.plotting.captions import legend_beside, set_title
from edgetune.plotting.style import BLUE, COLOURS, GREY, Figure, new_figure, panels_of

_DROPPED = {
    "others score more": ("o", "none"),
    "too many launches": ("s", "none"),
    "too many turns": ("d", "none"),
    "more blocks than multiprocessors": ("D", "none"),
    "does not fit": ("x", GREY),
    "stack": ("v", GREY),
    "spills": ("P", GREY),
    "registers": ("^", GREY),
}
"""Marker and face by reason; what the compiler said is filled."""
_MOST_WORDS = 32
"""Multiprocessors up to which every leftover says on how many blocks its piece runs, and bars have gaps."""


def pruned_figure(table: ElasticTable) -> Figure:
    """Return a line of two panels for each launch: the design space, and what is launched beside what.

    Raises:
        DeviceError: matplotlib is missing.
    """
    launches: dict[tuple[Any, ...], list[ElasticRow]] = {}
    for row in table.rows:
        launches.setdefault((row.kernel, row.grid, row.block, row.dynamic_shared_bytes), []).append(row)
    with new_figure((10.0, 0.4 + 3.0 * len(launches))) as figure:
        panels = panels_of(figure, len(launches), 2, width_ratios=(3, 4))
        for (space, beside), rows in zip(panels, launches.values(), strict=True):
            _draw_space(space, rows)
            _draw_leftovers(beside, rows, table)
        legend_beside(figure, panels.ravel())
    return figure


def _draw_space(axes: Any, rows: Sequence[ElasticRow]) -> None:
    counts = sorted({row.count for row in rows})
    sizes = sorted({row.threads for row in rows})
    kept = Counter((row.count, row.threads) for row in rows if row.status == "kept")
    leftovers = len({(row.critical_blocks, row.critical_threads) for row in rows if row.status == "kept"})
    if kept:
        places = [(counts.index(count), sizes.index(threads)) for count, threads in kept]
        largest = min(230, 1800 / len(counts))  # so that neighbours do not touch
        areas = [max(largest * share / leftovers, 20) for share in kept.values()]
        label = "kept (larger: for more leftovers)"
        axes.scatter(*zip(*places, strict=True), s=areas, color=BLUE, label=label, zorder=3)
    for reason in dict.fromkeys(row.reason for row in rows if row.status == "dropped"):
        marker, face = _DROPPED.get(reason or "", ("*", GREY))
        dropped = [(counts.index(row.count), sizes.index(row.threads)) for row in rows if row.reason == reason]
        style: dict[str, Any] = {"color": GREY} if marker == "x" else {"facecolors": face, "edgecolors": GREY}
        style |= {"s": min(36, 450 / len(counts)), "marker": marker, "zorder": 3}
        axes.scatter(*zip(*dropped, strict=True), label=f"dropped: {reason}", **style)
    axes.set_xticks(range(len(counts)), [str(count) for count in counts], rotation=90 if len(counts) > 5 else 0)
    axes.set_yticks(range(len(sizes)), [str(size) for size in sizes])
    axes.margins(0.15)
    axes.set_xlabel("logical blocks of a piece")
    axes.set_ylabel("threads of a physical block")
    grid, block = ("x".join(map(str, sizes)) for sizes in (rows[0].grid, rows[0].block))
    set_title(axes, rows[0].kernel, f"{grid} blocks of {block}")


def _draw_leftovers(axes: Any, rows: Sequence[ElasticRow], table: ElasticTable) -> None:
    """Draw a bar for every leftover, from the threads beside which a larger block still fits to those it stands for."""
    best = [row for row in rows if row.rank == 0]
    sizes = sorted({row.threads for row in best}, reverse=True)
    limits = sorted({row.critical_threads or 0 for row in best})
    for place, size in enumerate(sizes):
        of_size = [row for row in best if row.threads == size]
        tops = [row.critical_threads or 0 for row in of_size]
        bottoms = [max((limit for limit in limits if limit < top), default=0) for top in tops]
        heights = [top - bottom for top, bottom in zip(tops, bottoms, strict=True)]
        columns = [row.critical_blocks or 0 for row in of_size]
        axes.bar(
            columns, heights, width=0.92 if table.sm_count <= _MOST_WORDS else 1.0, bottom=bottoms,
            color=COLOURS[place % len(COLOURS)],
            label=f"in blocks of {size} threads",
        )  # fmt: skip
        if table.sm_count <= _MOST_WORDS:
            for column, bottom, height, row in zip(columns, bottoms, heights, of_size, strict=True):
                if height > table.threads_per_sm / 30:
                    middle = bottom + height / 2
                    axes.text(column, middle, str(row.blocks), ha="center", va="center", color="white", fontsize=6)
    axes.set_xlim(-0.6, table.sm_count - 0.4)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(0, table.threads_per_sm)
    axes.grid(False, axis="x")
    most = table.header.conditions["gpu"].get("threads_per_block", table.threads_per_sm)
    if best and most < table.threads_per_sm:
        label = f"{most}, most of one block (more: of several)"
        axes.axhline(most, color="black", linewidth=0.8, linestyle="--", label=label)
    axes.set_xlabel(f"critical blocks modulo {table.sm_count} multiprocessors")
    axes.set_ylabel("threads of critical blocks")
    name = str(table.header.conditions["gpu"].get("name", ""))
    set_title(axes, f"launched beside what, on {name}", "numbers: physical blocks; white: none fits")

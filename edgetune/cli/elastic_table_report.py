"""Prints kept pieces of kernels: the resources of each form, and the piece to launch beside each leftover."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO

from edgetune.cli.screen import answer, table
from edgetune.cli.sections import TextSection
from edgetune.units import format_bytes
from edgetune.workflows.cells import brief
from edgetune.workflows.report.elastic_table import write_pieces

if TYPE_CHECKING:
    from edgetune.cli.command import Terminal
    from edgetune.stages.elastic.forms import Forms
    from edgetune.stages.elastic.gpu import Resources
    from edgetune.stages.elastic.shrink import Shrunk
    from edgetune.workflows.kernels.shrink import KeptPieces


def report_pieces(kept: KeptPieces, terminal: Terminal) -> None:
    """Print the resources of each form, and the pieces to launch beside no critical block; with --verbose all."""
    table, shrunk = kept.table, kept.shrunk
    if terminal.json:
        answer({
            "file": str(kept.target.path or "-"), "kernel": shrunk.kernel, "gpu": shrunk.gpu.name,
            "designs": len(shrunk.designs), "pruned_share": shrunk.pruned_share,
            "forms": form_rows(kept.forms, shrunk),
            "rows": [brief(row) for row in table.rows],
        })  # fmt: skip
    if terminal.quiet:
        return
    show_forms(kept.forms, shrunk, stream=sys.stderr)
    dropped = Counter(row.reason for row in table.rows if row.status == "dropped")
    reasons = ", ".join(f"{count}: {reason}" for reason, count in dropped.items())
    beside = len(shrunk.leftovers) * shrunk.gpu.sm_count
    terminal.screen.info(
        f"{len(shrunk.designs)} pieces, each beside {beside} kinds of critical kernel: {len(shrunk.places)} of "
        f"{len(shrunk.designs) * beside} combinations are kept, {shrunk.pruned_share:.1%} of the space pruned"
        f"{f'; pieces that are kept beside none: {reasons}' if reasons else ''}"
    )
    best = [row for row in table.rows if row.rank == 0 and row.critical_blocks == 0]
    write_pieces(table.rows if terminal.verbose else best, TextSection(sys.stderr))


def show_forms(forms: Forms, shrunk: Shrunk, *, stream: TextIO | None = None) -> None:
    """Print the compiler's figures of every form of a kernel, and whether the form is kept."""

    table(
        ("form", "threads>", "registers>", "of a block>", "shared>", "stack>", "spills>", "verdict"),
        [
            (
                row["form"], row["threads"], row["registers_per_thread"], row["registers_per_block"],
                *(format_bytes(row[f"{what}_bytes"]) for what in ("static_shared", "stack", "spill")), row["verdict"],
            )
            for row in form_rows(forms, shrunk)
        ],
        stream=stream,
    )  # fmt: skip


def form_rows(forms: Forms, shrunk: Shrunk) -> list[dict[str, Any]]:
    """Return the compiler's figures of the original and of each form that the launch can have."""
    threads = shrunk.logical.threads
    flaws = {design.per_thread: (design.threads, design.flaw) for design in shrunk.designs}
    original = _asked(forms.original.resources, threads)
    rows: list[dict[str, Any]] = [
        {"form": shrunk.kernel, "symbol": forms.original.symbol, "per_thread": None, **original, "verdict": "original"}
    ]
    for count, (size, flaw) in flaws.items():
        form = forms.elastic[count]
        said = "kept" if flaw is None else f"dropped: {flaw}"
        asked = _asked(form.resources, size)
        rows.append({"form": form.symbol, "symbol": form.symbol, "per_thread": count, **asked, "verdict": said})
    return rows


def _asked(resources: Resources, threads: int) -> dict[str, int]:
    return {
        "threads": threads,
        "registers_per_thread": resources.registers_per_thread,
        "registers_per_block": resources.registers_per_thread * threads,
        "static_shared_bytes": resources.static_shared_bytes,
        "stack_bytes": resources.stack_bytes,
        "spill_bytes": resources.spill_bytes,
    }

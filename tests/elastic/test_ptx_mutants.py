"""Every way in which the transformed PTX could be wrong is found out by the check."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from kernel_corpus import BRIEF
from ptx_corpus import text, transformed, trials

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.ptx import transform

TURN = r"setp\.le\.u32 %edgetune_is, %edgetune_left, %edgetune_step;"
MUTANTS = {
    "offset not added": (
        "saxpy", r"add\.u32 %edgetune_number, %edgetune_first,", "mov.u32 %edgetune_number,",
    ),
    "offset read from the count": ("saxpy", r"edgetune_launch\+24", "edgetune_launch+28"),
    "grid of the physical launch": ("grid_stride", r"(?<=%r9, )%edgetune_width", "%edgetune_step"),
    "width and height of the grid changed over": (
        "matmul_naive", r"div\.u32 %edgetune_row, %edgetune_number, %edgetune_width",
        "div.u32 %edgetune_row, %edgetune_number, %edgetune_height",
    ),
    "index of the physical block": ("saxpy", r"(?<=\t%r\d, )%edgetune_x;", "%edgetune_at;"),
    "no barrier between turns": ("transpose", r"\tbar\.sync 0;\n(?=\tadd\.u32 %edgetune_at)", ""),
    "no barrier between turns, dynamic shared memory": (
        "triton_softmax", r"\tbar\.sync 0;\n(?=\tadd\.u32 %edgetune_at)", "",
    ),
    "early return leaves the loop": ("saxpy", r"bra \$edgetune_turn;", "ret;"),
    "one block too many": ("saxpy", TURN, "setp.lt.u32 %edgetune_is, %edgetune_left, %edgetune_step;"),
    "one block too many at the start": (
        "saxpy", r"setp\.ge\.u32 %edgetune_is, %edgetune_at", "setp.gt.u32 %edgetune_is, %edgetune_at",
    ),
    "one block too few": (
        "saxpy", r"sub\.u32 %edgetune_left, %edgetune_count, %edgetune_at;",
        "sub.u32 %edgetune_left, %edgetune_count, %edgetune_at;\n\tsub.u32 %edgetune_left, %edgetune_left, 1;",
    ),
    "steps of one block": (
        "sum_atomic", r"add\.u32 %edgetune_at, %edgetune_at, %edgetune_step", "add.u32 %edgetune_at, %edgetune_at, 1",
    ),
    "goes on behind the computation of the index": ("saxpy", r"bra\.uni \$edgetune_next", "bra.uni $edgetune_body"),
    "a register of the body is used": ("saxpy", r"%edgetune_(?:at|count)(?=[,;])", "%r1"),
}  # fmt: skip


def mutated(name: str, pattern: str, new: str) -> Verdict:
    done, launches = transformed(name), trials(name)[:1]
    mark = done.source.index("__grid")
    changed, count = re.subn(pattern, new, done.source[mark:])
    assert count, "the mutation changes something"
    (verdict,) = check(
        replace(done, source=done.source[:mark] + changed), launches, name=f"{name}.ptx", matrix=BRIEF, limit_s=2
    )
    return verdict


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_form_is_found_out(what: str) -> None:
    verdict = mutated(*MUTANTS[what])
    assert verdict.answer == "different", verdict
    assert verdict.difference is not None
    assert "__grid<<<" in verdict.reason


UNPROVEN = {
    "threads that returned are counted at barriers": ("early_return", "barrier-branch"),
    "threads that left a loop are counted at its barriers": ("leave_in_loop", "barrier-branch"),
}


@pytest.mark.parametrize("what", UNPROVEN)
def test_the_check_finds_out_what_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms that the rules forbid, made nevertheless: the rules and the check agree."""
    name, code = UNPROVEN[what]
    assert transformed(name).kernels[0].refusals[0].code == code
    monkeypatch.setattr(transform, "legality", lambda _: ((), False))
    forbidden = transform.transform_ptx(text(name), f"{name}.ptx")
    (verdict,) = check(forbidden, trials(name), name=f"{name}.ptx", matrix=BRIEF, limit_s=2)
    assert verdict.answer == "different", verdict

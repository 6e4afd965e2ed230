"""Every way in which the transformed PTX could be wrong is found out by the check."""

import re
from dataclasses import replace

import pytest
from kernel_corpus import BRIEF
from ptx_corpus import text, transformed, trials

from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.ptx import transform
from edgetune.stages.elastic.ptx.control_flow import Divergence
from edgetune.stages.elastic.ptx.legality import Legality

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


BLOCK, PERSISTENT = "__block2", "__persistent"
OTHER_FORMS = {
    "a copy is the thread of another": (
        "transpose", BLOCK, r"(mad\.lo\.u32 %edgetune_tx1, %edgetune_step), 1,", r"\1, 0,",
    ),
    "x and y of a thread changed over": ("transpose", BLOCK, r"%edgetune_ty1;", "%edgetune_tx1;"),
    "a register of another copy": ("saxpy", BLOCK, r"(\.f32 %edgetune1_f\d+, )%edgetune1_f", r"\1%edgetune0_f"),
    "a copy is not written": ("saxpy", BLOCK, r"\tst\.global\.f32 \[%edgetune1_[^\n]*\n", ""),
    "a branch of another copy": ("stencil", BLOCK, r"@(!?)%edgetune1_p(\d+) bra", r"@\1%edgetune0_p\2 bra"),
    "no barrier between parts": ("transpose", BLOCK, r"\tbar\.sync 0;\n(?!\tadd\.u32 %edgetune_at)", ""),
    "no barrier between turns": ("transpose", BLOCK, r"\tbar\.sync 0;\n(?=\tadd\.u32 %edgetune_at)", ""),
    "votes of one copy only": ("vote_barriers", BLOCK, r"\tadd\.u32 %edgetune_sum, [^\n]*\n", ""),
    "votes for, where those against are counted": ("vote_barriers", BLOCK, r"not\.pred", "mov.pred"),
    "one copy's vote for all": ("vote_barriers", BLOCK, r"\tor\.pred %edgetune_vote0,[^\n]*\n", ""),
    "a copy that returned goes on": ("early_return", BLOCK, r"\tmov\.pred %edgetune_live\d, 0;\n", ""),
    "a copy that goes on is taken for dead": ("leave_in_loop", BLOCK, r"\tor\.pred %edgetune_any,[^\n]*\n", ""),
    "returned threads miss barriers": ("early_return", "__grid", r"bra \$edgetune_left", "bra $edgetune_turn"),
    "the meeting ends before all have returned": ("leave_in_loop", "__grid", r"red\.or\.pred", "red.and.pred"),
    "the meeting leads to another barrier": (
        "leave_in_loop", "__grid", r"%edgetune_next, 1;\n(?=\t@)", "%edgetune_next, 2;\n",
    ),
    "a logical block is left out": ("saxpy", PERSISTENT, r"\[%edgetune_control\], 1", "[%edgetune_control], 2"),
    "done blocks are not counted": ("saxpy", PERSISTENT, r"\tred\.global\.add[^\n]*\n", ""),
    "each thread takes": ("saxpy", PERSISTENT, r"setp\.ne\.u32 %edgetune_other", "setp.lt.u32 %edgetune_other"),
    "what was taken is read too early": ("saxpy", PERSISTENT, r"(?<=\$edgetune_told:\n)\tbar\.sync 0;\n", ""),
}  # fmt: skip
"""File, form, and what is changed in the form."""


def mutated(name: str, pattern: str, new: str, form: str = "__grid") -> Verdict:
    done, (launch, *_) = transformed(name), trials(name)
    kernel = next(each for each in done.kernels if each.kernel.name == launch.call.kernel)
    variant = next(each for each in kernel.variants if each.symbol.endswith(form))
    start = done.source.index(f".entry {variant.symbol}")
    end = done.source.find(".entry", start + 1)
    text = done.source[start : end if end > 0 else None]
    changed, count = re.subn(pattern, new, text)
    assert count, "the mutation changes something"
    alone = replace(kernel, variants=(variant,))
    wrong = replace(done, source=done.source.replace(text, changed), kernels=(alone,))
    (verdict,) = check(wrong, [launch], name=f"{name}.ptx", matrix=BRIEF, limit_s=2)
    return verdict


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_form_is_found_out(what: str) -> None:
    verdict = mutated(*MUTANTS[what])
    assert verdict.answer == "different", verdict
    assert "__grid<<<" in verdict.reason


@pytest.mark.parametrize("what", OTHER_FORMS)
def test_a_wrong_form_of_another_kind_is_found_out(what: str) -> None:
    name, form, pattern, new = OTHER_FORMS[what]
    verdict = mutated(name, pattern, new, form)
    assert verdict.answer == "different", verdict
    assert f"{form}<<<" in verdict.reason


@pytest.mark.parametrize("name", ["early_return", "leave_in_loop"])
def test_returned_threads_are_missed_where_they_do_not_wait(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms that leave out what the rules ask for: the rules and the check agree."""
    monkeypatch.setattr(transform, "legality", lambda entry, _: Legality(flow=Divergence(entry)))
    forbidden = transform.transform_ptx(text(name), f"{name}.ptx")
    (verdict,) = check(forbidden, trials(name), name=f"{name}.ptx", matrix=BRIEF, limit_s=2)
    assert verdict.answer == "different", verdict

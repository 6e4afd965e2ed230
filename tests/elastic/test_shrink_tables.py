"""The pieces of a kernel as rows: each design, kept or with the reason why not."""

import itertools

from edgetune.stages.elastic.forms import Form, Forms
from edgetune.stages.elastic.gpu import Resources, find_gpu
from edgetune.stages.elastic.shrink import Rules, Shrunk, shrink
from edgetune.stages.elastic.tables import rows_of
from edgetune.stages.elastic.work import Logical

GPU = find_gpu("orin-agx")
CONV = Logical((14, 14, 1), (16, 32, 1), 1024)
FORMS = Forms(
    Form("conv", Resources(32)),
    {
        1: Form("conv__grid", Resources(36)),
        2: Form("conv__block2", Resources(40)),
        4: Form("conv__block4", Resources(48)),
        8: Form("conv__block8", Resources(64, stack_bytes=16)),
    },
)


def conv(rules: Rules | None = None) -> Shrunk:
    asked = {count: form.resources for count, form in FORMS.elastic.items()}
    return shrink("conv", CONV, FORMS.original.resources, asked, GPU, rules=rules)


def test_every_design_is_there_kept_or_with_the_reason_why_not() -> None:
    rows = list(rows_of(conv(), FORMS))
    assert {(row.count, row.per_thread) for row in rows} == set(itertools.product((49, 98, 196), (1, 2, 4, 8)))
    assert {row.reason for row in rows if row.per_thread == 8} == {"stack"}
    assert {row.symbol for row in rows if row.status == "kept"} == {"conv__grid", "conv__block2", "conv__block4"}
    assert {row.registers_per_thread for row in rows if row.per_thread == 4} == {48}


def test_reasons_name_the_rule() -> None:
    letter = [row.reason for row in rows_of(conv(Rules(strict=True)), FORMS) if row.per_thread == 1]
    assert letter == ["more blocks than multiprocessors"] * 3
    dear = rows_of(conv(Rules(launch_s=1e-3, most_overhead_s=2e-3)), FORMS)
    assert {row.reason for row in dear if row.count == 49 and row.per_thread == 1} == {"too many launches"}
    slow = rows_of(conv(Rules(turn_s=1e-6, most_turns_s=12e-6)), FORMS)  # 4 x 4 turns of 49 blocks, 2 x 7 of 98, 13
    assert {row.reason for row in slow if row.per_thread == 1} == {"too many turns"}
    few = [row for row in rows_of(conv(Rules(share=0.01)), FORMS) if row.status == "dropped" and row.per_thread == 1]
    assert {(row.count, row.reason) for row in few} == {(98, "others score more"), (196, "others score more")}

"""The figure of kept pieces shows every piece and every leftover of its table."""

import pytest

from edgetune.artifacts.elastic_table import ElasticTable
from edgetune.artifacts.header import Header
from edgetune.plotting.figure_file import figure_bytes
from edgetune.stages.elastic.figures.pruned import pruned_figure
from edgetune.stages.elastic.forms import Form, Forms
from edgetune.stages.elastic.gpu import Gpu, Resources, find_gpu
from edgetune.stages.elastic.shrink import Rules, shrink
from edgetune.stages.elastic.tables import rows_of
from edgetune.stages.elastic.work import Logical

FORMS = Forms(
    Form("conv", Resources(24)),
    {1: Form("conv__grid", Resources(32)), 2: Form("conv__block2", Resources(40)),
     4: Form("conv__block4", Resources(40, stack_bytes=8)), 8: Form("conv__block8", Resources(200))},
)  # fmt: skip


def table_of(gpu: Gpu, *blocks: int) -> ElasticTable:
    limits = {
        "sm_count": gpu.sm_count,
        "threads_per_sm": gpu.threads_per_sm,
        "threads_per_block": gpu.threads_per_block,
    }
    header = Header.new("elastic_table", 1, conditions={"gpu": {"name": gpu.name, **limits}})
    asked = {count: form.resources for count, form in FORMS.elastic.items()}
    rules = Rules(launch_s=1e-6, most_overhead_s=32e-6)
    shrunk = [
        shrink("co$t", Logical((count, 1, 1), (256, 1, 1)), Resources(24), asked, gpu, rules=rules) for count in blocks
    ]
    return ElasticTable(header, tuple(row for each in shrunk for row in rows_of(each, FORMS)))


def test_a_bar_for_every_leftover_and_a_mark_for_every_piece() -> None:
    table = table_of(find_gpu("orin-agx"), 64)
    space, beside = pruned_figure(table).axes
    best = [row for row in table.rows if row.rank == 0]
    assert len(beside.patches) == len(best) == 16 * 2  # two sizes
    assert max(bar.get_y() + bar.get_height() for bar in beside.patches) == 1536 - 128
    assert [text.get_text() for text in beside.texts] == [str(row.blocks) for size in (256, 128) for row in best
                                                          if row.threads == size]  # fmt: skip
    assert [(set(line.get_ydata()), line.get_label()) for line in beside.lines] == [
        ({1024}, "1024, most of one block (more: of several)")
    ]
    marks = {each.get_label(): len(each.get_offsets()) for each in space.collections}
    assert marks.pop("kept (larger: for more leftovers)") == len({(row.count, row.threads) for row in table.rows
                                                                   if row.status == "kept"})  # fmt: skip
    reasons = [row.reason for row in table.rows if row.status == "dropped"]
    assert marks == {f"dropped: {reason}": reasons.count(reason) for reason in set(reasons)}
    assert {"dropped: stack", "dropped: registers", "dropped: too many launches"} <= set(marks)


@pytest.mark.parametrize(("gpu", "launches"), [("h200", (196,)), ("orin-nano", (64, 196, 3))])
def test_a_line_of_panels_for_every_launch(gpu: str, launches: tuple[int, ...]) -> None:
    figure = pruned_figure(table_of(find_gpu(gpu), *launches))
    assert len(figure.axes) == 2 * len(launches)
    assert figure_bytes(figure, "svg") == figure_bytes(pruned_figure(table_of(find_gpu(gpu), *launches)), "svg")


def test_a_table_of_nothing_but_dropped_pieces_is_drawn() -> None:
    table = table_of(find_gpu("orin-agx"), 64)
    dropped = ElasticTable(table.header, tuple(row for row in table.rows if row.status == "dropped"))
    space, beside = pruned_figure(dropped).axes
    assert len(space.collections) > 0
    assert len(beside.patches) == 0

"""Kept pieces as a file: what comes back, and what is refused."""

import itertools
from dataclasses import replace

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.elastic_table import ElasticRow, ElasticTable
from edgetune.artifacts.header import Header
from edgetune.errors import InputError
from edgetune.stages.elastic.forms import Form, Forms
from edgetune.stages.elastic.gpu import Resources, find_gpu
from edgetune.stages.elastic.shrink import Rules, Shrunk, shrink
from edgetune.stages.elastic.tables import read_tables, rows_of, tables_of
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
HEADER = Header.new("elastic_table", 1, conditions={"gpu": {"name": GPU.name, "sm_count": 16, "threads_per_sm": 1536}})


def conv(rules: Rules | None = None) -> Shrunk:
    asked = {count: form.resources for count, form in FORMS.elastic.items()}
    return shrink("conv", CONV, FORMS.original.resources, asked, GPU, rules=rules)


def there_and_back(rows: list[ElasticRow], header: Header = HEADER) -> ElasticTable:
    return io.from_bytes(ElasticTable(header, tuple(rows)).to_bytes(), kind="elastic_table", name="kept.parquet")


def test_kept_pieces_are_read_back_unchanged() -> None:
    shrunk = conv()
    rows = list(rows_of(shrunk, FORMS))
    table = there_and_back(rows)
    assert table.rows == tuple(rows)
    assert tables_of(table) == {("conv", CONV): shrunk.table()}


def test_files_are_read_for_the_gpu_that_they_were_made_for(tmp_path) -> None:
    dear = Rules(launch_s=1e-3, most_overhead_s=2e-3)  # two pieces at most
    kept, other = str(tmp_path / "kept.parquet"), str(tmp_path / "other.parquet")
    io.write(ElasticTable(HEADER, tuple(rows_of(conv(), FORMS))), kept)
    io.write(ElasticTable(HEADER, tuple(rows_of(conv(dear), FORMS))), other)
    assert conv(dear).table() != conv().table()
    assert read_tables([kept], GPU) == {("conv", CONV): conv().table()}
    assert read_tables([kept, other], GPU) == {("conv", CONV): conv(dear).table()}
    with pytest.raises(InputError, match="16 multiprocessors of 1536 threads, and xavier has 8 of 2048"):
        read_tables([kept], find_gpu("xavier"))


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": 197}, "row 1: count is 197 of 196 blocks"),
        ({"count": 0}, "row 1: count is 0"),
        ({"blocks": 17}, "row 1: 17 blocks for 49 on 16 multiprocessors"),
        ({"blocks": None}, "row 1: blocks is empty"),
        ({"threads": 256}, "row 1: 256 threads with 1 in each are no block of 512"),
        ({"critical_blocks": 16}, "row 1: critical_blocks is 16, modulo 16 multiprocessors"),
        ({"critical_threads": 1025}, "row 1: 512 threads beside 1025 on a multiprocessor of 1536"),
        ({"grid": (14, 14)}, r"row 1: grid is \[14, 14\], not three sizes"),
        ({"score": float("nan")}, "row 1: score is empty"),
        ({"status": "dropped"}, "row 1: it was dropped without a reason"),
        ({"rank": 1}, r"conv beside 0 blocks of 1024 threads has ranks \[1, "),
    ],
)
def test_invalid_pieces_are_refused_by_row(wrong: dict[str, object], message: str) -> None:
    first, *others = rows_of(conv(), FORMS)
    with pytest.raises(InputError, match=message):
        there_and_back([replace(first, **wrong), *others])


def test_a_leftover_has_one_best_piece() -> None:
    rows = list(rows_of(conv(), FORMS))
    with pytest.raises(InputError, match="has ranks"):
        there_and_back([*rows, rows[0]])


def test_a_table_is_for_a_gpu_and_has_rows() -> None:
    rows = list(rows_of(conv(), FORMS))
    with pytest.raises(InputError, match="does not name its GPU"):
        there_and_back(rows, replace(HEADER, conditions={"gpu": {"sm_count": 16}}))
    with pytest.raises(InputError, match="no rows"):
        there_and_back([])
    with pytest.raises(InputError, match="edgetune did not write it") as error:
        io.from_bytes(b"kernel,count\nconv,49\n", kind="elastic_table", name="kept.csv")
    assert "edgetune schedule kernels shrink" in error.value.hint

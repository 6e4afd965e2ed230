"""Several boards in one table: shares, anchors, the factor of each board, its drift, and the common board."""

from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow
from edgetune.artifacts.repeats import one_per_point
from edgetune.stages.profiling.boards import (
    BOARDS,
    DRIFTED,
    choose_anchors,
    compare_boards,
    on_common_board,
    share_of,
    with_boards,
)
from edgetune.stages.profiling.queue import Visit, visits

MHZ = (100.0, 200.0, 300.0, 400.0, 500.0)
POINTS = [Point("net", "infer", size, Mode(gpu_mhz=mhz)) for size in (1, 4) for mhz in MHZ]
ANCHORS = choose_anchors(POINTS, 3)


def rows_of(board, *, slower=1.0, power=1.0, drift=1.0, points=()):
    """What a board measures: its anchors in two rounds, and some points."""
    found = []
    for visit in visits(points, 1, 0, ANCHORS):
        factor = slower * (drift if visit.round == 2 else 1.0)
        time_s = factor * visit.point.batch_size / visit.point.mode.gpu_mhz
        watts = power * visit.point.mode.gpu_mhz / 20
        figures = {"power_w": watts, "energy_j": watts * time_s, "round": visit.round, "board": board}
        found.append(ProfileRow.at(visit.point, time_s, **figures, times_s=(time_s,)))
    return found


def table_of(*rows):
    return Profile(Header.new(KIND, VERSION), tuple(row for own in rows for row in own))


@pytest.mark.parametrize("count", range(1, 6))
def test_shards_are_the_whole_and_share_nothing(count):
    shares = [share_of(POINTS, number, count) for number in range(1, count + 1)]
    assert sorted(str(point) for share in shares for point in share) == sorted(map(str, POINTS))
    assert all({point.batch_size for point in share} == {1, 4} for share in shares)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 2


def test_the_anchors_are_the_middle_the_low_and_the_high_end():
    assert [point.mode.gpu_mhz for point in ANCHORS] == [300.0, 100.0, 500.0]
    assert {point.batch_size for point in ANCHORS} == {1}
    assert [point.mode.gpu_mhz for point in choose_anchors(POINTS, 1)] == [300.0]
    assert len(choose_anchors(POINTS, 50)) == 5


def test_anchors_are_measured_first_and_at_the_end_again():
    order = visits(POINTS, 1, 0, ANCHORS)
    assert order[:3] == [Visit(point, 1) for point in ANCHORS]
    assert order[-3:] == [Visit(point, 2) for point in ANCHORS]
    assert sorted(str(visit.point) for visit in order[3:-3]) == sorted(str(p) for p in POINTS if p not in ANCHORS)


def test_the_factors_are_those_of_the_boards():
    rows = [*rows_of("a"), *rows_of("b", slower=1.06, power=0.98), *rows_of("c", slower=1.01)]
    common, boards = compare_boards(rows, 0.1)
    assert common == "c"  # the median in time
    assert boards["b"].time.ratio == pytest.approx(1.06 / 1.01)
    assert boards["b"].power.ratio == pytest.approx(0.98)
    assert boards["a"].time.ratio == pytest.approx(1 / 1.01)
    assert not any(each.left_out or each.drifted for each in boards.values())


def test_a_board_that_is_off_is_named_and_left_out():
    rows = table_of(rows_of("a"), rows_of("odd", slower=1.2, points=POINTS), rows_of("c"))
    table, sentences = with_boards(rows, 0.1)
    assert {row.board for row in table.rows} == {"a", "c"}
    assert [w.code for w in table.header.warnings] == ["board-left-out"]
    assert "odd" in table.header.warnings[0].advice
    assert sentences[1].startswith("board odd: 10 points, time x 1.200 (")
    assert sentences[1].endswith("; LEFT OUT")
    kept, _ = with_boards(rows, 0.3)
    assert {row.board for row in kept.rows} == {"a", "odd", "c"}
    assert kept.header.warnings == ()


def test_a_board_that_may_be_like_the_others_keeps_its_rows():
    """Rows without raw times, whose intervals reach from a quarter to four times."""
    rows = [
        row for board, slower in (("a", 1.0), ("b", 1.33)) for row in rows_of(board, slower=slower) if row.round == 1
    ]
    wide = [
        replace(row, times_s=None, minibatches=10, power_w=None, energy_j=None,
                minibatch_ci95_low_s=row.minibatch_s / 4, minibatch_ci95_high_s=row.minibatch_s * 4)
        for row in rows
    ]  # fmt: skip
    table, sentences = with_boards(table_of(wide), 0.1)
    assert {row.board for row in table.rows} == {"a", "b"}
    assert sentences[1].startswith("board b: 3 points, time x 1.330 (0.")


def test_a_drifting_board_marks_its_rows_once():
    once, _ = with_boards(table_of(rows_of("a"), rows_of("warm", drift=1.05, points=POINTS)), 0.1)
    table, _ = with_boards(once, 0.1)
    assert {row.reason for row in table.rows if row.board == "warm"} == {DRIFTED}
    assert {row.reason for row in table.rows if row.board == "a"} == {None}
    assert [w.code for w in table.header.warnings] == ["board-drifted"]
    assert table.header.conditions[BOARDS]["of"]["warm"]["drift_time"] == pytest.approx(1.05)


def test_the_common_board_undoes_the_factors_and_keeps_the_table():
    rows = table_of(rows_of("a"), rows_of("b", slower=1.06, power=0.98, points=POINTS))
    table, _ = with_boards(rows, 0.1)
    assert [row.minibatch_s for row in table.rows] == [row.minibatch_s for row in rows.rows]
    plain = {row.point: row for row in rows_of(None, points=POINTS)}
    for row in on_common_board(table).rows:
        alike = plain[row.point]
        figures = (row.minibatch_s, row.power_w, row.energy_j)
        assert figures == pytest.approx((alike.minibatch_s, alike.power_w, alike.energy_j))
        assert row.times_s is None


def test_rounds_of_two_boards_are_never_one_figure():
    own, other = rows_of("a"), [replace(row, started="2026-01-01T00:00:00Z") for row in rows_of("b", slower=3.0)]
    (row,) = one_per_point([row for row in [*own, *other] if row.point == ANCHORS[0]]).rows
    assert row.minibatch_s == pytest.approx(3.0 / 300)

"""What a sweep over boards does when boards are equal, odd, of another kind, die, fail, or come late."""

from collections import Counter

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import KIND, VERSION
from edgetune.errors import DeviceError, InputError, PartialError
from edgetune.stages.profiling.queue import Visit
from edgetune.workflows.fleet.sweep import FleetSweep, whole
from fakes.simulated_boards import SimulatedBoards, points_of


def sweep_over(boards, **how):
    notes = []
    made = FleetSweep(
        boards, {"sweep": "s", "options": {}, "files": {}}, note=notes.append, now_s=boards.clock_s, **how
    )
    return made, notes


def measured(boards, **how):
    sweep, notes = sweep_over(boards, **how)
    sweep.open()
    return whole(sweep.run(sweep.points), {}), sweep, notes


def ok_of(table):
    return Counter((row.board, row.point, row.round) for row in table.rows if row.status == "ok")


def test_every_point_is_measured_once_and_the_anchors_twice_on_every_board():
    boards = SimulatedBoards(dict.fromkeys("abc", 1.0), points_of(20, (1, 4)))
    table, _, _ = measured(boards)
    counts = ok_of(table)
    assert max(counts.values()) == 1
    assert {point for _, point, _ in counts} == set(boards.points)
    assert len(counts) == 2 * 3 * 3 + (40 - 3)
    assert Counter(board for board, _, _ in counts).keys() == {"a", "b", "c"}


def test_boards_share_the_time():
    one = SimulatedBoards({"a": 1.0}, points_of(60))
    four = SimulatedBoards(dict.fromkeys("abcd", 1.0), points_of(60))
    measured(one, anchors=0)
    measured(four, anchors=0)
    assert one.now_s / four.now_s > 3.5


def test_an_odd_board_is_named_and_gets_no_work():
    boards = SimulatedBoards({"a": 1.0, "odd": 1.3, "c": 1.0}, points_of(12))
    table, sweep, notes = measured(boards)
    assert {visit.round for board, visit in boards.measured if board == "odd"} == {1}
    assert any("odd is left out" in note and "x 1.300" in note for note in notes)
    assert {row.point for row in table.rows if row.board != "odd"} == set(boards.points)
    assert sweep.boards["odd"].off


def test_an_odd_board_works_when_asked_to():
    boards = SimulatedBoards({"a": 1.0, "odd": 1.3}, points_of(12))
    measured(boards, tolerance=0.5)
    assert any(visit.round is None for board, visit in boards.measured if board == "odd")


def test_the_work_of_a_dead_board_goes_to_another_and_its_journal_is_asked():
    killed = []

    def fails(board, visit):
        if board == "b" and visit.round is None and visit.point.batch_size == 4 and not killed:
            killed.append(visit)
            return "died"
        return ""

    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(10, (1, 4)), fails)
    table, _, _ = measured(boards)
    counts = ok_of(table)
    assert killed
    assert max(counts.values()) == 1
    assert {point for _, point, _ in counts} == set(boards.points)
    assert set(boards.measured) == {(board, Visit(point, number)) for board, point, number in counts}  # nothing is lost


def test_a_mode_that_crashes_every_board_fails_after_two():
    bad = points_of(8)[3]

    def fails(board, visit):
        tries[board] += visit.point == bad
        return "died" if visit.point == bad else ""

    tries = Counter()
    boards = SimulatedBoards(dict.fromkeys("abc", 1.0), points_of(8), fails)
    table, _, _ = measured(boards)
    (row,) = (row for row in table.rows if row.status == "failed")
    assert row.point == bad
    assert "after 2 failures" in row.reason
    assert tries.total() == 2
    assert {point for _, point, _ in ok_of(table)} == {*boards.points} - {bad}


def test_a_board_whose_disk_is_full_is_left_out():
    full = "cannot write the journal: no space left"
    boards = SimulatedBoards(dict.fromkeys("abc", 1.0), points_of(12), lambda board, _: full if board == "b" else "")
    table, _, notes = measured(boards)
    assert {row.board for row in table.rows} == {"a", "c"}
    assert f"board b is left out: {full}" in notes
    assert {point for _, point, _ in ok_of(table)} == set(boards.points)


def test_a_board_that_leaves_for_good_loses_its_mode_to_another():
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(12))
    answer = boards._answer

    def silent(board, request):
        took_s, value = answer(board, request)
        if board == "b" and any(visit.round is None for at, visit in boards.measured if at == "b"):
            boards.gone.add("b")
            return 1e9, value
        return took_s, value

    boards._answer = silent
    table, _, notes = measured(boards)
    assert {point for _, point, _ in ok_of(table)} == set(boards.points)
    assert any("b has gone" in note for note in notes)


def test_a_board_that_comes_late_measures_its_anchors_and_helps():
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(40))
    boards.gone.add("b")
    sweep, _ = sweep_over(boards)
    sweep.open()
    sweep.on_done = lambda *_: boards.gone.discard("b")
    sweep.run(sweep.points)
    mine = [visit.round for board, visit in boards.measured if board == "b"]
    assert mine[:3] == [1, 1, 1]
    assert mine[-3:] == [2, 2, 2]
    assert None in mine


def test_what_the_journals_have_is_not_measured_again():
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(12))
    first, _, _ = measured(boards)
    before = len(boards.measured)
    again, _, _ = measured(boards)
    assert len(boards.measured) == before
    assert ok_of(again) == ok_of(first)


def test_two_kinds_of_boards_are_refused():
    other = Header.new(KIND, VERSION, conditions={"device": "board", "simulated": True, "l4t": "35.1"})
    same = Header.new(KIND, VERSION, conditions={"device": "board", "simulated": True, "l4t": "36.4"})
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(3), kind=lambda board: other if board == "b" else same)
    with pytest.raises(InputError, match=r"two kinds: . differs in l4t"):
        sweep_over(boards)[0].open()


def test_without_boards_there_is_no_sweep():
    with pytest.raises(DeviceError, match="no board has joined"):
        sweep_over(SimulatedBoards({}, points_of(3)))[0].open()


def test_when_every_board_fails_the_sweep_ends_in_part():
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(3), lambda *_: "broken")
    sweep, _ = sweep_over(boards)
    sweep.open()
    with pytest.raises(PartialError, match=r"no board of the fleet is left: board .: broken"):
        sweep.run(sweep.points)


def test_rounds_are_made_by_whichever_board_is_free():
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(6))
    table, _, _ = measured(boards, rounds=3, anchors=0)
    assert {(point, number) for _, point, number in ok_of(table)} == {(p, n) for p in boards.points for n in (1, 2, 3)}


def test_a_disk_that_fills_up_costs_no_point():
    def fails(board, visit):
        return "cannot write the journal" if board == "b" and visit.round is None else ""

    boards = SimulatedBoards(dict.fromkeys("abc", 1.0), points_of(20), fails)
    table, sweep, _ = measured(boards)
    assert {point for _, point, _ in ok_of(table)} == set(boards.points)
    assert not [row for row in table.rows if row.status == "failed"]
    assert sweep.boards["b"].out


def test_a_board_of_another_kind_that_comes_late_is_left_out():
    kinds = {name: Header.new(KIND, VERSION, conditions={"device": "board", "l4t": name}) for name in "ab"}
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(30), kind=kinds.__getitem__)
    boards.gone.add("b")
    sweep, notes = sweep_over(boards)
    sweep.open()
    sweep.on_done = lambda *_: boards.gone.discard("b")
    sweep.run(sweep.points)
    assert {board for board, _ in boards.measured} == {"a"}
    assert any("b is left out: it is of another kind" in note for note in notes)


def test_a_worker_that_dies_while_it_begins_is_asked_again():
    boards = SimulatedBoards(dict.fromkeys("ab", 1.0), points_of(8))
    answer, died = boards._answer, []

    def once(board, request):
        if board == "a" and not died:
            died.append(board)
            return 0.01, {"error": "x", "hint": "y", "died": True}
        return answer(board, request)

    boards._answer = once
    table, _, _ = measured(boards)
    assert {row.board for row in table.rows} == {"a", "b"}

"""``edgetune profile --shard`` on several boards and ``edgetune merge`` of their tables."""

import json

import pytest

from edgetune.artifacts.io import read_profile
from edgetune.cli.main import run

SWEEP = ("profile", "zoo:squeezenet", "-b", "1,2", "-m", "grid:8", "-d", "twin:orin-agx", "-q")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shards(folder):
    for number in (1, 2):
        assert run([*SWEEP, "--shard", f"{number}/2", "--board", f"b{number}", "-o", f"s{number}.parquet"]) == 0
    return folder


def test_the_merged_shards_are_the_sweep_of_one_board(shards, capsys):
    assert run([*SWEEP, "-o", "one.parquet"]) == 0
    assert run(["merge", "s1.parquet", "s2.parquet", "-o", "all.parquet"]) == 0
    one, all_of = read_profile("one.parquet"), read_profile("all.parquet")
    figures = {row.point: (row.minibatch_s, row.power_w) for row in one.rows}
    assert {row.point: (row.minibatch_s, row.power_w) for row in all_of.rows} == figures
    assert {row.board for row in all_of.rows} == {"b1", "b2"}
    assert len(all_of.rows) == len(one.rows) + 2 * 3 + 3  # the anchors of two boards, each twice
    assert run([*SWEEP, "-o", "all.parquet"]) == 0  # the request of one board is answered


def test_a_common_board_is_a_view(shards, capsys):
    run(["merge", "s1.parquet", "s2.parquet", "--common", "-o", "common.parquet"])
    assert read_profile("common.parquet").header.conditions["on_common_board"] is True
    capsys.readouterr()
    assert run(["merge", "common.parquet", "s1.parquet", "-o", "more.parquet"]) == 2
    assert "no measured figures" in capsys.readouterr().err
    assert run(["merge", "s1.parquet", "--common", "-o", "more.parquet"]) == 2


def test_a_shard_resumes_and_is_planned_with_both_visits_to_its_anchors(folder, capsys):
    run([*SWEEP, "--shard", "1/2", "--dry-run", "--json"])
    planned = json.loads(capsys.readouterr().out)
    run([*SWEEP, "--shard", "1/2", "-o", "s.parquet"])
    table = read_profile("s.parquet")
    assert planned["duration_s"] == pytest.approx(sum(row.duration_s for row in table.rows), rel=0.2)
    before = (folder / "s.parquet").read_bytes()
    assert run([*SWEEP, "--shard", "1/2", "-o", "s.parquet"]) == 0
    assert (folder / "s.parquet").read_bytes() == before
    assert all(row.board.endswith("twin:orin-agx") for row in table.rows)


@pytest.mark.parametrize("shard", ["0/2", "a/b"])
def test_what_is_no_shard_is_refused(folder, capsys, shard):
    assert run([*SWEEP, "--shard", shard]) == 2

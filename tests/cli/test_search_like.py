"""``--like``: relatives from files, and what is left out of them."""

from dataclasses import replace
from itertools import product

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, Profile, ProfileRow

CPU, GPU = (400.0, 800.0, 1200.0), (300.0, 600.0, 900.0, 1300.0)


def rows_of(network="net", *, scale=1.0, cpu=CPU, gpu=GPU, batch=16):
    return tuple(
        ProfileRow.at(
            Point(network, "train", batch, Mode(cpu_mhz=c, gpu_mhz=g)), scale * (30 / g + 10 / c), power_w=5 + g / 60
        )
        for c, g in product(cpu, gpu)
    )


def write(path, rows, *, device="board", sha256=None, **conditions):
    workload = {"name": rows[0].workload, **({} if sha256 is None else {"sha256": sha256})}
    header = Header.new("profile", 2, inputs={"workload": workload}, conditions={"device": device, **conditions})
    io.write(Profile(header, tuple(replace(row, device=device) for row in rows)), path)
    return str(path)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path / "net.parquet", rows_of(), sha256="00")


@pytest.fixture
def search(edgetune, table):
    def run(*like, source=table):
        words = [word for name in like for word in ("--like", str(name))]
        ended = edgetune("search", source, "--power-budget", "20W", "--max-points", "4", *words)
        return replace(ended, err=" ".join(ended.err.split())) if ended.code == 0 else ended

    return run


def test_several_files_are_relatives(search, tmp_path):
    one = write(tmp_path / "one.parquet", rows_of("one", scale=2))
    two = write(tmp_path / "two.csv", rows_of("two", scale=3)[:7])
    ended = search(one, two)
    assert f"relatives: one train (12 points of {one}), two train (7 points of {two})" in ended.err


def test_a_relative_of_other_knobs_or_of_few_points_is_left_out(search, tmp_path):
    good = write(tmp_path / "good.json", rows_of("good"))
    single = write(tmp_path / "single.parquet", rows_of("single")[:1])
    knobs = write(tmp_path / "knobs.parquet", rows_of("knobs", cpu=CPU[:1], gpu=(*GPU, 500.0)))
    ended = search(good, single, knobs, good)
    assert f"relatives: good train (12 points of {good})" in ended.err
    assert f"single train of {single} (1 point, and 5 are needed)" in ended.err
    assert f"knobs train of {knobs} (it varies gpu_mhz, the search cpu_mhz, gpu_mhz)" in ended.err


def test_a_folder_and_auto_are_refused(search, tmp_path):
    folder = search(tmp_path)
    assert_two_lines(folder, 2)
    assert folder.lines == [f"error: {tmp_path} is a folder, not a file", "hint: name a file in it"]
    auto = search("auto")
    assert_two_lines(auto, 2)
    write(tmp_path / "auto", rows_of("one"))
    assert "relatives: one train (12 points of auto)" in search("auto").err


def test_another_device_or_another_board_is_refused(search, tmp_path):
    ended = search(write(tmp_path / "far.parquet", rows_of("far"), device="another"))
    assert_two_lines(ended, 2)
    board = write(tmp_path / "net.parquet", rows_of(), sha256="00", board="another kit")
    ended = search(write(tmp_path / "one.parquet", rows_of("one"), board="devkit"), source=board)
    assert_two_lines(ended, 2)
    assert_two_lines(search("absent.parquet"), 2)


def test_rows_of_the_searched_network_are_known_rather_than_like(search, table, tmp_path):
    for own in (table, write(tmp_path / "again.parquet", rows_of()[:6], sha256="00")):
        ended = search(own)
        assert_two_lines(ended, 2)
    both = write(tmp_path / "both.parquet", (*rows_of(), *rows_of("one")))
    ended = search(both)
    assert f"relatives: one train (12 points of {both})" in ended.err
    assert f"net train of {both} (searched for; --known {both} uses it)" in ended.err


def test_knobs_that_neither_varies_do_not_matter(edgetune, tmp_path):
    """The names and the values of knobs that both leave alone are those of the search."""
    rows = rows_of("one", cpu=(777.0,), gpu=(*GPU[1:], 500.0, 700.0))
    like = write(tmp_path / "like.parquet", [replace(row, power_mode="15W") for row in rows])
    source = write(tmp_path / "bare.parquet", [replace(row, cpu_mhz=None) for row in rows_of("bare", cpu=(1.0,))])
    ended = edgetune("search", source, "--power-budget", "20W", "--max-points", "3", "--like", like)
    assert (ended.code, f"relatives: one train (5 points of {like})" in " ".join(ended.err.split())) == (0, True)

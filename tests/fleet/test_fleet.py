"""A fleet of two twins through real processes of Dask, with TLS: a sweep, a killed worker, and what is refused."""

import signal

import pytest

from edgetune.artifacts.io import read_profile
from edgetune.cli.main import run
from edgetune.workflows.fleet.client import connect
from edgetune.workflows.fleet.wire import parse_address
from fakes.local_fleet import LocalFleet, until, words_of

pytest.importorskip("distributed", reason="distributed is not installed: pip install 'edgetune[fleet]'")


def refused_code(fleet, folder):
    """No board runs a function of a client, however it is sent."""
    ran = folder / "ran"
    with connect(parse_address(fleet.url, str(folder / "certs"))) as connected:
        with pytest.raises(Exception, match=r".*"):  # what Dask raises differs with its version
            connected.client.run(ran.touch)
        future = connected.client.submit(ran.touch, resources={"BOARD": 1})
        until(lambda: future.status != "pending", future.status)
        assert future.status == "error"
    assert not ran.exists()


def test_two_boards_make_one_table_though_a_worker_is_killed(tmp_path):
    with LocalFleet(tmp_path, tls=True) as fleet:
        for board in ("left", "right"):
            fleet.join(board, "--device", "twin:orin-agx", wait=False)
        for board in ("left", "right"):
            until(lambda board=board: "has joined" in fleet.log(board), f"{board}: {fleet.log(board)}")
        twice = fleet.edgetune("fleet", "join", fleet.url, "--tls", "certs", "-d", "twin:orin-agx", "--board", "left")
        assert (twice.returncode, "in use by another edgetune" in twice.stderr) == (4, True)
        sweep = fleet.run(
            "profile", "zoo:squeezenet", *words_of(fleet.device, "grid:4"), "--anchors", "1", "-o", "s.parquet",
            name="sweep",
        )  # fmt: skip
        until(lambda: "points on 2 boards" in fleet.log("sweep"), fleet.log("sweep"))
        fleet.signal_worker("left", signal.SIGKILL)
        assert sweep.wait(200) == 0, fleet.log("sweep")
        rows = read_profile(tmp_path / "s.parquet").rows
        assert len({row.point for row in rows}) == 4
        assert len({(row.board, row.point, row.round) for row in rows}) == len(rows)
        refused_code(fleet, tmp_path)
        shown = fleet.edgetune("fleet", "show", fleet.url, "--tls", "certs")
        assert [line.partition(":")[0] for line in shown.stdout.splitlines()] == ["left", "right"]
        assert fleet.edgetune("fleet", "stop", fleet.url, "--tls", "certs").returncode == 0
        assert fleet.scheduler.wait(60) == 0


def test_no_scheduler_is_two_lines(capfd, monkeypatch):
    monkeypatch.setattr("edgetune.workflows.fleet.client._CONNECT_S", 1)
    assert run(("fleet", "show", "tcp://127.0.0.1:9")) == 4
    error = capfd.readouterr().err
    assert error.startswith("error: no scheduler answers at tcp://127.0.0.1:9\nhint: ")
    assert len(error.splitlines()) == 2

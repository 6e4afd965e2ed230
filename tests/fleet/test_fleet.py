"""A fleet of two twins through real processes of Dask, with TLS: a sweep, a killed worker, and what is refused."""

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest

from edgetune.artifacts.io import read_profile
from edgetune.cli.main import run
from edgetune.processes.families import descendants
from edgetune.workflows.fleet.client import Fleet, connect
from edgetune.workflows.fleet.wire import parse_address
from fakes import tunnel
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


def speaks_http(process):
    """Return which ports of a process and of its children answer a request without TLS as an HTTP server does."""
    family = {process.pid, *descendants(process.pid)}
    listening = (each for each in psutil.net_connections("tcp") if each.status == "LISTEN")
    ports = {each.laddr.port for each in listening if each.pid in family}
    assert ports, "it listens to the scheduler"
    found = []
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), 10) as connection, suppress(OSError):
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            connection.settimeout(1)
            found += [port] if connection.recv(5) == b"HTTP/" else []
    return found


def test_a_certificate_is_made_only_by_who_can_listen(tmp_path, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ("fleet", "start", "--host", "127.0.0.1", "--port", str(taken.getsockname()[1]), "--tls")
        assert run((*words, str(tmp_path / "certs"))) == 4
    assert "cannot listen" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_two_boards_make_one_table_though_a_worker_is_killed_and_nothing_of_the_folder_is_imported(tmp_path):
    for module in ("dask", "distributed", "json", "multiprocessing", "numpy", "pickle", "psutil", "socket", "ssl"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write(__name__)\n")
    with LocalFleet(tmp_path, tls=True) as fleet:
        for board in ("left", "right"):
            fleet.join(board, "--device", "twin:orin-agx", wait=False)
        for board in ("left", "right"):
            until(lambda board=board: "has joined" in fleet.log(board), f"{board}: {fleet.log(board)}")
        assert [speaks_http(board) for board in fleet.boards.values()] == [[], []]
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
    assert not (tmp_path / "imported").exists()


def test_no_scheduler_is_two_lines(capfd, monkeypatch):
    monkeypatch.setattr("edgetune.workflows.fleet.client._CONNECT_S", 1)
    assert run(("fleet", "show", "tcp://127.0.0.1:9")) == 4
    error = capfd.readouterr().err
    assert error.startswith("error: no scheduler answers at tcp://127.0.0.1:9\nhint: ")
    assert len(error.splitlines()) == 2


def own_network():
    """Return the words that run a command in a network namespace of its own; skip where none can be made."""
    words = ("unshare", "-n")
    if shutil.which("unshare") is None or subprocess.run((*words, "true"), capture_output=True, check=False).returncode:
        pytest.skip("network namespaces cannot be made here: they need root and unshare")
    return words


@pytest.mark.slow
def test_a_board_that_the_scheduler_cannot_reach_is_told_to_give_an_address(tmp_path):
    words = own_network()
    with LocalFleet(tmp_path, tls=True) as fleet:
        back = fleet.port - 1
        ends = (sys.executable, tunnel.__file__, str(tmp_path), str(fleet.port), str(back))
        fleet.boards["tunnel"] = subprocess.Popen(ends)
        before = (*words, *ends)
        fleet.join("far", "--device", "twin:orin-agx", wait=False, before=before)
        until(lambda: "cannot join" in fleet.log("far"), fleet.log("far"))
        assert "cannot reach the board" in fleet.log("far")
        assert "--contact HOST:PORT" in fleet.log("far")
        assert "board far cannot join: the scheduler cannot reach" in fleet.log("scheduler")
        LocalFleet.end(fleet.boards["far"])
        (tmp_path / "in").unlink()
        contact = ("--contact", f"127.0.0.1:{back}")
        fleet.join("far", "--device", "twin:orin-agx", *contact, before=before)
        swept = fleet.edgetune(
            "profile", "zoo:squeezenet", *words_of(fleet.device, "grid:1"), "--anchors", "0", "-o", "s.parquet"
        )
        assert swept.returncode == 0, swept.stderr
        assert "Warning" not in fleet.log("far") + fleet.log("scheduler") + swept.stderr


@pytest.mark.parametrize(
    ("name", "address", "said"),
    [
        ("left", "tcp://127.0.0.1:1", "--board NAME"),
        ("right", "tcp://127.0.0.1:2", "another board has the address"),
        ("right", "tcp://127.0.0.1:9", "cannot reach the board"),
    ],
)
def test_a_board_that_cannot_join_is_told_why(name, address, said):
    from edgetune.workflows.fleet.join import _first_cause
    from edgetune.workflows.fleet.wire import FleetScheduler

    known = SimpleNamespace(aliases={"left": ""}, workers={"tcp://127.0.0.1:2": ""}, connection_args={})
    why = asyncio.run(FleetScheduler._refusal(known, address, name))
    assert said in why
    answer = {"status": "error", "message": why, "time": 0.0}
    assert _first_cause(ValueError(f"Unexpected response from register: {answer!r}")) == why


@pytest.mark.parametrize("contact", ["9001", "host", "host:port", "host:99999", "tls://host:1", "host:1/x", "a@host:1"])
def test_a_contact_is_a_host_and_a_port(capfd, contact):
    assert run(("fleet", "join", "tcp://127.0.0.1:9", "--device", "host", "--contact", contact)) == 2
    assert "is not HOST:PORT\nhint: " in capfd.readouterr().err


def test_silence_is_told_once(monkeypatch):
    monkeypatch.setattr("edgetune.workflows.fleet.client._SILENCE_S", 0)
    doing, told = {"doing": "measure"}, []
    workers = {"tcp://127.0.0.1:2": {"metrics": {"edgetune": {"board": "left", **doing}}}}
    client = SimpleNamespace(status="running", scheduler_info=lambda **_: {"workers": workers})
    fleet = Fleet(client, "tcp://127.0.0.1:9", told.append)
    fleet.replies(0)
    assert told == []
    workers["tcp://127.0.0.1:2"]["metrics"]["edgetune"]["doing"] = ""
    fleet.replies(0)
    fleet.replies(0)
    assert len(told) == 1
    assert "nothing has run" in told[0]

"""The address of a fleet, its certificate, and what its processes take from the network."""

import base64
import hashlib
import importlib
import json
import os
import pickle
import stat

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgetune.errors import InputError
from edgetune.version import __version__
from edgetune.workflows.fleet.profile import asked_of
from edgetune.workflows.fleet.task import BESIDE, Board, answer
from edgetune.workflows.fleet.wire import dask, parse_address, require_private, restricted_loads
from edgetune.workflows.profile.options import ProfileCommandOptions

BOARD = Board("b", "twin:orin-agx", None, False, {})


def ask(board=BOARD, **request):
    return answer(board, {"edgetune": __version__, "files": {}, "options": {}, **request})


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("fleet:tls://10.0.0.1:99", "tls://10.0.0.1:99"),
        ("10.0.0.1", "tls://10.0.0.1:8786"),
        ("tcp://127.0.0.1", "tcp://127.0.0.1:8786"),
        ("fleet:tls://[fd00::1]:5?tls=/tmp/x", "tls://[fd00::1]:5"),
    ],
)
def test_an_address_is_read(text, url):
    assert parse_address(text).url == url


@pytest.mark.parametrize("text", ["", "http://x", "tls://", "tls://h:notaport", "tls://h?x=1", "tls://h/path"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InputError):
        parse_address(text)


@pytest.mark.parametrize("host", ["8.8.8.8", "0.0.0.0", "::", "2001:4860:4860::8888"])
def test_a_public_address_needs_tls(host):
    with pytest.raises(InputError, match="public address"):
        require_private(host)
    with pytest.raises(InputError, match="public address"):
        parse_address(f"tcp://[{host}]:1" if ":" in host else f"tcp://{host}:1")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "192.168.0.9", "::1", "fd00::1"])
def test_a_private_address_does_not(host):
    require_private(host)


@pytest.mark.parametrize("what", [os.system, eval, stat.S_ISREG, pickle.loads, json.loads])
def test_a_pickle_names_nothing_of_anybody_else(what):
    with pytest.raises(pickle.UnpicklingError, match="takes no"):
        restricted_loads(pickle.dumps(what))


def test_the_one_function_and_its_arguments_pass():
    pytest.importorskip("distributed", reason="distributed is not installed")
    from edgetune.workflows.fleet.wire import run_task

    assert restricted_loads(pickle.dumps((run_task, ["{}"], {"a": 1}))) == (run_task, ["{}"], {"a": 1})


def test_another_version_is_refused():
    assert "edgetune 0.0.1 asks" in ask(edgetune="0.0.1", do="describe")["error"]


@pytest.mark.parametrize(
    "options",
    [{"model": "command:rm -rf x"}, {"model": "http://127.0.0.1/v1"}, {"model": "zoo:resnet18", "python": "/tmp/x"}],
)
def test_code_needs_the_consent_of_the_owner(options):
    reply = ask(do="describe", options=options)
    assert "is code" in reply["error"]
    assert "--allow-code" in reply["hint"]


def test_a_python_file_that_was_sent_needs_it_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = b"raise SystemExit('it ran')"
    sha256 = hashlib.sha256(code).hexdigest()
    part = {"sha256": sha256, "offset": 0, "last": True, "data": base64.b64encode(code).decode()}
    assert ask(do="describe", files={"model": ["x.py", sha256]}) == {"absent": [sha256]}
    assert ask(do="store", **part) == {}
    assert "x.py is code" in ask(do="describe", files={"model": ["x.py", sha256]})["error"]


def stored(path):
    """Send a file; return its hash."""
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    assert ask(do="store", sha256=sha256, offset=0, last=True, data=base64.b64encode(data).decode()) == {}
    return sha256


def test_weights_in_files_of_their_own_go_with_their_network(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 64]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "parts").mkdir()
    onnx.save(model, str(tmp_path / "net.onnx"), save_as_external_data=True, location="parts/w.bin", size_threshold=0)
    asked = asked_of(ProfileCommandOptions(str(tmp_path / "net.onnx"), device="fleet:h"))
    assert set(asked.files) == {"model", f"{BESIDE}parts/w.bin"}
    for sha256, path in asked.paths.items():
        assert stored(path) == sha256
    reply = ask(do="describe", options={**asked.options, "batch_sizes": "1", "modes": "MAXN"}, files=asked.files)
    assert "points" in reply, reply
    assert [point["workload"] for point in reply["points"]] == ["net"]
    outside = {**asked.files, f"{BESIDE}../../w.bin": asked.files[f"{BESIDE}parts/w.bin"]}
    assert "outside" in ask(do="describe", options={"batch_sizes": "1"}, files=outside)["error"]
    assert not list(tmp_path.glob("*.bin"))


def test_a_file_that_is_not_what_its_hash_says_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    reply = ask(do="store", sha256="0" * 64, offset=0, last=True, data="eA==")
    assert "damaged" in reply["error"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("sha256", ["../../etc/passwd", "", "0" * 63, "G" * 64])
def test_what_is_no_hash_names_no_file(sha256):
    assert "SHA-256" in ask(do="describe", files={"model": ["x.onnx", sha256]})["error"]


@pytest.mark.parametrize(
    "request_",
    [
        {}, {"edgetune": __version__}, {"edgetune": __version__, "do": []}, {"edgetune": __version__, "do": "store"},
        {"edgetune": __version__, "do": "describe", "files": 1},
        {"edgetune": __version__, "do": "describe", "files": {}, "options": {"no_such": 1}},
        {"edgetune": __version__, "do": "measure", "files": {}, "options": [], "visits": None},
    ],
)  # fmt: skip
def test_a_crafted_request_gets_an_error_and_no_traceback(request_):
    assert set(answer(BOARD, request_)) == {"error", "hint", "exit_code"}


@pytest.mark.parametrize("module", ["client", "scheduler", "worker", "nanny"])
def test_every_process_of_dask_reads_pickles_by_their_names(module):
    pytest.importorskip("distributed", reason="distributed is not installed")
    dask()
    found = importlib.import_module(f"distributed.{module}")
    for loads in (found.pickle.loads, getattr(found, "loads", found.pickle.loads)):
        with pytest.raises(pickle.UnpicklingError, match="takes no"):
            loads(pickle.dumps(os.system))

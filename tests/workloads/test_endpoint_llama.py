"""A real server of llama.cpp with a small random model: counts and times beside its own, and restarts in each mode.

Needs the package ``gguf``, and ``llama-server`` of llama.cpp, the package ``xllamacpp``, which has the same server
built, or ``llama-cpp-python[server]``, which has another.
"""

import importlib.util
import json
import math
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.artifacts.io import read_profile
from edgetune.cli.main import run
from edgetune.stats import median
from edgetune.testing.fake_board import make_board
from edgetune.workloads.endpoint import parse_endpoints
from edgetune.workloads.endpoint_client import Client
from edgetune.workloads.endpoint_streams import StartedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs the package gguf to write a model"),
]
_PROMPT, _OUTPUT, _REQUESTS = 128, 64, 5
_MISSING = {
    "llama-server": None if shutil.which("llama-server") else "llama-server is not on the path",
    "xllamacpp": None if importlib.util.find_spec("xllamacpp") else "xllamacpp is not installed",
    "llama_cpp.server": None if importlib.util.find_spec("llama_cpp") else "llama-cpp-python[server] is not installed",
}
_XLLAMACPP = """
import sys, threading, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_parallel, params.n_ctx = sys.argv[1], int(sys.argv[2]), 1, 4096
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the model."""
    from tests.fakes.tiny_gguf import write_model

    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture(params=_MISSING)
def start(request: pytest.FixtureRequest, model: Path) -> str:
    """Return the command that starts a server; that of llama-cpp-python does not count in streams."""
    if (why := _MISSING[request.param]) is not None:
        pytest.skip(why)
    file = shlex.quote(str(model))
    if request.param == "llama-server":
        return f"llama-server -m {file} --port {{port}} -np 1 -c 4096 --no-webui"
    if request.param == "xllamacpp":
        return f"{sys.executable} -c {shlex.quote(_XLLAMACPP)} {file} {{port}}"
    return f"{sys.executable} -m llama_cpp.server --model {file} --port {{port}} --n_ctx 4096 --model_alias m"


@pytest.fixture
def client(start: str) -> Iterator[Client]:
    """Start a server and return a client of it."""
    endpoint = parse_endpoints(f"http://127.0.0.1:1/v1#model=m&prompt={_PROMPT}&output={_OUTPUT}")[0]
    server = StartedServer(start, endpoint, {}, 60.0)
    found = Client(server.endpoint, 0)
    found.find_route()
    yield found
    server.close()


def _left_running(model: Path) -> str:
    for _ in range(50):
        found = subprocess.run(["pgrep", "-af", str(model)], capture_output=True, text=True, check=False)
        if not found.stdout:
            break
        time.sleep(0.1)
    return found.stdout


def test_counts_and_times_are_those_of_the_server(client: Client) -> None:
    answers = [client.ask() for _ in range(_REQUESTS)]
    body = {"model": "m", "max_tokens": _OUTPUT, "temperature": 0, "ignore_eos": True}
    body["messages"] = [{"role": "user", "content": client._prompt()}]
    url = client._endpoint.url + client.route.path
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as response:
        usage = json.load(response)["usage"]
    for answer in answers:
        assert answer.output_tokens == usage["completion_tokens"]
        assert answer.counted != "server" or answer.prompt_tokens == usage["prompt_tokens"]
        assert not answer.bunched
    print(
        f"{len(answers)} answers of {answers[0].output_tokens:g} tokens, counted by {answers[0].counted}; usage {usage}"
    )
    own_ttft_s, own_token_s = (
        median([getattr(each, name) for each in answers]) for name in ("own_ttft_s", "own_token_s")
    )
    if math.isnan(own_ttft_s):
        pytest.skip("counts are equal; this server sends no times of its own")
    print(f"ttft {median([each.ttft_s for each in answers]):.6f} s, own {own_ttft_s:.6f} s")
    print(f"token {median([each.token_s for each in answers]):.6f} s, own {own_token_s:.6f} s")
    assert median([each.ttft_s for each in answers]) == pytest.approx(own_ttft_s, rel=0.05)
    assert median([each.token_s for each in answers]) == pytest.approx(own_token_s, rel=0.05)


def test_server_restarts_in_each_mode_and_nothing_is_left(start: str, model: Path, tmp_path: Path) -> None:
    board, table = tmp_path / "board", tmp_path / "s.parquet"
    kernel = make_board(board, "jetson-orin-nano-8gb", kernel="5.15", debugfs="unmounted")
    kernel.forget_writes()
    before = kernel.settings()
    words = ["profile", "http://127.0.0.1/v1", "--model", "m", "--prompt-tokens", "16", "--output-tokens", "8"]
    words += ["--device", "jetson", "--root", str(board), "--modes", "gpu_mhz=306:510", "--minibatches", "2"]
    assert run([*words, "--start", start, "-o", str(table)]) == 0
    rows = read_profile(str(table)).rows
    assert [(row.gpu_mhz, row.status, row.output_tokens) for row in rows] == [(mhz, "ok", 8) for mhz in (306, 408, 510)]
    assert kernel.settings() == before
    assert not _left_running(model)

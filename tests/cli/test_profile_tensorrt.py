"""``edgetune profile --engine tensorrt`` and of engine files, to the table on disk.

There is no GPU: the child process imports the fakes ``fakes.tensorrt`` and ``fakes.cudart`` in place of the libraries,
which compute nothing. Their figures are no measurements.
"""

from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.io import read_profile
from fakes import tensorrt

TESTS = Path(__file__).parents[1]
SHIM = "import sys; sys.path.insert(0, {tests!r}); import fakes.{name} as fake; sys.modules[__name__] = fake\n"


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Let child processes import the fakes as ``tensorrt`` and ``cuda.bindings.runtime``."""
    folder = tmp_path / "libraries"
    for module, name in (("tensorrt", "tensorrt"), ("cuda/bindings/runtime", "cudart")):
        path = folder / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHIM.format(tests=str(TESTS), name=name))
    (folder / "cuda" / "bindings" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


WORDS = ("profile", "zoo:squeezenet", "--engine", "tensorrt", "--device", "host", "--minibatches", "10")


def test_a_network_is_built_before_it_is_measured(edgetune, libraries, tmp_path):
    target = tmp_path / "net.parquet"
    words = (*WORDS, "--batch-sizes", "1,4", "--precision", "fp16", "-o", str(target))
    ended = edgetune(*words)
    assert ended.code == 0, ended.err
    assert "was built in" in ended.err
    table = read_profile(target)
    assert [row.batch_size for row in table.rows] == [1, 4]
    assert all(row.build_s > 0 and row.engine_bytes > 100 and row.minibatch_s > 0.0009 for row in table.rows)
    assert table.header.options["engine"] == "tensorrt"
    assert "built in" in edgetune("show", str(target)).out, "its own column"
    again = edgetune(*words, "--fresh")
    assert "was built earlier in" in again.err
    other = edgetune(*WORDS[:2], *WORDS[4:], "-o", str(target))
    assert_two_lines(other, 2)


def test_an_engine_file_is_measured_at_the_batch_it_was_built_for(edgetune, libraries, tmp_path):
    path = tmp_path / "net.engine"
    path.write_bytes(tensorrt.plan({"x": [[8, 3], "FLOAT"]}, {"y": [[8, 2], "FLOAT"]}))
    target = tmp_path / "net.parquet"
    ended = edgetune("profile", str(path), "--device", "host", "--minibatches", "10", "-o", str(target))
    assert ended.code == 0, ended.err
    assert "net: takes batch 8 only, measured at 8" in ended.err
    (row,) = read_profile(target).rows
    assert (row.batch_size, row.build_s, row.engine_bytes) == (8, None, path.stat().st_size)
    refused = edgetune("profile", str(path), "--device", "host", "--batch-sizes", "4", "-o", str(tmp_path / "o.csv"))
    assert_two_lines(refused, 2)
    path.write_bytes(path.read_bytes()[:-1])
    assert_two_lines(edgetune("profile", str(path), "--device", "host"), 2)

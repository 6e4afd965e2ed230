"""``--ops``: a simulated device runs what a table of operators says, and says where that came from."""

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io

TWIN = ("--task", "train", "--device", "twin:orin-agx", "--modes", "gpu_mhz=318:1300:3")


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def ops(edgetune, tmp_path):
    path = str(tmp_path / "ops.parquet")
    assert edgetune("roofline", "ops", "zoo:squeezenet", "--task", "train", "--batch-size", "8", "-o", path).code == 0
    return path


def figures(path):
    return [(row.point, row.minibatch_s, row.power_w) for row in io.read_profile(str(path)).rows]


def test_the_table_gives_what_costing_the_network_gives(edgetune, tmp_path, ops):
    costed, given = tmp_path / "costed.parquet", tmp_path / "given.parquet"
    assert edgetune("profile", "zoo:squeezenet", *TWIN, "--batch-sizes", "8", "-o", str(costed)).code == 0
    ended = edgetune("profile", "zoo:squeezenet", *TWIN, "--ops", ops, "-o", str(given))  # at the table's batch size
    assert ended.code == 0, ended.err
    assert figures(given) == figures(costed)
    assert io.read_profile(str(given)).header.inputs["ops"]["name"] == ops
    assert "ops" not in io.read_profile(str(costed)).header.inputs


def test_a_training_file_can_be_simulated(edgetune, tmp_path, ops):
    script, target = tmp_path / "squeezenet.py", tmp_path / "p.parquet"
    script.write_text("raise RuntimeError('nobody runs this')\ndef make(batch_size): ...\n")
    assert_two_lines_after_label(edgetune("profile", str(script), *TWIN, "-o", str(target)), "--ops FILE")
    assert edgetune("profile", str(script), *TWIN, "--ops", ops, "-o", str(target)).code == 0
    assert [row.workload for row in io.read_profile(str(target)).rows] == ["squeezenet"] * 3


def assert_two_lines_after_label(ended, words):
    lines = [line for line in ended.lines if not line.startswith("SIMULATED")]
    assert (ended.code, len(lines)) == (2, 2), ended.err
    assert words in lines[1]


def test_another_table_is_another_request(edgetune, tmp_path, ops):
    target = tmp_path / "p.parquet"
    request = ("profile", "zoo:squeezenet", *TWIN, "--batch-sizes", "8", "-o", str(target))
    assert edgetune(*request).code == 0
    assert edgetune(*request, "--ops", ops).code == 2
    assert edgetune(*request, "--ops", ops, "--fresh").code == 0
    assert "has these points already" in edgetune(*request, "--ops", ops).err
    assert edgetune(*request).code == 2


BAD = {
    "another batch size": ("zoo:squeezenet", *TWIN, "--batch-sizes", "8,16"),
    "another task": ("zoo:squeezenet", "--task", "infer", "--device", "twin:orin-agx"),
    "a live device": ("zoo:squeezenet", "--task", "train", "--device", "host"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_bad_requests_are_two_lines_and_2(edgetune, ops, words):
    assert_two_lines(edgetune("profile", *words, "--ops", ops), 2)

"""On a recorded device MODEL is a name in its table: no file of that name is needed, and nothing is made up."""

import pytest
import yaml
from command_line import assert_two_lines

from edgetune.artifacts import io

TABLE = """workload,task,batch_size,gpu_mhz,minibatch_s,power_w
resnet18,train,16,300,0.20,12
resnet18,train,16,900,0.09,29
resnet18,train,32,900,0.17,30
resnet18,infer,1,300,0.01,10
tiny,train,4,300,0.01,9
"""


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return f"recorded:{path}"


@pytest.mark.parametrize("name", ["resnet18", "somewhere/resnet18.py"])
def test_any_spelling_of_the_name_will_do(edgetune, tmp_path, device, name):
    target = tmp_path / "p.parquet"
    ended = edgetune("profile", name, "--device", device, "--task", "train", "--batch-sizes", "16", "-o", str(target))
    assert ended.code == 0, ended.err
    profile = io.read_profile(str(target))
    assert [(row.workload, row.gpu_mhz, row.minibatch_s) for row in profile.rows] == [
        ("resnet18", 300, 0.2), ("resnet18", 900, 0.09),
    ]  # fmt: skip
    assert profile.header.inputs["workload"]["name"] == "resnet18"


def test_without_batch_sizes_all_that_were_measured_are_taken(edgetune, tmp_path, device):
    target = tmp_path / "p.parquet"
    assert edgetune("profile", "resnet18", "--device", device, "--task", "train", "-o", str(target)).code == 0
    rows = io.read_profile(str(target)).rows
    assert [(row.batch_size, row.gpu_mhz) for row in rows] == [(16, 300), (16, 900), (32, 900)]


def test_a_mode_that_is_named_must_be_there(edgetune, tmp_path, device):
    words = ("profile", "resnet18", "--device", device, "--task", "train", "--batch-sizes", "32")
    ended = edgetune(*words, "--modes", "gpu_mhz=300", "-o", str(tmp_path / "p.parquet"))
    assert_two_lines(ended, 2)


def test_a_search_takes_the_name_too(edgetune, device):
    ended = edgetune("search", "resnet18", "--device", device, "--task", "train", "--power-budget", "30W", "--quiet")
    assert ended.code == 0, ended.err
    assert yaml.safe_load(ended.out)["configuration"] == {"mode": {"gpu_mhz": 900.0}, "batch_size": 32}


BAD = {
    "no such task": ("tiny", "--task", "infer"),
    "no such batch size": ("resnet18", "--task", "train", "--batch-sizes", "8,16"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
@pytest.mark.parametrize("command", ["profile", "search"])
def test_missing_names_are_reported_with_the_names_of_the_table(edgetune, device, command, words):
    ended = edgetune(command, *words, "--device", device)
    assert_two_lines(ended, 2)

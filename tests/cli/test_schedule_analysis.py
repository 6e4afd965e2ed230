"""``edgetune schedule generate``: what people see, and what is refused."""

import json

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.stages.schedule.costs import networks_of

COSTS = """network,layer,kind,weight_bytes,output_bytes,load_s,execute_s,after
net,conv1,conv,1000000,100000,0.010,0.020,
net,fc6,fc,30000000,1000,0.300,0.010,0
other,conv1,conv,1000000,100000,0.010,0.020,
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "costs.csv").write_text(COSTS)


def test_networks_are_made_up_and_run(edgetune):
    words = ("schedule", "generate", "-n", "2", "--shape", "fan", "--layers", "4", "--seed", "7")
    ended = edgetune(*words, "--count", "3")
    assert ended.lines == ["wrote made.parquet and made.yaml"]
    table = [line.split()[:2] for line in ended.out.splitlines()]
    assert table == [["network", "layers"], ["made-1", "4"], ["made-2", "4"]]
    costs = io.read(LayerCosts, "made.parquet")
    assert costs.header.simulated
    assert costs.header.conditions["generated"]["seed"] == 7
    networks = networks_of(costs)
    assert [layer.after for layer in networks["made-1"].layers] == [(), (0,), (0,), (0,)]
    ran = edgetune("schedule", "run", "made.yaml", "--simulate", "--policy", "masa,reuse", "-o", "t.parquet")
    assert ran.code == 0
    assert "6/6" in ran.out
    again = edgetune(*words, "-o", "b.parquet", "--json")
    assert json.loads(again.out)["networks"][0]["weight_bytes"] == networks["made-1"].weight_bytes
    assert io.read(LayerCosts, "b.parquet").rows == costs.rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shape", "star"), "unknown shape: 'star'"),
        (("--layers", "9:3"), "--layers is 9:3"),
        (("--layers", "0"), "--layers is 0"),
        (("--weights", "normal:1MiB:2MiB"), "--weights"),
        (("--load", "fast/s"), "--load"),
        (("--arrivals", "sometimes"), "sometimes"),
        (("-o", "same.yaml", "--jobs", "same.yaml"), "same.yaml"),
        (("-o", "no/such/folder.parquet"), "no/such/folder.parquet"),
    ],
)
def test_invalid_generation_requests_are_refused(edgetune, words, message, tmp_path):
    ended = edgetune("schedule", "generate", *words)
    assert_two_lines(ended, 2)
    assert message in ended.lines[0]
    assert not (tmp_path / "made.parquet").exists()

"""``edgetune device``, ``edgetune zoo`` and ``edgetune show``: what they print, for people and for machines."""

import json

from edgetune.artifacts import io
from edgetune.artifacts.plan import Plan
from edgetune.workloads.zoo import NETWORKS

TABLE = "workload,task,batch_size,gpu_mhz,minibatch_s,power_w\nnet,train,16,300,0.20,12\nnet,train,16,900,0.09,29\n"


def test_the_list_says_why_a_device_is_not_here(edgetune):
    ended = edgetune("device")
    assert ended.code == 0
    rows = {line.split()[0]: line for line in ended.out.splitlines() if line}
    assert " yes " in rows["host"]
    assert " yes " in rows["twin:orin-agx"]
    machine = json.loads(edgetune("device", "--json").out)
    assert all(item["available"] or item["reason"] for item in machine)


def test_a_device_says_what_it_can_do_and_why_not(edgetune):
    ended = edgetune("device", "twin:orin-agx")
    assert "SIMULATED" in ended.out
    facts = json.loads(edgetune("device", "twin:orin-agx", "--json").out)
    assert facts["capabilities"]["power"]["here"] == "yes"
    assert facts["capabilities"]["temperature"] == {"here": "no", "note": "the twin has no thermal model"}
    assert facts["modes"]["knobs"]["gpu_mhz"][-1] == 1300.5


def test_a_table_is_a_device(edgetune, tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    ended = edgetune("device", f"recorded:{tmp_path / 't.csv'}", "--modes", "all")
    assert [line.strip() for line in ended.out.splitlines()] == ["gpu_mhz", "300", "900"]


def test_zoo_lists_every_network(edgetune):
    ended = edgetune("zoo")
    assert [line.split()[0] for line in ended.out.splitlines()] == ["name", *NETWORKS]
    assert [network["name"] for network in json.loads(edgetune("zoo", "--json").out)] == list(NETWORKS)
    assert edgetune("zoo", "list").out == ended.out
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in ended.out.splitlines()}
    assert rows["bert_base"].endswith("3 inputs of 128 arXiv:1810.04805")
    assert "image 3x224x224" in rows["resnet18"]


def test_zoo_exports_a_network(edgetune, tmp_path):
    import onnx

    target = tmp_path / "net.onnx"
    ended = edgetune("zoo", "export", "squeezenet", "-o", str(target), "--batch-size", "3")
    assert (ended.code, ended.out, ended.err) == (0, "", f"wrote {target}\n")
    shape = onnx.load(target).graph.input[0].type.tensor_type.shape
    assert [dimension.dim_value for dimension in shape.dim] == [3, 3, 224, 224]


def test_show_prints_any_artifact(edgetune, tmp_path):
    table, plan, trace = tmp_path / "t.csv", tmp_path / "plan.yaml", tmp_path / "trace.parquet"
    table.write_text(TABLE)
    search = ("search", str(table), "--power-budget", "30W", "--strategy", "exhaustive", "-o", str(plan))
    assert edgetune(*search, "--trace", str(trace)).code == 0
    assert edgetune("show", str(plan)).out == plan.read_text(encoding="utf-8")
    shown = edgetune("show", str(trace)).out
    assert "trace version 1" in shown
    assert "within_budget" not in shown
    assert len([line for line in shown.splitlines() if line.lstrip().startswith(("1 ", "2 "))]) == 2
    for path in (table, plan, trace):
        assert json.loads(edgetune("show", str(path), "--json").out)
    assert io.read(Plan, str(plan)).configuration.batch_size == 16

"""A plan is run by the next command as it is: it names its files, and nothing that it knows is measured again."""

import shutil

import pytest
import yaml
from chain_inputs import small_network
from command_line import assert_two_lines

from edgetune.artifacts.io import read
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.run import Run
from edgetune.errors import InputError
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.interleave.plan_workloads import workloads_of
from edgetune.workflows.interleave.tenants import tenants_of_options
from edgetune.workloads.resolve import resolve

ANSWERS = ("--latency-budget", "2s", "--arrival-rate", "40/s")
SIZES = ("--batch-sizes", "1,2", "--device", "host")
PAIR = ("--kind", "train+infer", "--background", "train.py", "--background-batch", "4")
RUN = ("--duration", "500ms", "-o", "run.parquet")
NEVER_AGAIN = "nothing is measured again"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a network, a training file, and plans made of them live: of one, and of both."""
    from edgetune.cli.main import run

    made = small_network(tmp_path_factory.mktemp("planned"))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(made)
        assert run(["search", "small.onnx", "--task", "infer", *SIZES, *ANSWERS, "-q", "-o", "one.yaml"]) == 0
        assert run(["search", "small.onnx", *PAIR, *SIZES, *ANSWERS, "-q", "-o", "both.yaml"]) == 0
    return made


@pytest.fixture
def there(folder, tmp_path, monkeypatch):
    """The folder as the working directory."""
    monkeypatch.chdir(folder)
    return folder


def measured_again(err):
    return "measuring" in err or "measured small" in err or "measured train" in err


def test_a_live_plan_names_each_file_as_given_and_absolute_with_its_hash(folder):
    plan = yaml.safe_load((folder / "both.yaml").read_text(encoding="utf-8"))
    for role, file, name in (("workload", "small.onnx", "small"), ("background", "train.py", "train")):
        path = folder / file
        expected = {"name": name, "reference": file, "path": str(path), "sha256": resolve(str(path)).sha256}
        if role == "workload":
            expected["batch"] = {"axes": {"x": 0}, "exported": None, "why": "its symbol is 'batch'"}
        assert plan["inputs"][role] == expected


@pytest.mark.parametrize("plan", ["both.yaml"])
def test_a_live_plan_runs_as_it_is_and_measures_nothing_again(edgetune, there, plan):
    ended = edgetune("interleave", plan, *RUN)
    assert ended.code == 0, ended.err
    assert NEVER_AGAIN in ended.err
    assert not measured_again(ended.err)
    run = read(Run, "run.parquet")
    assert {row.status for row in run.rows if row.event == "request"} == {"ok"}
    assert run.header.conditions["device"] == "host"
    assert run.header.inputs["tenants"][0]["path"] == str(there / "small.onnx")


def test_only_what_the_plan_does_not_know_is_measured(edgetune, there):
    ended = edgetune("interleave", "one.yaml", "--train", "train.py", "--train-batch-size", "4", *RUN)
    assert ended.code == 0, ended.err
    assert "measuring 1 point, " in ended.err
    assert "measured train train batch 4" in ended.err
    assert "measured small" not in ended.err


def test_a_plan_from_two_tables_names_both_files(edgetune, there):
    sizes = ("--batch-sizes", "4", "--device", "host", "--fresh", "-o", "train.parquet")
    assert edgetune("profile", "small.onnx", "--task", "infer", *SIZES, "--fresh", "-o", "infer.parquet").code == 0
    assert edgetune("profile", "train.py", "--task", "train", *sizes).code == 0
    tables = ("train.parquet", "infer.parquet")
    assert edgetune("search", *tables, "--kind", "train+infer", *ANSWERS, "-q", "-o", "tables.yaml").code == 0
    plan = read(Plan, "tables.yaml")
    assert {task: each.path for task, each in workloads_of(plan).items()} == {
        "infer": str(there / "small.onnx"), "train": str(there / "train.py"),
    }  # fmt: skip
    ended = edgetune("interleave", "tables.yaml", *RUN)
    assert ended.code == 0, ended.err
    assert NEVER_AGAIN in ended.err


def test_two_inference_tables_make_a_plan_that_runs_both(edgetune, there):
    shutil.copy("small.onnx", "second.onnx")
    for file, sizes in (("small", "1,2"), ("second", "4")):
        words = ("--task", "infer", "--batch-sizes", sizes, "--device", "host", "--fresh", "-o", f"{file}.parquet")
        assert edgetune("profile", f"{file}.onnx", *words).code == 0
    tables = ("small.parquet", "second.parquet", "--kind", "infer+infer", "--background", "second")
    assert edgetune("search", *tables, *ANSWERS, "-q", "-o", "answers.yaml").code == 0
    assert {role: each.path for role, each in workloads_of(read(Plan, "answers.yaml")).items()} == {
        "infer": str(there / "small.onnx"), "background": str(there / "second.onnx"),
    }  # fmt: skip
    ended = edgetune("interleave", "answers.yaml", *RUN)
    assert ended.code == 0, ended.err
    assert NEVER_AGAIN in ended.err
    run = read(Run, "run.parquet")
    behind = [row for row in run.rows if row.event == "train"]
    assert {(row.tenant, row.samples, row.status) for row in behind} == {("second", 4, "ok")}
    assert {row.tenant for row in run.rows if row.event == "request"} == {"small"}
    refused = edgetune("interleave", "answers.yaml", "--adapt", *RUN)
    assert_two_lines(refused, 2)


@pytest.mark.parametrize(
    "change", [lambda path: path.write_text(path.read_text(encoding="utf-8") + "\n"), lambda path: path.unlink()]
)
def test_a_file_that_changed_or_moved_is_refused(edgetune, folder, tmp_path, monkeypatch, *, change):
    for name in ("small.onnx", "train.py"):
        shutil.copy(folder / name, tmp_path)
    plan = (folder / "both.yaml").read_text(encoding="utf-8").replace(str(folder), str(tmp_path))
    (tmp_path / "both.yaml").write_text(plan)
    monkeypatch.chdir(tmp_path)
    change(tmp_path / "train.py")
    ended = edgetune("interleave", "both.yaml", *RUN)
    assert_two_lines(ended, 2)


def test_dimensions_and_inputs_of_the_plan_are_those_of_the_run(there, tmp_path):
    document = yaml.safe_load((there / "one.yaml").read_text(encoding="utf-8"))
    samples = tmp_path / "samples.npz"
    samples.touch()
    document["inputs"]["workload"] |= {"dimensions": {"sequence": 128}, "inputs": str(samples), "precision": "fp16"}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(document))
    (tenant,) = tenants_of_options(InterleaveOptions(), read(Plan, str(tmp_path / "plan.yaml")))
    assert (dict(tenant.dimensions), tenant.inputs, tenant.precision) == ({"sequence": 128}, str(samples), "fp16")


@pytest.mark.parametrize("value", [7, {"name": "small", "dimensions": "n"}])
def test_a_plan_whose_inputs_make_no_sense_is_refused(there, value, tmp_path):
    document = yaml.safe_load((there / "one.yaml").read_text(encoding="utf-8"))
    document["inputs"]["workload"] = value
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match=r"inputs\.workload"):
        tenants_of_options(InterleaveOptions(), read(Plan, str(tmp_path / "plan.yaml")))

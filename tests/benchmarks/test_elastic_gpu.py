"""The command for those who have a GPU, run on a fake whose kernels do nothing: that it works, not what it says."""

import json
from functools import partial

import pytest
from elastic_cells import HALF
from elastic_gpu import PARTS, Parts, main
from elastic_model import measured_policies

from edgetune.errors import DeviceError
from edgetune.stages.elastic.abi import grid_symbol
from edgetune.stages.elastic.cuda.building import Build
from edgetune.stages.elastic.cuda.gpu_session import open_gpu_session
from edgetune.stages.elastic.forms import Form, Forms
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.policies import POLICIES
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda, fake_image
from fakes.cuda_gpu import FakeCudaGpu
from fakes.cuda_state import ticking

NEEDS = Resources(registers_per_thread=32)


def built(asked, context, recorded):
    """Stand for the generator and the compiler, which others test: every kernel has one elastic form."""
    names = sorted({call.kernel for call in asked.calls})
    forms = {name: Forms(Form(name, NEEDS), {1: Form(grid_symbol(name), NEEDS)}) for name in names}
    return Build(fake_image(*names, *map(grid_symbol, names)), forms, recorded)


@pytest.fixture
def command():
    """Return the command on a fake GPU and its clock."""
    clock = FakeClock()
    cuda = FakeCuda([FakeCudaGpu()], clock, other_ns=20_000)
    opened = partial(open_gpu_session, module=cuda, now_ns=ticking(clock), sleep_s=clock.sleep_s)

    def opener(index, **options):
        return opened(index, **{**options, "builder": built})

    def run(*arguments):
        return main(["--small", *arguments], opener, now_s=lambda: clock.now_ns() / 1e9)

    return run


def figures(folder):
    return json.loads((folder / "elastic_gpu.json").read_text())


def test_all_parts_on_two_sizes_within_a_time(command, tmp_path, capsys):
    parts = ",".join(each for each in PARTS if each != "numbers")  # PyTorch takes long to load
    asked = ["--workloads", "A", "--turns", "3", "--duration", "20ms", "--smallest", "5ms"]
    code = command(
        "--parts", parts, "--networks", "gru", *asked, "--sms", "all,8", "--within", "9s", "-o", str(tmp_path)
    )
    said = capsys.readouterr().out
    assert code == 0, said
    assert (tmp_path / "elastic_gpu.txt").read_text() == said
    found = figures(tmp_path)
    assert found["took_s"] < 9
    assert found["gpu"] == "Fake CUDA GPU (not hardware)"
    assert (found["equality"]["gru"]["ways"], found["equality"]["gru"]["differences"]) == (9, [])
    assert found["interference"]["multiprocessors"] == [16, 8]
    assert found["left_out"] == []
    assert [each["sms"] for each in found["sizes"]] == [16, 8]
    for size in found["sizes"]:
        assert len(size["overhead"]["gru"]["ratios"]) == 30
        assert size["shards"]["call_s"] == pytest.approx(20e-6, rel=0.01)
        (workload,) = size["policies"]
        assert [each["policy"] for each in workload["policies"]] == [*POLICIES, HALF]
        assert 2 <= workload["turns"] <= 3
        assert len(size["cells"]) == workload["turns"] * (len(POLICIES) + 2)
        assert {"multistream", "elastic", HALF} == {each["policy"] for each in workload["policies"] if each["bound"]}
        assert (tmp_path / f"blocks-{size['sms']}.parquet").exists()
    for line in (
        "equality   gru          9 ways",
        "bound      elastic: alexnet takes at most",
        "power      not read: ",
    ):
        assert line in said
    read = measured_policies((tmp_path / "elastic_gpu.txt").read_text())
    assert list(read) == [(16, "A"), (8, "A")]
    for size, measured in zip(found["sizes"], read.values(), strict=True):
        cells = measured.cells
        assert measured.host.next_s == pytest.approx(size["shards"]["reaction_s"], rel=0.01)
        assert list(cells) == [*POLICIES, HALF]
        (workload,) = size["policies"]
        for each in workload["policies"]:
            awake_s = workload["alone_p50_s"] - workload["waking_s"]
            latency_ms = pytest.approx(1e3 * each["p50_x"]["value"] * awake_s, rel=0.01)
            assert (cells[each["policy"]].latency_ms, cells[each["policy"]].normal_per_s) == (
                latency_ms, pytest.approx(each["normal_per_s"], rel=0.01)
            )  # fmt: skip


def test_what_is_left_out_is_told(command, tmp_path, capsys):
    asked = ["--parts", "policies", "--workloads", "A,D", "--turns", "1", "--duration", "10ms", "--policies", "barrier"]
    code = command(*asked, "--smallest", "10ms", "--sms", "all,17", "-o", str(tmp_path))
    assert code == 5, capsys.readouterr().out
    what = [each["what"] for each in figures(tmp_path)["left_out"]]
    assert what == ["solo in turn 0 of D", "solo in turn 1 of D", "17 multiprocessors"]
    short = ["--parts", "equality,policies", "--networks", "gru,lstm", "--workloads", "A,D", "--within", "20ms"]
    assert command(*short, "--policies", "barrier", "-o", str(tmp_path)) == 0
    what = [each["what"] for each in figures(tmp_path)["left_out"]]
    assert what == ["equality of lstm", "workloads A, D on 16 multiprocessors"]


@pytest.mark.parametrize("broken", [DeviceError("it is broken", "mend it"), ZeroDivisionError("broken")])
def test_a_part_that_fails_does_not_end_the_command(command, tmp_path, monkeypatch, capsys, broken):
    def fails(*_):
        raise broken

    monkeypatch.setattr(Parts, "shards", fails)
    code = command("--parts", "shards,overhead", "--networks", "gru", "-o", str(tmp_path))
    assert code == 5, capsys.readouterr().out
    found = figures(tmp_path)
    (left,) = found["left_out"]
    assert left["what"] == "shards on 16 multiprocessors"
    assert "broken" in left["why"]
    assert found["sizes"][0]["overhead"]["gru"]["ratio"] > 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--parts", "policys"], "there is no part 'policys'"),
        (["--policies", "elastics"], "there is no policy 'elastics'"),
        (["--workloads", "A,Z"], "there is no workload 'Z'"),
        (["--networks", "vgg"], "there is no network 'vgg'"),
        (["--sms", "all,1x"], "--sms has '1x'"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_runs(command, tmp_path, capsys, asked, said):
    assert command(*asked, "-o", str(tmp_path)) == 2
    assert said in capsys.readouterr().err


def test_without_a_gpu_it_says_so(tmp_path, capsys):
    clock = FakeClock()
    nothing = partial(open_gpu_session, module=FakeCuda([], clock), now_ns=ticking(clock), sleep_s=clock.sleep_s)
    assert main(["-o", str(tmp_path)], nothing) == 4
    assert "there is no NVIDIA GPU on this machine" in capsys.readouterr().err

"""The command for those who have a GPU, run on a fake whose kernels do nothing: that it works, not what it says."""

import json
from functools import partial

import pytest
from elastic_gpu import main

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
def opener():
    clock = FakeClock()
    cuda = FakeCuda([FakeCudaGpu()], clock, other_ns=20_000)
    opened = partial(open_gpu_session, module=cuda, now_ns=ticking(clock), sleep_s=clock.sleep_s)
    return lambda index, **options: opened(index, **{**options, "builder": built})


def test_parts_of_one_small_network(opener, tmp_path, capsys):
    parts = ["--parts", "equality,overhead,shards,blocks", "--networks", "gru", "--small"]
    code = main([*parts, "-o", str(tmp_path)], opener)
    said = capsys.readouterr().out
    assert code == 0, said
    assert "all bits alike" in said
    found = json.loads((tmp_path / "elastic_gpu.json").read_text())
    assert found["gpu"] == "Fake CUDA GPU (not hardware)"
    assert (found["equality"]["gru"]["ways"], found["equality"]["gru"]["differences"]) == (9, [])
    assert len(found["overhead"]["gru"]["ratios"]) == 30
    assert found["shards"]["call_s"] == pytest.approx(20e-6, rel=0.01)
    assert (tmp_path / "blocks.parquet").exists()


def test_a_workload_by_all_policies(opener, tmp_path, capsys):
    asked = ["--small", "--parts", "policies", "--workloads", "A", "--turns", "2", "--duration", "20ms"]
    code = main([*asked, "-o", str(tmp_path)], opener)
    said = capsys.readouterr().out
    assert code == 0, said
    (workload,) = json.loads((tmp_path / "elastic_gpu.json").read_text())["policies"]
    assert [each["policy"] for each in workload["policies"]] == list(POLICIES)


def test_without_a_gpu_it_says_so(tmp_path, capsys):
    clock = FakeClock()
    nothing = partial(open_gpu_session, module=FakeCuda([], clock), now_ns=ticking(clock), sleep_s=clock.sleep_s)
    assert main(["-o", str(tmp_path)], nothing) == 4
    assert "there is no NVIDIA GPU on this machine" in capsys.readouterr().err

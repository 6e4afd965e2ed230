"""The command for those who have a GPU, run on a fake whose kernels do nothing: that every part works, not what it says."""

import json
from functools import partial

import pytest
from elastic_gpu import main

from edgetune.elastic.cuda.ready import open_ready
from edgetune.testing.fake_cuda_driver import FakeCuda
from edgetune.testing.fake_cuda_gpu import FakeCudaGpu
from edgetune.testing.fake_device import FakeClock


@pytest.fixture
def opener():
    clock = FakeClock()
    cuda = FakeCuda([FakeCudaGpu()], clock)
    return partial(open_ready, module=cuda, now_ns=clock.now_ns, sleep_s=clock.sleep_s)


def test_parts_of_one_small_network(opener, tmp_path, capsys):
    parts = ["--parts", "equality,overhead,shards,blocks", "--networks", "gru"]
    code = main([*parts, "-o", str(tmp_path)], opener)
    said = capsys.readouterr().out
    assert code == 0, said
    assert "all bits alike" in said
    found = json.loads((tmp_path / "elastic_gpu.json").read_text())
    assert found["gpu"] == "Fake CUDA GPU (not hardware)"
    assert found["equality"]["gru"]["differences"] == []
    assert len(found["overhead"]["gru"]["ratios"]) == 30
    assert found["shards"]["call_s"] > 0
    assert (tmp_path / "blocks.parquet").exists()


def test_a_workload_by_all_policies(opener, tmp_path, capsys):
    code = main(["--parts", "policies", "--workloads", "D", "--turns", "2", "--duration", "300ms", "-o", str(tmp_path)], opener)
    said = capsys.readouterr().out
    assert code == 0, said
    (workload,) = json.loads((tmp_path / "elastic_gpu.json").read_text())["policies"]
    assert [each["policy"] for each in workload["policies"]] == ["sequential", "multistream", "barrier", "elastic"]


def test_without_a_gpu_it_says_so(tmp_path, capsys):
    clock = FakeClock()
    nothing = partial(open_ready, module=FakeCuda([], clock), now_ns=clock.now_ns, sleep_s=clock.sleep_s)
    assert main(["-o", str(tmp_path)], nothing) == 4
    assert "there is no NVIDIA GPU on this machine" in capsys.readouterr().err

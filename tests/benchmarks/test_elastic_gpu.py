"""The command for those who have a GPU, run on a fake whose kernels do nothing: that it works, not what it says."""

from functools import partial

import pytest
from elastic_gpu import PARTS, main
from elastic_model import measured_ms, measured_policies

from edgetune.stages.elastic.cuda.building import Build
from edgetune.stages.elastic.cuda.gpu_session import open_gpu_session
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.kernel import form_symbol
from edgetune.stages.elastic.policies import POLICIES
from edgetune.testing.fake_jetson import FakeClock
from fakes.cuda_driver import FakeCuda, fake_image
from fakes.cuda_gpu import FakeCudaGpu
from fakes.cuda_state import ticking

NEEDS = Resources(registers_per_thread=32)


def built(asked, context, recorded):
    """Stand for the compiler and the forms, which others test: every kernel has one elastic form."""
    names = sorted({call.kernel for call in asked.calls})
    forms = {name: {None: NEEDS, 1: NEEDS} for name in names}
    return Build(fake_image(*names, *(form_symbol(name, "grid") for name in names)), forms, recorded)


@pytest.fixture
def command():
    """Return the command on a fake GPU."""
    clock = FakeClock()
    cuda = FakeCuda([FakeCudaGpu()], clock, other_ns=20_000, version=13000)
    opened = partial(open_gpu_session, module=cuda, now_ns=ticking(clock), sleep_s=clock.sleep_s)

    def opener(index, **options):
        return opened(index, **{**options, "builder": built})

    return lambda *arguments: main(["--small", *arguments], opener)


def test_all_parts_on_two_sizes(command, capsys):
    parts = ",".join(each for each in PARTS if each != "numbers")  # PyTorch takes long to load
    asked = ["--workloads", "A", "--turns", "2", "--duration", "20ms", "--networks", "gru"]
    code = command("--parts", parts, *asked, "--sms", "all,8")
    said = capsys.readouterr().out
    assert code == 0, said
    assert "equality   gru          12 ways" in said
    read = measured_policies(said)
    assert list(read) == [(16, "A"), (8, "A")]
    for measured in read.values():
        assert list(measured.cells) == list(POLICIES)
        assert measured.host.next_s > measured.host.call_s > 0
        assert measured.run_s == pytest.approx(0.04)
    assert [name for _, name in measured_ms(said)] == ["gru", "gru"]

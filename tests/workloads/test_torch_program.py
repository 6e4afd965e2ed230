"""Programs of ``torch.export``: their batch is read without PyTorch, and they run at the sizes that they take."""

import zipfile

import pytest
import torch
from torch.export import Dim

from edgetune.errors import InputError
from edgetune.workflows.parse_options import choose_batch_sizes
from edgetune.workloads.resolve import resolve
from edgetune.workloads.steps import open_step
from edgetune.workloads.torch_program_steps import shapes_of
from edgetune.workloads.workload import RunOptions


class Scaled(torch.nn.Module):
    """Looks rows up, adds an optional second input and scales both by a constant argument."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(2, 4)
        torch.nn.init.ones_(self.rows.weight)

    def forward(self, ids, factor, *, more=None):
        found = self.rows(ids) * factor
        return found if more is None else found + more


def save(path, inputs=(3, 5), *, dynamic=None, more=None):
    ids = torch.zeros(inputs, dtype=torch.int64)
    named = {} if more is None else {"more": torch.zeros(more)}
    shapes = None if dynamic is None else {"ids": dynamic, "factor": None, **({"more": dynamic} if named else {})}
    torch.export.save(torch.export.export(Scaled().eval(), (ids, 2.0), named, dynamic_shapes=shapes), path)
    return resolve(str(path))


def test_an_open_batch_takes_any_size_in_its_range(tmp_path):
    workload = save(tmp_path / "net.pt2", dynamic={0: Dim("batch", min=2, max=8)}, more=(3, 5, 4))
    shapes = shapes_of(workload)
    assert shapes.batch_axes == {"ids": 0, "more": 0}
    assert choose_batch_sizes(workload, ()) == ((3,), "net: takes batch 2 to 8, measured at 3")
    assert choose_batch_sizes(workload, (2, 8))[0] == (2, 8)
    for size in (2, 8):
        found = open_step(workload, "infer", size, RunOptions(threads=1))()
        assert found.shape == (size, 5, 4)
        assert not found.requires_grad
        assert 2.0 <= found.min() <= found.max() < 3.0, "rows of ones, times the constant, plus floats in [0, 1)"
    for refused in (1, 9):
        with pytest.raises(InputError, match=f"takes batch 2 to 8, not {refused}"):
            choose_batch_sizes(workload, (refused,))


def test_a_fixed_batch_is_the_only_one(tmp_path):
    workload = save(tmp_path / "net.pt2")
    assert choose_batch_sizes(workload, ())[0] == (3,)
    with pytest.raises(InputError, match="takes batch 3 only, not 1") as caught:
        choose_batch_sizes(workload, (1,))
    assert "dynamic_shapes" in caught.value.hint
    assert open_step(workload, "infer", 3, RunOptions(threads=1))().shape == (3, 5, 4)


def test_another_open_size_is_to_be_named(tmp_path):
    workload = save(tmp_path / "net.pt2", dynamic={0: Dim("batch"), 1: Dim("length", min=2, max=16)})
    with pytest.raises(InputError, match=r"axis 1 of input \w+ is open \(\w+, exported with \w+=5\)") as caught:
        open_step(workload, "infer", 1, RunOptions(threads=1))
    symbol = caught.value.hint.removeprefix("choose it: --dim ").partition("=")[0]
    with pytest.raises(InputError, match="of 2 to 16, not 17"):
        open_step(workload, "infer", 1, RunOptions(threads=1, dimensions={symbol: 17}))
    found = open_step(workload, "infer", 1, RunOptions(threads=1, dimensions={symbol: 9}))()
    assert found.shape == (1, 9, 4)
    with pytest.raises(InputError, match="no open dimension 'length'"):
        open_step(workload, "infer", 1, RunOptions(threads=1, dimensions={symbol: 9, "length": 9}))


class LastStep(torch.nn.Module):
    """The last step of a sequence whose first axis is time, as of recurrent networks."""

    def forward(self, x):
        return torch.relu(x)[-1]


def test_the_batch_of_a_network_of_time_first_is_the_second_axis(tmp_path):
    batch = {1: Dim("batch", min=1, max=8)}
    exported = torch.export.export(LastStep().eval(), (torch.zeros(5, 2, 4),), dynamic_shapes=(batch,))
    torch.export.save(exported, tmp_path / "net.pt2")
    workload = resolve(str(tmp_path / "net.pt2"))
    assert shapes_of(workload).batch_axes == {"x": 1}
    assert choose_batch_sizes(workload, (8,))[0] == (8,)
    assert open_step(workload, "infer", 8, RunOptions(threads=1))().shape == (8, 4)


def test_damaged_and_foreign_files_are_refused_before_pytorch_sees_them(tmp_path):
    save(tmp_path / "net.pt2")
    whole = (tmp_path / "net.pt2").read_bytes()
    bad = tmp_path / "bad.pt2"
    for content in (whole[: len(whole) // 2], whole[:30], whole.replace(b'"tensor_values"', b'"tensor_valuez"')):
        bad.write_bytes(content)
        with pytest.raises(InputError, match="cut short, damaged, or"):
            resolve(str(bad))
    bad.write_bytes(b"not a zip")
    with pytest.raises(InputError, match=r"no program of torch\.export"):
        resolve(str(bad))
    for name, what in (("readme.txt", "zip archive, but no program"), ("x/data/aotinductor/model.so", "AOTInductor")):
        with zipfile.ZipFile(bad, "w") as archive:
            archive.writestr(name, "")
        with pytest.raises(InputError, match=what):
            resolve(str(bad))
    torch.save({"w": torch.zeros(1)}, bad)
    with pytest.raises(InputError, match="PyTorch checkpoint"):
        resolve(str(bad))

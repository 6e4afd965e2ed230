"""What a network is fed where nobody gives it: within its tables, as long as its sequences, never a size by chance."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model, node

from edgetune.errors import DeviceError, InputError
from edgetune.workloads import observed
from edgetune.workloads.network_inputs import InputFilling, feeds, fillings, random_inputs, read_inputs
from edgetune.workloads.onnx_file import fix_dimensions, fixed_model, network_values
from edgetune.workloads.partition.weight_files import write_external
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Batch, Workload

INT = TensorProto.INT64


def network(
    folder: Path, nodes: list[onnx.NodeProto], inputs: dict[str, Any], values: dict[str, Any], **kinds: int
) -> Workload:
    """A network of one run a minibatch, with inputs of other types than float where ``kinds`` names them."""
    proto = model(nodes, inputs, None, values, opset=17)
    for value in proto.graph.input:
        value.type.tensor_type.elem_type = kinds.get(value.name, TensorProto.FLOAT)
    onnx.save(proto, folder / "net.onnx")
    return resolve(str(folder / "net.onnx"), ())


def filled(workload: Workload) -> dict[str, InputFilling]:
    fixed = fixed_model(workload, 1, {}, weights=False)
    return {each.name: each for each in fillings(fixed, network_values(workload, {}))}


def fed(workload: Workload, seed: int = 3) -> dict[str, Any]:
    return feeds(workload, fixed_model(workload, 1, {}, weights=False), 1, {}, inputs_file=None, seed=seed)


def of_ids(folder: Path, nodes: list[onnx.NodeProto], **values: Any) -> InputFilling:
    values = {"table": np.ones((1000, 8), np.float32), **values}
    workload = network(folder, nodes, {"ids": (4, 6)}, values, ids=INT)
    filling, drawn = filled(workload)["ids"], fed(workload)["ids"]
    assert filling.least is not None
    assert filling.most is not None
    assert filling.least <= drawn.min() <= drawn.max() <= filling.most
    return filling


INDICES = [
    ([node("Gather", "table ids", "y")], {}, (0, 999)),
    ([node("Transpose", "ids", "t", perm=[1, 0]), node("Gather", "table t", "y")], {}, (0, 999)),
    ([node("Add", "ids two", "t"), node("Gather", "table t", "y")], {"two": np.array(2)}, (0, 997)),
    ([node("Sub", "ids two", "t"), node("Gather", "table t", "y")], {"two": np.array(2)}, (0, 999)),
    ([node("Mul", "ids ten", "t"), node("Gather", "table t", "y")], {"ten": np.array(10)}, (0, 99)),
    ([node("Equal", "ids pad", "e"), node("Gather", "table ids", "y")], {"pad": np.array(1)}, (0, 999)),
    ([node("Cast", "ids", "y", to=TensorProto.FLOAT)], {}, (1, 1)),
    ([node("OneHot", "ids depth flags", "y")], {"depth": np.array(50), "flags": np.array([0, 1])}, (0, 49)),
]


@pytest.mark.parametrize(("nodes", "values", "bounds"), INDICES)
def test_indices_stay_within_the_rows_that_they_look_up(
    tmp_path: Path, nodes: list[onnx.NodeProto], values: dict[str, Any], bounds: tuple[int, int]
) -> None:
    filling = of_ids(tmp_path, nodes, **values)
    assert (filling.least, filling.most) == bounds


@pytest.mark.parametrize(("nodes", "values", "bounds"), [INDICES[at] for at in (0, 1, 5, 6, 7)])
def test_without_a_run_the_graph_shows_as_much_and_says_so(
    tmp_path: Path, nodes: Any, values: Any, bounds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_runtime(module: str) -> None:
        raise DeviceError("inference needs ONNX Runtime", "")

    monkeypatch.setattr(observed, "Child", without_runtime)
    filling = of_ids(tmp_path, nodes, **values)
    assert (filling.least, filling.most) == bounds
    assert filling.values.endswith("(no run confirmed it)")


def test_the_largest_index_that_runs_is_found_where_the_graph_does_not_show_it(tmp_path: Path) -> None:
    nodes = [node("Mul", "ids ids", "t"), node("Gather", "table t", "y")]
    workload = network(tmp_path, nodes, {"ids": (6,)}, {"table": np.ones((1000, 8), np.float32)}, ids=INT)
    assert (filled(workload)["ids"].least, filled(workload)["ids"].most) == (0, 31)


def test_floats_that_are_indices_are_whole_numbers_within_their_table(tmp_path: Path) -> None:
    nodes = [node("Cast", "ids", "t", to=INT), node("Gather", "table t", "y")]
    workload = network(tmp_path, nodes, {"ids": (4, 6)}, {"table": np.ones((43, 8), np.float32)})
    assert (filled(workload)["ids"].least, filled(workload)["ids"].most) == (0, 42)


def test_indices_are_followed_into_the_body_of_control_flow(tmp_path: Path) -> None:
    then, other = (
        helper.make_graph([node("Gather", "table ids", name)], name, [], [helper.make_tensor_value_info(name, 1, None)])
        for name in ("a", "b")
    )
    nodes = [node("If", "yes", "y", then_branch=then, else_branch=other)]
    assert of_ids(tmp_path, nodes, yes=np.array(True)).most == 999


def loop(folder: Path, *before: onnx.NodeProto, trips: str = "n", **values: Any) -> Workload:
    body = helper.make_graph(
        [node("Identity", "go", "again"), node("Relu", "s", "t")],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, None),
        ],
    )
    nodes = [*before, node("Loop", f"{trips} yes x", "y", body=body, name="steps")]
    return network(folder, nodes, {"n": (), "yes": (), "x": (1, 4)}, values, n=INT, yes=TensorProto.BOOL)


@pytest.mark.parametrize("before", [[], [node("Min", "n most", "m")], [node("Mul", "n n", "m")]])
def test_a_trip_count_is_never_made_up(tmp_path: Path, before: list[onnx.NodeProto]) -> None:
    workload = loop(tmp_path, *before, trips="m" if before else "n", most=np.array(20))
    with pytest.raises(InputError, match=r"input 'n' decides how much is computed \(Loop 'steps'\)") as refused:
        network_values(workload, {})
    assert "--inputs FILE.npz" in refused.value.hint


def test_sequences_have_their_full_length(tmp_path: Path) -> None:
    nodes = [node("LSTM", "x w r _ lens", "y", hidden_size=4)]
    values = {"w": np.ones((1, 16, 3), np.float32), "r": np.ones((1, 16, 4), np.float32)}
    workload = network(tmp_path, nodes, {"x": (50, 2, 3), "lens": (2,)}, values, lens=TensorProto.INT32)
    assert fed(workload)["lens"].tolist() == [50, 50]
    assert filled(workload)["lens"].values == "50, the whole sequence"


@pytest.mark.parametrize(
    "nodes",
    [
        [node("TopK", "x k", "y i")],
        [node("Cast", "k", "c", to=TensorProto.INT64), node("TopK", "x c", "y i")],
        [node("Range", "zero last one", "r"), node("Cast", "r", "y", to=TensorProto.FLOAT)],
        [node("ConstantOfShape", "k", "y")],
        [node("Slice", "x zeros k", "y")],
        [node("Reshape", "x k", "y")],
        [node("ReduceSum", "x k", "y")],
    ],
)
def test_a_size_is_never_made_up(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    name = "last" if nodes[0].op_type == "Range" else "k"
    values = {"zero": np.array(0), "one": np.array(1), "zeros": np.array([0])}
    shape = () if name == "last" else (1,)
    with pytest.raises(InputError, match=f"input '{name}'"):
        network_values(network(tmp_path, nodes, {"x": (8, 8), name: shape}, values, **{name: INT}), {})


def test_a_float_that_is_a_size_is_never_made_up(tmp_path: Path) -> None:
    nodes = [node("Cast", "scale", "k", to=INT), node("Add", "k one", "n"), node("Reshape", "n flat", "m"),
             node("TopK", "x m", "y i")]  # fmt: skip
    workload = network(tmp_path, nodes, {"x": (1, 8), "scale": ()}, {"one": np.array(1), "flat": np.array([1])})
    with pytest.raises(InputError, match="input 'scale' decides how much is computed"):
        network_values(workload, {})


def switch(folder: Path, *before: onnx.NodeProto, **values: Any) -> Workload:
    then, other = (
        helper.make_graph([node(op, "x", op)], op, [], [helper.make_tensor_value_info(op, 1, None)])
        for op in ("Exp", "Neg")
    )
    nodes = [*before, node("If", "is", "y", then_branch=then, else_branch=other)]
    return network(folder, nodes, {"x": (1, 4), "rate": ()}, values, rate=INT)


def test_a_number_that_selects_a_branch_is_what_it_is_compared_with(tmp_path: Path) -> None:
    compared = [node("Equal", "rate k", "not"), node("Not", "not", "is")]
    workload = switch(tmp_path, *compared, k=np.array(16000))
    assert (fed(workload)["rate"], filled(workload)["rate"].values) == (16000, "16000, with which it is compared")


@pytest.mark.parametrize("nodes", [[node("Greater", "rate k", "is")], [node("Less", "rate k", "is")]])
def test_a_number_that_selects_a_branch_otherwise_is_refused(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    with pytest.raises(InputError, match=r"input 'rate' decides how much is computed \(If 'y'\)"):
        network_values(switch(tmp_path, *nodes, k=np.array(2)), {})


def test_a_prepared_network_is_fed_the_same(tmp_path: Path) -> None:
    compared = [node("Equal", "rate k", "not"), node("Not", "not", "is")]
    workload = switch(tmp_path, *compared, k=np.array(16000))
    prepared = write_external(workload, tmp_path, batch_size=1, dimensions={})
    assert random_inputs(prepared, seed=0)["rate"] == 16000
    workload = network(tmp_path, [node("TopK", "x k", "y i")], {"x": (8, 8), "k": (1,)}, {}, k=INT)
    prepared = write_external(workload, tmp_path, batch_size=1, dimensions={})
    with pytest.raises(InputError, match="input 'k'"):
        random_inputs(prepared, seed=0)


def test_a_network_alone_is_fed_what_its_graph_shows() -> None:
    proto = model([node("Gather", "table ids", "y")], {"ids": (4, 6)}, {"table": (1000, 8)})
    proto.graph.input[0].type.tensor_type.elem_type = INT
    assert random_inputs(fix_dimensions(proto, batch_size=1), seed=0)["ids"].max() > 500


def test_samples_of_a_file_lie_along_the_batch_axis(tmp_path: Any) -> None:
    proto = fix_dimensions(
        model([node("Relu", "x", "y")], {"x": (3, 1)}), batch_size=4, batch=Batch((("x", 1),), 1, "", "kept")
    )
    np.savez(tmp_path / "in.npz", x=np.array([[1, 2], [3, 4], [5, 6]], np.float32))
    fed = read_inputs(str(tmp_path / "in.npz"), proto, 4, {"x": 1})
    assert fed["x"].tolist() == [[1, 2, 1, 2], [3, 4, 3, 4], [5, 6, 5, 6]]

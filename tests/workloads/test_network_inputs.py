"""What a network is fed where nobody gives it: within its tables, as long as its sequences, never a size by chance.

A decoder exported to ONNX with a key-value cache: prefill on an empty one, decoding on a full one.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import OpsTable
from edgetune.errors import DeviceError, InputError
from edgetune.workloads import observed
from edgetune.workloads.network_inputs import feeds, fillings, random_inputs
from edgetune.workloads.onnx_file import fix_dimensions, fixed_model, network_values
from edgetune.workloads.partition.prepare import write_external
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import InputValues, Workload

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


def filled(workload: Workload) -> dict[str, InputValues]:
    found = fillings(fixed_model(workload, 1, {}, weights=False), network_values(workload, {}))
    return {name: values for name, values in found.items() if values is not None}


def fed(workload: Workload, seed: int = 3) -> dict[str, Any]:
    return feeds(workload, fixed_model(workload, 1, {}, weights=False), 1, {}, inputs_file=None, seed=seed)


def of_ids(folder: Path, nodes: list[onnx.NodeProto], **values: Any) -> InputValues:
    values = {"table": np.ones((1000, 8), np.float32), **values}
    workload = network(folder, nodes, {"ids": (4, 6)}, values, ids=INT)
    filling, drawn = filled(workload)["ids"], fed(workload)["ids"]
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
    assert filling.words.endswith("(no run confirmed it)")


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
    assert filled(workload)["lens"].words == "50, the whole sequence"


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
    assert (fed(workload)["rate"], filled(workload)["rate"].words) == (16000, "16000, with which it is compared")


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


VOCAB, HIDDEN, HEADS, SIZE = 100, 32, 4, 8
D = 2


def exported(*, fused: bool) -> onnx.ModelProto:
    """One layer as exporters write it: a cache in and out, a mask of past and new, attention as nodes or as one."""
    past = ["batch", HEADS, "past_sequence_length", SIZE]
    inputs = {"ids": ["batch", "sequence_length"], "mask": ["batch", "past_sequence_length + sequence_length"]}
    inputs |= {"past_key_values.0.key": past, "past_key_values.0.value": past}
    nodes = [node("Gather", "table ids", "h")]
    for part in "qkv":
        nodes += [
            node("MatMul", f"h w{part}", f"{part}1", name=f"{part}_proj"),
            node("Reshape", f"{part}1 split", f"{part}2"),
            node("Transpose", f"{part}2", part, perm=[0, 2, 1, 3]),
        ]
    if fused:
        attention = node(
            "Attention", "q k v _ past_key_values.0.key past_key_values.0.value", "mixed present.0.key present.0.value",
            is_causal=1, name="attention",
        )  # fmt: skip
        nodes.append(attention)
    else:
        nodes += [
            node("Concat", "past_key_values.0.key k", "present.0.key", axis=2, name="grow_key"),
            node("Concat", "past_key_values.0.value v", "present.0.value", axis=2, name="grow_value"),
            node("Transpose", "present.0.key", "turned", perm=[0, 1, 3, 2]),
            node("MatMul", "q turned", "scores", name="scores"),
            node("Softmax", "scores", "weights", axis=-1),
            node("MatMul", "weights present.0.value", "mixed", name="mix"),
        ]
    nodes += [
        node("Transpose", "mixed", "m2", perm=[0, 2, 1, 3]),
        node("Reshape", "m2 join", "m3"),
        node("MatMul", "m3 wo", "attended", name="o_proj"),
        node("Add", "h attended", "h2"),
        node("MatMul", "h2 head", "logits", name="head"),
        node("Cast", "mask", "seen", to=TensorProto.FLOAT),
    ]
    weights = {"table": (VOCAB, HIDDEN), "head": (HIDDEN, VOCAB)} | {f"w{p}": (HIDDEN, HIDDEN) for p in "qkvo"}
    values = {"split": [0, 0, HEADS, SIZE], "join": [0, 0, HIDDEN]}
    outputs = ["logits", "present.0.key", "present.0.value", "seen"]
    proto = model(nodes, inputs, weights, values, outputs=outputs, opset=23)
    for value in proto.graph.input[:2]:
        value.type.tensor_type.elem_type = TensorProto.INT64
    return proto


def table(fused: bool, new: int, past: int, batch_size: int = 2) -> OpsTable:
    sizes = {"sequence_length": new, "past_sequence_length": past}
    return model_table(exported(fused=fused), "net", "infer", batch_size, precision="fp16", dimensions=sizes)


def products(new: int, pairs: int, n: int = 2) -> int:
    return n * (new * (4 * HIDDEN * HIDDEN + HIDDEN * VOCAB) + 2 * HEADS * SIZE * pairs)


@pytest.mark.parametrize(("new", "past"), [(6, 0), (1, 50), (3, 50)])
def test_products_written_as_nodes_are_all_queries_by_all_keys(new: int, past: int) -> None:
    assert table(False, new, past).macs == products(new, new * (past + new))


@pytest.mark.parametrize(("new", "past"), [(6, 0), (1, 50), (3, 50)])
def test_attention_as_one_operator_leaves_out_what_is_masked(new: int, past: int) -> None:
    assert table(True, new, past).macs == products(new, new * past + new * (new + 1) // 2)


def test_the_tokens_of_a_run_are_in_the_header() -> None:
    assert table(True, 6, 0).header.conditions["tokens"] == 12
    assert table(False, 1, 50).header.conditions["tokens"] == 2
    plain = model([node("Relu", "x", "y")], {"x": ("batch", 4)})
    assert "tokens" not in model_table(plain, "net", "infer", 2).header.conditions


def test_an_open_length_is_named_and_only_a_cache_may_be_empty() -> None:
    with pytest.raises(InputError, match="'sequence_length'") as caught:
        model_table(exported(fused=True), "net", "infer", 1)
    assert "--dim sequence_length=128" in caught.value.hint
    with pytest.raises(InputError, match="'sequence_length' must be at least 1"):
        table(True, 0, 5)


def test_the_exported_decoder_runs_as_costed() -> None:
    ort = pytest.importorskip("onnxruntime")
    from edgetune.workloads.onnx_file import fix_dimensions

    proto = exported(fused=False)
    proto.opset_import[0].version = 17
    for weight in proto.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            weight.float_data.extend([0.0] * int(np.prod(weight.dims)))
    fixed = fix_dimensions(proto, batch_size=2, dimensions={"sequence_length": 6, "past_sequence_length": 0})
    session = ort.InferenceSession(fixed.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {i.name: np.zeros(i.shape, np.int64 if "int64" in i.type else np.float32) for i in session.get_inputs()}
    logits, key, *_ = session.run(None, feeds)
    assert (logits.shape, key.shape) == ((2, 6, VOCAB), (2, HEADS, 6, SIZE))

"""A decoder exported to ONNX with a key-value cache: prefill on an empty one, decoding on a full one."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import OpsTable
from edgetune.errors import InputError

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


def test_a_cache_grown_by_joining_is_copied_and_one_grown_in_place_is_not() -> None:
    rows = {row.name: row for row in table(False, 1, 50).rows}
    kept = D * 2 * HEADS * SIZE  # one key of two sequences
    assert (rows["grow_key"].bytes_read, rows["grow_key"].bytes_written) == (51 * kept, 51 * kept)
    (row,) = (row for row in table(True, 1, 50).rows if row.name == "attention")
    assert (row.bytes_read, row.bytes_written) == (3 * kept + 2 * 50 * kept, kept + 2 * kept)


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


def test_grouped_heads_repeated_by_the_exporter_are_the_copies_that_they_are() -> None:
    nodes = [
        node("Unsqueeze", "k axis", "u"),
        node("Expand", "u shape", "e", name="repeat"),
        node("Reshape", "e flat", "y"),
    ]
    values = {"axis": [2], "shape": [1, 1, 4, 1, 1], "flat": [0, 8, -1, 8]}
    proto = model(nodes, {"k": ["batch", 2, "past", 8]}, values=values)
    rows = {row.name: row for row in model_table(proto, "t", "infer", 1, dimensions={"past": 16}).rows}
    assert (rows["repeat"].bytes_read, rows["repeat"].bytes_written) == (4 * 2 * 16 * 8, 4 * 4 * 2 * 16 * 8)

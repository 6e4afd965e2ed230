"""The eager view: parts of attention, activations and recurrent layers as kernels of their own."""

import pytest
from onnx_graphs import model, model_table, node

from edgetune.artifacts.ops import OpsTable
from edgetune.errors import InputError
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

D, N = 4, 2


def both(nodes, inputs, weights=None, opset=24) -> tuple[OpsTable, OpsTable]:
    proto = model(nodes, inputs, weights, opset=opset)
    whole, eager = (model_table(proto, "t", "infer", N, view=view) for view in (None, "eager"))
    assert [row.name for row in whole.rows] == [row.name for row in eager.rows]
    assert whole.flops == eager.flops
    assert eager.header.conditions["unfused"]["bytes_moved"] == whole.bytes_moved
    return whole, eager


@pytest.mark.parametrize(
    ("op", "more", "kernels"), [("Gelu", 9, 5), ("Swish", 3, 2), ("HardSwish", 3, 2), ("Mish", 5, 3), ("Relu", 0, 1)]
)
def test_an_activation_of_several_kernels_passes_its_tensor_between_them(op: str, more: int, kernels: int) -> None:
    whole, eager = both([node(op, "x", "y")], {"x": ("batch", 100)})
    assert eager.bytes_moved - whole.bytes_moved == more * D * N * 100
    assert eager.rows[0].kernels == kernels


@pytest.mark.parametrize("masked", [False, True])
def test_the_scores_of_attention_go_to_memory(masked: bool) -> None:
    heads, tokens, size = 3, 16, 8
    shape = ("batch", heads, tokens, size)
    inputs = {"q": shape, "k": shape, "v": shape} | ({"m": (tokens, tokens)} if masked else {})
    whole, eager = both([node("Attention", "q k v m" if masked else "q k v", "y")], inputs)
    steps = 3 + masked  # product, scale, (mask,) softmax: each written, and read by the next
    assert eager.bytes_moved - whole.bytes_moved == 2 * steps * D * N * heads * tokens**2
    assert eager.rows[0].kernels == 1 + steps


def test_each_gate_of_an_lstm_goes_to_memory() -> None:
    steps, inputs, units = 5, 6, 7
    weights = {"w": (1, 4 * units, inputs), "r": (1, 4 * units, units), "b": (1, 8 * units)}
    whole, eager = both([node("LSTM", "x w r b", "y", hidden_size=units)], {"x": (steps, "batch", inputs)}, weights, 14)
    # per step: the product written; read and joined; two biases; activated; then five kernels of the state
    reads = 4 + 2 * 4 + 4 + (2 + 2 + 2 + 1 + 2)
    writes = 4 + 4 + 2 * 4 + 4 + (5 - 1)
    assert eager.bytes_moved - whole.bytes_moved == (reads + writes) * D * steps * N * units
    assert eager.rows[0].kernels - whole.rows[0].kernels == steps * (2 + 4 + 5)


def test_berts_bytes_beside_the_study() -> None:
    """Pagoda (2025): 89.999925 GB at batch 64. It reads the constants of GELU as whole tensors, three passes more."""
    bert = resolve("zoo:bert_large")
    whole, eager = (operator_table(bert, "infer", 64, eager=flag) for flag in (False, True))
    assert whole.bytes_moved == pytest.approx(53.1e9, rel=0.002)
    constants = 3 * sum(row.bytes_written // 5 for row in eager.rows if row.op == "Gelu")
    assert eager.bytes_moved + constants == pytest.approx(89.999925e9, rel=0.03)


def test_a_view_joins_or_takes_apart() -> None:
    bert = resolve("zoo:bert_base")
    with pytest.raises(InputError, match="--fused"):
        operator_table(bert, "infer", 1, fused=True, eager=True)
    with pytest.raises(InputError, match="--eager is of inference"):
        operator_table(bert, "train", 1, eager=True)

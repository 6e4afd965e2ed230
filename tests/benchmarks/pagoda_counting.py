"""FLOP and bytes counted as Pagoda (2025) counts them, so that what differs from our counts has its reason beside it.

The rules are those of its published estimator (github.com/dream-lab/pagoda, src/analytical_model, read for its
definitions); each was found to be that of the printed tables by arithmetic: the totals come out to 0.1 % or exactly.
"""

from __future__ import annotations

from math import prod

from edgetune.artifacts.ops import OpRow, OpsTable

SAME = ("Relu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Softmax", "Erf", "MaxPool", "AveragePool",
        "GlobalAveragePool", "Transpose", "Concat")  # fmt: skip
"""Operators that both count alike: what is read and what is written, once."""

GELU_PASSES = 3 + 2 + 3 + 3 + 3
"""GELU as exported: division, error function, addition and two products, each with two operands read in full but the
error function's one."""
SILU_PASSES = 2 + 3
"""SiLU as exported: sigmoid, then a product."""

REASONS = {
    "BatchNormalization": "normalisation is folded into convolutions",
    "LayerNormalization": "LayerNormalization is not counted",
    "Gelu": "GELU is five nodes, not one",
    "Silu": "SiLU is a sigmoid and a product, not one node",
    "MatMul": "of a product of two activations the second operand is read once, not per sample and head",
    "Add": "both operands of a sum are read in full, a broadcast one too",
    "Div": "both operands of a division are read in full, a scalar too",
    "Mul": "both operands of a product are read in full, a broadcast one too",
    "Gather": "lookups are not counted",
    "Split": "splitting is not counted",
    "Resize": "resizing is not counted",
    "Gemm": "biases are not read",
}
WORTH = 0.01
"""Share of the bytes from which a reason is told."""


def bytes_there(table: OpsTable, *, norms: bool) -> int:
    """Return the bytes of a table by their rules; ``norms`` says whether BatchNormalization is a layer of its own."""
    return sum(_row_there(row, norms=norms) for row in table.rows)


def reasons(table: OpsTable, *, norms: bool) -> str:
    """Return what makes the difference, in shares of their bytes."""
    theirs, more = bytes_there(table, norms=norms), dict.fromkeys(REASONS, 0)
    for row in table.rows:
        if row.op in more:
            more[row.op] += _row_there(row, norms=norms) - row.bytes_read - row.bytes_written
    told = [f"{REASONS[op]} ({found / theirs:+.1%})" for op, found in more.items() if abs(found) >= WORTH * theirs]
    return "; ".join(told) or "same definition"


def _row_there(row: OpRow, *, norms: bool) -> int:
    """Return the bytes of one operator by their rules; operators that their estimator does not know count nothing."""
    ours, out = row.bytes_read + row.bytes_written, row.bytes_written
    if row.op in SAME:
        return ours
    if row.op in ("Conv", "Gemm"):
        return ours - (4 * _elements(row.inputs[2]) if len(row.inputs) > 2 else 0)
    if row.op == "BatchNormalization":
        return 2 * out + 8 * int(row.inputs[0].split("x")[1]) if norms else 0
    if row.op == "MatMul":
        inner, columns = int(row.inputs[0].split("x")[-1]), int(row.inputs[1].split("x")[-1])
        return 4 * (_elements(row.inputs[0]) + inner * columns) + out
    if row.op in ("Flatten", "Identity"):
        return 2 * 4 * _elements(row.inputs[0])
    passes = {"Add": 3, "Sub": 3, "Mul": 3, "Div": 3, "Gelu": GELU_PASSES, "Silu": SILU_PASSES}
    return passes.get(row.op, 0) * out


def _elements(shape: str) -> int:
    return prod(map(int, shape.split("x")))


# Their LSTM, which is not the zoo's: the notebook that exports it has 29,423 words, 256 wide, in two layers, with
# embedding and decoder tied, which makes the 8.6 M parameters of their paper.

WORDS, WIDE, LAYERS = 29_423, 256, 2
_STATES = 12_288
"""Bytes per sample of the transposes around it: six times a state of 256 words read and written."""


def lstm_there(batch_size: int, *, decoded: int) -> tuple[int, int]:
    """Return FLOP and bytes of their analytical tables: a decoder of ``decoded`` words of every sample, and in front of
    it LSTM layers of 8 steps of one sample whatever the batch size, a multiply-accumulate being one FLOP there."""
    flops, moved = _decoder(batch_size, decoded)
    of_layer = 4 * 2 * WIDE * WIDE
    gates = 4 + 3 * 4 + 5 + 3  # additions, three sigmoids of 4, a tanh of 5, three products
    flops += LAYERS * (of_layer * 8 + WIDE * 8 * gates)
    moved += LAYERS * 4 * (of_layer + 2 * 8 * WIDE + 2 * WIDE) + batch_size * _STATES
    return flops, moved


def lstm_beside_counters(batch_size: int) -> tuple[int, int]:
    """Return FLOP and bytes of the estimate that table 3 prints: one word of every sample decoded, behind LSTM layers
    of 32 steps of one sample, whose recurrent weights are read at each step and whose gates are counted four times."""
    flops, moved = _decoder(batch_size, 1)
    gates = 4 * 4 + 3 * 4 + 5 + 3 + 1
    flops += LAYERS * (4 * 2 * 4 * 2 * WIDE * WIDE * 32 + WIDE * 32 * gates)
    weights = WIDE * WIDE + WIDE + 32 * (WIDE * WIDE + WIDE)
    moved += LAYERS * 4 * (4 * weights + 4 * 32 * WIDE)
    return flops, moved


def _decoder(batch_size: int, words: int) -> tuple[int, int]:
    return 2 * WIDE * WORDS * words * batch_size, 4 * (WIDE * WORDS + batch_size * words * (WIDE + WORDS))

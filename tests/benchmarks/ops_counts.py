"""Operator costs beside published ones: products as torchvision has them, FLOP and bytes as Pagoda (2025) has them.

    python tests/benchmarks/ops_counts.py --data FOLDER

FOLDER holds torchvision/ops.csv and pagoda/analytical_flops_mem.csv. What differs from Pagoda's bytes has its reason
beside it: its own rules are those of its published estimator (github.com/dream-lab/pagoda, src/analytical_model, read
for its definitions), and by them our tables have its bytes, to 0.2 %.
"""

import argparse
import csv
from collections.abc import Sequence
from math import prod
from pathlib import Path

from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

TORCHVISION = {
    "MobileNet_V3_Large": "mobilenet_v3_large",
    "MobileNet_V2": "mobilenet_v2",
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
    "AlexNet": "alexnet",
    "SqueezeNet1_0": "squeezenet",
}
PAGODA = {"mobnet": "mobilenet_v3_large", "resnet50": "resnet50", "yolov8n": "yolov8n", "bert-large": "bert_large"}

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


def _decoder(batch_size: int, words: int) -> tuple[int, int]:
    return 2 * WIDE * WORDS * words * batch_size, 4 * (WIDE * WORDS + batch_size * words * (WIDE + WORDS))


def table_of(name: str, batch_size: int, *, eager: bool = False) -> OpsTable:
    """Return the operator table of a network of the zoo."""
    return operator_table(resolve(f"zoo:{name}"), "infer", batch_size, eager=eager)


def ratio(ours: float, theirs: float) -> str:
    """Return a ratio as it is printed."""
    return f"{ours / theirs:.3f}"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table with columns as wide as they need."""
    print(f"\n{title}")
    lines = [columns, *rows]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def against_torchvision(data: Path) -> None:
    """MACs and parameters of every network in both: within 1 %, or it says so."""
    rows, seen = [], set()
    with (data / "torchvision/ops.csv").open() as file:
        for line in csv.DictReader(file):
            name = TORCHVISION.get(line["model"])
            if name is None or name in seen:
                continue
            seen.add(name)
            table, published = table_of(name, 1), float(line["gmacs_ops"])
            off = table.macs / 1e9 / published - 1
            parameters = table.parameters - int(line["num_params"]) if line["num_params"] else "not printed there"
            said = "within 1 %" if abs(off) <= 0.01 else "NOT within 1 %"
            rows.append((name, f"{table.macs / 1e9:.4f}", published, f"{off:+.2%}", said, parameters))
    show("torchvision: GMAC of one image", ("network", "ours", "published", "off", "", "parameters more"), rows)


def against_pagoda(data: Path) -> None:
    """Print FLOP and bytes beside the analytical table at batch 1 and 64; its LSTM, not the zoo's, by its rules."""
    rows = []
    with (data / "pagoda/analytical_flops_mem.csv").open() as file:
        for line in csv.DictReader(file):
            batch_size, flops, moved = int(line["bs"]), int(line["flops"]), int(line["mem_acc"])
            if batch_size not in (1, 64):
                continue
            if line["model"] == "lstm":
                by_rules = lstm_there(batch_size, decoded=8)
                why = f"not the zoo's; FLOP by their rules: {ratio(by_rules[0], flops)}"
                rows.append(("their LSTM", batch_size, "-", "-", "-", ratio(by_rules[1], moved), why))
                continue
            name = PAGODA[line["model"]]
            table, parts = table_of(name, batch_size), table_of(name, batch_size, eager=True)
            ours = ratio(table.flops, flops), ratio(table.bytes_moved, moved), ratio(parts.bytes_moved, moved)
            told = ratio(bytes_there(table, norms=False), moved), reasons(table, norms=False)
            rows.append((name, batch_size, *ours, *told))
    columns = ("network", "batch", "FLOP, ours/theirs", "bytes", "eager", "bytes by their rules", "what differs")
    show("Pagoda's analytical table", columns, rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with torchvision/ and pagoda/")
    given = parser.parse_args()
    against_torchvision(given.data)
    against_pagoda(given.data)


if __name__ == "__main__":
    main()

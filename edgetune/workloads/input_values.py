"""Values of a network's inputs as far as its graph shows them: indices into tables, and lengths of sequences.

    ids  --Cast--> Gather(table [1000, 64])     an index: at most 999
    lens ---------> LSTM, sequence_lens         a length: the whole sequence

Runs confirm them and decide the others, see ``value_runs``. Where the network cannot run, these are its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.workloads import shapes
from edgetune.workloads.dimensions import input_specs
from edgetune.workloads.graphs import nested_bodies, nested_nodes
from edgetune.workloads.lazy import np, onnx
from edgetune.workloads.workload import InputValues


@dataclass(frozen=True, slots=True)
class InputUse:
    """A use of a tensor as an index or a length.

    Args:
        most: Its largest value; for a length the whole sequence.
        where: The table or the sequence, in words.
        is_length: Whether it is a length.
    """

    most: int
    where: str
    is_length: bool = False


_TABLES: Mapping[str, tuple[tuple[int, int], ...]] = {
    **dict.fromkeys(("Gather", "GatherElements", "ScatterElements"), ((1, 0),)),
    "EmbedLayerNormalization": ((0, 2), (1, 4)),
}
"""Operands that are indices, and the operand that they index."""
_COPIES = (
    "Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Tile", "Slice", "Split",
    "Gather", "GatherElements",
)  # fmt: skip
_JOINS = ("Concat", "Where")
_ARITHMETIC = ("Add", "Sub", "Mul", "Clip", "Min", "Max")
"""Operators with a constant, before which the largest value is another: runs find it."""
_RECURRENT = ("LSTM", "GRU", "RNN")
FROM_FILE = "give it with --inputs FILE.npz"
"""The hint of an input that cannot be generated."""
_LENGTHS = 4
"""Operand of a recurrent operator that holds the length of each sequence."""


def uses(model: onnx.ModelProto) -> dict[str, InputUse]:
    """Return the tensors that are indices or lengths, or become such by copies and arithmetic with constants.

    Args:
        model: The model with the shapes of its tensors.
    """
    known, constants = shapes.known_shapes(model.graph), shapes.small_constants(model.graph)
    weights = {weight.name for weight in model.graph.initializer} | {*constants}
    weights |= {weight.name for body in nested_bodies(model.graph.node) for weight in body.initializer}
    found: dict[str, InputUse] = {}

    def add(name: str, use: InputUse) -> None:
        if name and name not in weights and (name not in found or use.most < found[name].most):
            found[name] = use

    nodes = [*nested_nodes(model.graph.node)]
    for node in [*reversed(nodes), *reversed(nodes)]:  # bodies stand behind the nodes whose tensors they read
        op, operands = node.op_type, node.input
        for index, table in _TABLES.get(op, ()):
            axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 0)
            rows = known.get(operands[table], ())[axis:][:1]
            if rows and rows[0]:
                add(operands[index], InputUse(rows[0] - 1, f"the rows of {operands[table]!r}"))
        if op == "OneHot" and operands[1] in constants:
            add(operands[0], InputUse(int(np.ravel(constants[operands[1]])[0]) - 1, f"the depth of {op} {node.name!r}"))
        if op in _RECURRENT and len(operands) > _LENGTHS and len(known.get(operands[0], ())) == 3:
            first = any(a.name == "layout" and a.i for a in node.attribute)
            add(operands[_LENGTHS], InputUse(known[operands[0]][int(first)], "the whole sequence", is_length=True))
        use = next((found[name] for name in node.output if name in found), None)
        if use is None:
            continue
        if op in _COPIES:
            add(operands[0], use)
        elif op in _JOINS:
            for name in operands[op == "Where" :]:
                add(name, use)
        elif op in _ARITHMETIC and len(varying := [name for name in operands if name and name not in weights]) == 1:
            add(varying[0], use)
    return found


def static_values(model: onnx.ModelProto) -> tuple[InputValues, ...]:
    """Return the values of each input that is no plain float: what the graph shows, and otherwise 1 or true.

    Args:
        model: The model with fixed dimensions and the shapes of its tensors.
    """
    used, found = uses(model), []
    for name, _, dtype in input_specs(model):
        kind, use = np.dtype(dtype).kind, used.get(name)
        if use is not None and (kind in "iu" or (kind == "f" and not use.is_length)):
            found.append(of_use(name, use, use.most))
        elif kind in "biu":
            found.append(constant(name, 1, "true" if kind == "b" else ""))
    return tuple(found)


def of_use(name: str, use: InputUse, most: int) -> InputValues:
    """Return the values of an index, or of a length, of at most ``most``."""
    if use.is_length:
        return constant(name, most, f"{most}, {use.where}")
    return InputValues(name, f"whole numbers from 0 to {most}, {use.where}", 0, most)


def constant(name: str, value: int, words: str = "") -> InputValues:
    """Return one value for every element."""
    return InputValues(name, words or f"{value}", value, value)


def needs_runs(model: onnx.ModelProto) -> bool:
    """Return whether runs decide values: those of whole numbers, and of floats that may be a size."""
    floats = [len(shape) > 1 and np.dtype(dtype).kind == "f" for _, shape, dtype in input_specs(model)]
    return not all(floats) or bool(static_values(model))

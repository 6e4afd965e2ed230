"""Uses of a network's integer inputs in its graph: indices into tables, lengths, trip counts, sizes, masks.

    ids  --Add 2--> Gather(table [1000, 64])    an index: from 0 to 997
    lens ---------> LSTM, sequence_lens         a length: the whole sequence
    n    --Min 20-> Loop, trip count            a count: 20, the most that the graph allows
    k    ---------> TopK, k                     a size: the user must give it

An integer is followed through operators that copy it, add to it or multiply it, also into bodies of control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgetune.workloads import shapes
from edgetune.workloads.graphs import bodies, captured
from edgetune.workloads.lazy import np, onnx

Role = Literal["index", "length", "trips", "condition", "choice", "size", "other"]
"""A condition is the input itself; a choice is computed from it, and its ``most`` is the value of a comparison."""


@dataclass(frozen=True, slots=True)
class InputUse:
    """One use of an integer input.

    Args:
        role: Kind of use.
        where: The table or the operator, in words.
        least, most: Bounds of the input's values; ``None`` if the graph does not determine them.
    """

    role: Role
    where: str
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class _Number:
    """A tensor computed from the input: ``min(factor * value + offset, cap)``; unknown if ``factor`` is ``None``.

    ``equal`` is the input value at which a comparison with a constant is true, if the tensor follows from one.
    """

    factor: int | None = 1
    offset: int = 0
    cap: int | None = None
    equal: int | None = None

    def value_at(self, wanted: int) -> int | None:
        """Return the largest input value for which the tensor is at most ``wanted``; ``None`` if unknown."""
        return None if self.factor is None else (wanted - self.offset) // self.factor


_HANDED_ON: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Tile", "Slice"), (0,)
    ),
    **dict.fromkeys(("Split", "Gather", "GatherElements", "GatherND"), (0,)),
    "Concat": tuple(range(64)),
    "Where": (1, 2),
}
"""Operands whose values the operator outputs unchanged."""
_INDICES: Mapping[str, tuple[tuple[int, int, int | None], ...]] = {
    **dict.fromkeys(("Gather", "GatherElements", "ScatterElements"), ((1, 0, None),)),
    "EmbedLayerNormalization": ((0, 2, 0), (1, 4, 0)),
}
"""Operands that are indices, the operand that they index, and its axis; ``None`` for the axis in an attribute."""
_SIZES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Reshape", "Expand", "Tile", "TopK", "Pad", "OneHot", "Split", "Squeeze", "Unsqueeze"), (1,)),
    "ConstantOfShape": (0,),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
    "Resize": (2, 3),
    "NonMaxSuppression": (2,),
}
"""Operands that determine the size of a result."""
_RECURRENT = ("LSTM", "GRU", "RNN")
_LENGTHS = 4
"""Operand of a recurrent operator that holds the length of each sequence."""


def uses(model: onnx.ModelProto, name: str) -> list[InputUse]:
    """Return the uses of an integer or boolean input.

    Args:
        model: The model with the shapes of its tensors.
        name: Name of the input.
    """
    follower = _Follower(shapes.known_shapes(model.graph), shapes.small_constants(model.graph))
    follower.walk(model.graph, {name: _Number()})
    return follower.found


@dataclass(slots=True)
class _Follower:
    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, Any]
    found: list[InputUse] = field(default_factory=list)

    def walk(self, graph: onnx.GraphProto, known: Mapping[str, _Number]) -> None:
        """Follow the tensors of ``known`` through the nodes of a graph, which are in topological order."""
        numbers = dict(known)
        for node in graph.node:
            for body in bodies(node):
                self.walk(body, self._inside(node, body, numbers))
            for index, name in enumerate(node.input):
                if name in numbers and node.op_type not in ("Shape", "Size"):
                    result = self._read(node, index, numbers[name])
                    if result is not None:
                        numbers.update((output, result) for output in node.output if output)

    def _inside(
        self, node: onnx.NodeProto, graph: onnx.GraphProto, numbers: Mapping[str, _Number]
    ) -> dict[str, _Number]:
        """Return the numbers that a body of a control-flow operator reads, under the body's names."""
        seen = {name: numbers[name] for name in captured(graph) if name in numbers}
        first = 2 if node.op_type == "Loop" else 0
        for outer, inner in zip(node.input[first:], graph.input[first:], strict=False):
            if outer in numbers:
                seen[inner.name] = numbers[outer] if node.op_type == "Scan" else replace(numbers[outer], factor=None)
        return seen

    def _read(self, node: onnx.NodeProto, index: int, number: _Number) -> _Number | None:
        """Record the use of a number by a node; return the resulting number, ``None`` if there is none."""
        if index in _HANDED_ON.get(node.op_type, ()):
            return number
        if self._ends(node, index, number):
            return None
        result = self._arithmetic(node, index, number)
        if result.factor is None:
            self.found.append(InputUse("other", _words(node)))
        return result

    def _ends(self, node: onnx.NodeProto, index: int, number: _Number) -> bool:
        """Record an index, a length, a trip count, a condition or a size; return whether the operand is one."""
        op, words = node.op_type, _words(node)
        table = next((each for each in _INDICES.get(op, ()) if each[0] == index), None)
        if table is not None:
            self._index(node, number, *table[1:])
        elif op == "OneHot" and index == 0 and node.input[1] in self.constants:
            self._bound(number, int(self.constants[node.input[1]].ravel()[0]), f"the depth of {words}")
        elif op == "Loop" and index == 0:
            self.found.append(
                InputUse("trips", words, most=None if number.cap is None else number.value_at(number.cap))
            )
        elif (op, index) in (("Loop", 1), ("If", 0)):
            self.found.append(InputUse("condition" if number.factor else "choice", words, most=number.equal))
        elif op in _RECURRENT and index == _LENGTHS:
            self.found.append(InputUse("length", words, most=self._time(node, number)))
        elif number.factor is not None and index in _SIZES.get(op, ()):
            self.found.append(InputUse("size", words))
        else:
            return False
        return True

    def _index(self, node: onnx.NodeProto, number: _Number, table: int, axis: int | None) -> None:
        shape = self.shapes.get(node.input[table])
        along = next((int(a.i) for a in node.attribute if a.name == "axis"), 0) if axis is None else axis
        if shape is None or not -len(shape) <= along < len(shape):
            self.found.append(InputUse("other", _words(node)))
        else:
            self._bound(number, shape[along], f"the rows of {node.input[table]!r}")

    def _bound(self, number: _Number, size: int, where: str) -> None:
        """Record that a number must be at least 0 and below ``size``."""
        most = number.value_at(size - 1)
        if most is None or number.factor is None:
            self.found.append(InputUse("other", where))
        else:
            self.found.append(InputUse("index", where, max(0, -(number.offset // number.factor)), most))

    def _time(self, node: onnx.NodeProto, number: _Number) -> int | None:
        shape = self.shapes.get(node.input[0])
        batch_first = any(a.name == "layout" and a.i for a in node.attribute)
        return None if shape is None else number.value_at(shape[1 if batch_first else 0])

    def _arithmetic(self, node: onnx.NodeProto, index: int, number: _Number) -> _Number:
        """Return a number after arithmetic with a constant; unknown for any other arithmetic."""
        others = [self.constants.get(name) for at, name in enumerate(node.input) if at != index and name]
        whole = all(other is not None and other.size and other.dtype.kind in "iu" for other in others)
        unknown = replace(number, factor=None) if len(node.input) == 1 else _Number(None)
        if number.factor is None or not others or not whole:
            return unknown
        if node.op_type == "Equal" and others[0] is not None:
            return replace(unknown, equal=number.value_at(int(np.ravel(others[0])[0])))
        rule = _ARITHMETIC.get(node.op_type)
        return unknown if rule is None or (node.op_type == "Sub" and index) else rule(number, others)


def _plus(number: _Number, others: list[Any]) -> _Number:
    return _shifted(number, int(others[0].max()))


def _minus(number: _Number, others: list[Any]) -> _Number:
    return _shifted(number, -int(others[0].max()))


def _shifted(number: _Number, by: int) -> _Number:
    return replace(number, offset=number.offset + by, cap=None if number.cap is None else number.cap + by)


def _times(number: _Number, others: list[Any]) -> _Number:
    by = int(others[0].max())
    if by < 1 or number.factor is None:
        return _Number(None)
    return _Number(number.factor * by, number.offset * by, None if number.cap is None else number.cap * by)


def _capped(number: _Number, others: list[Any]) -> _Number:
    most = min(int(other.min()) for other in others)
    return replace(number, cap=most if number.cap is None else min(number.cap, most))


def _clipped(number: _Number, others: list[Any]) -> _Number:
    return _capped(number, others[-1:]) if len(others) > 1 else number


_ARITHMETIC: Mapping[str, Callable[[_Number, list[Any]], _Number]] = {
    "Add": _plus,
    "Clip": _clipped,
    "Min": _capped,
    "Mul": _times,
    "Sub": _minus,
}


def _words(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name or next(iter(node.output), '')!r}"

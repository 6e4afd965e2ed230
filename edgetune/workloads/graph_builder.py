"""Construction of a network as an ONNX graph whose weights have shapes but no data.

A network is a function that takes a ``GraphBuilder`` and its input values and returns its output values:

    def tiny(graph, image):
        x = graph.relu("act", graph.conv("conv", image, 16, kernel=3, stride=2))
        return {"logits": graph.linear("fc", graph.flatten("flatten", graph.global_average_pool("pool", x)), 10)}

Every method adds the ONNX nodes of one layer and returns the ``Value`` it produces. The first argument is the layer's
name, written as PyTorch would (``layer1.0.conv1``); node, output and weights are named after it
(``layer1.0.conv1.weight``).

Conventions: opset 17, standard operators only, float32, NCHW. Every initializer is a weight (see ``initial_weights``);
constants are ``Constant`` nodes, one per distinct value. Each layer is the operator that eager PyTorch would run:
BatchNorm and activations stay nodes of their own. Where opset 17 needs several nodes for one PyTorch operator (SiLU,
GELU), each of them has ``part of <operator>`` as its ``doc_string``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.workloads import initial_weights

OPSET = 17
IR_VERSION = 8
"""The version of the intermediate representation for opset 17; old runtimes on boards refuse newer ones."""

Dim = int | str


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that flows through the graph.

    Args:
        name: Its ONNX name.
        shape: Its dimensions; text (``batch``, ``batch*128``) if they depend on the batch size.
    """

    name: str
    shape: tuple[Dim, ...]

    def __getitem__(self, axis: int) -> int:
        """Return a dimension, which must be a number."""
        size = self.shape[axis]
        if not isinstance(size, int):
            raise TypeError(f"dimension {axis} of {self.name} is {size!r}, not a number")
        return size


class GraphBuilder:
    """Collects the nodes, weights and inputs of one network; ``model()`` returns the graph."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inputs: list[Any] = []
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    # -- graph ---------------------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[Dim], dtype: str = "float32") -> Value:
        """Declare an input; ``dtype`` is a numpy name (``float32``, ``int64``)."""
        elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._inputs.append(helper.make_tensor_value_info(name, elem_type, list(shape)))
        return Value(name, tuple(shape))

    def model(self, outputs: Mapping[str, Value], metadata: Mapping[str, str] | None = None) -> onnx.ModelProto:
        """Return the finished graph; each output value is renamed to its key."""
        renamed = {value.name: name for name, value in outputs.items()}
        for node in self._nodes:
            for names in (node.input, node.output):
                for index, name in enumerate(names):
                    if name in renamed:
                        names[index] = renamed[name]
        graph_outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, list(value.shape)) for name, value in outputs.items()
        ]
        graph = helper.make_graph(self._nodes, self._name, self._inputs, graph_outputs, initializer=self._weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="edgetune"
        )
        helper.set_model_props(model, dict(metadata or {}))
        return model

    def weight(self, name: str, shape: tuple[int, ...], recipe: str, role: initial_weights.Role = "parameter") -> str:
        """Record the shape and the recipe of a weight and return its name."""
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, doc_string=f"{role}: {recipe}")
        self._weights.append(tensor)
        return name

    def constant(self, values: object, dtype: str = "int64") -> str:
        """Return the name of a constant, which is added to the graph at first use."""
        array = np.asarray(values, dtype=dtype)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant.{len(self._constants)}"
            tensor = numpy_helper.from_array(array, name)
            self._nodes.append(helper.make_node("Constant", [], [name], name=name, value=tensor))
            self._constants[key] = name
        return self._constants[key]

    def node(
        self,
        op: str,
        name: str,
        inputs: Sequence[Value | str],
        shape: Sequence[Dim],
        *,
        part_of: str = "",
        **attributes: Any,
    ) -> Value:
        """Add one ONNX node with one output, which is named after it."""
        self._nodes.append(
            helper.make_node(
                op, [i if isinstance(i, str) else i.name for i in inputs], [name], name=name,
                doc_string=f"part of {part_of}" if part_of else None, **attributes,
            )
        )  # fmt: skip
        return Value(name, tuple(shape))

    # -- layers with weights -------------------------------------------------------------------------------------

    def conv(
        self,
        name: str,
        x: Value,
        channels: int,
        *,
        kernel: int,
        stride: int = 1,
        padding: int | None = None,
        groups: int = 1,
        weights: initial_weights.Weights = initial_weights.PYTORCH,
    ) -> Value:
        """2-D convolution with a square kernel; padding is ``kernel // 2`` unless given."""
        pad = kernel // 2 if padding is None else padding
        shape = (channels, x[1] // groups, kernel, kernel)
        recipe = weights.initialise(shape)
        inputs: list[Value | str] = [x, self.weight(f"{name}.weight", shape, recipe, weights.role)]
        if weights.bias is not None:
            inputs.append(self.weight(f"{name}.bias", (channels,), weights.bias(shape)))
        window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        size = [_window(side, kernel, stride, pad) for side in (x[2], x[3])]
        return self.node("Conv", name, inputs, (x.shape[0], channels, *size), group=groups, **window)

    def batch_norm(self, name: str, x: Value, *, epsilon: float = 1e-5, momentum: float = 0.1) -> Value:
        """Batch normalisation over channels; ``momentum`` is PyTorch's: the weight of the new value (ONNX: the old)."""
        inputs: list[Value | str] = [
            x,
            self.weight(f"{name}.weight", (x[1],), initial_weights.ONES),
            self.weight(f"{name}.bias", (x[1],), initial_weights.ZEROS),
            self.weight(f"{name}.running_mean", (x[1],), initial_weights.ZEROS, "statistic"),
            self.weight(f"{name}.running_var", (x[1],), initial_weights.ONES, "statistic"),
        ]
        return self.node("BatchNormalization", name, inputs, x.shape, epsilon=epsilon, momentum=1.0 - momentum)

    def layer_norm(self, name: str, x: Value, *, epsilon: float = 1e-5) -> Value:
        """Layer normalisation over the last axis."""
        weight = self.weight(f"{name}.weight", (x[-1],), initial_weights.ONES)
        bias = self.weight(f"{name}.bias", (x[-1],), initial_weights.ZEROS)
        return self.node("LayerNormalization", name, [x, weight, bias], x.shape, axis=-1, epsilon=epsilon)

    def linear(
        self,
        name: str,
        x: Value,
        features: int,
        *,
        initialise: initial_weights.Initialise = initial_weights.fan_in_uniform,
        initialise_bias: initial_weights.Initialise = initial_weights.fan_in_uniform,
        tied: str | None = None,
    ) -> Value:
        """A linear layer on a matrix of rows; the weight is ``[features, inputs]`` as in PyTorch.

        ``tied`` names a weight of that shape in place of an own one, e.g. ``embedding.weight``.
        """
        shape = (features, x[1])
        weight = tied or self.weight(f"{name}.weight", shape, initialise(shape))
        bias = self.weight(f"{name}.bias", (features,), initialise_bias(shape))
        return self.node("Gemm", name, [x, weight, bias], (x.shape[0], features), transB=1)

    def embedding(
        self, name: str, indices: Value, rows: int, width: int, *, recipe: str = initial_weights.normal(1.0)
    ) -> Value:
        """Rows of a table, looked up by index."""
        table = self.weight(f"{name}.weight", (rows, width), recipe)
        return self.node("Gather", name, [table, indices], (*indices.shape, width), axis=0)

    def lstm(self, name: str, x: Value, hidden: int) -> tuple[Value, Value]:
        """One LSTM layer over ``[sequence, batch, features]``: the outputs of all steps, and the last hidden state.

        Both are as PyTorch returns them: ``[sequence, batch, hidden]`` and ``[batch, hidden]``.
        Both biases of PyTorch's cell are stored one after the other, as in ONNX.
        """
        recipe = initial_weights.uniform(1.0 / math.sqrt(hidden))
        inputs = [
            x.name,
            self.weight(f"{name}.weight_input", (1, 4 * hidden, x[2]), recipe),
            self.weight(f"{name}.weight_hidden", (1, 4 * hidden, hidden), recipe),
            self.weight(f"{name}.bias", (1, 8 * hidden), recipe),
        ]
        steps, last = f"{name}.steps", f"{name}.last"
        self._nodes.append(helper.make_node("LSTM", inputs, [steps, last], name=name, hidden_size=hidden))
        sequence, batch = x.shape[0], x.shape[1]
        return (
            self.squeeze(f"{name}.output", Value(steps, (sequence, 1, batch, hidden)), axis=1),
            self.squeeze(f"{name}.hidden", Value(last, (1, batch, hidden)), axis=0),
        )

    # -- activations and arithmetic ------------------------------------------------------------------------------

    def relu(self, name: str, x: Value) -> Value:
        """max(x, 0)."""
        return self.node("Relu", name, [x], x.shape)

    def relu6(self, name: str, x: Value) -> Value:
        """min(max(x, 0), 6)."""
        return self.node("Clip", name, [x, self.constant(0.0, "float32"), self.constant(6.0, "float32")], x.shape)

    def hard_swish(self, name: str, x: Value) -> Value:
        """x times hard sigmoid of x."""
        return self.node("HardSwish", name, [x], x.shape)

    def hard_sigmoid(self, name: str, x: Value) -> Value:
        """PyTorch's hard sigmoid: x / 6 + 1 / 2, cut to [0, 1]."""
        return self.node("HardSigmoid", name, [x], x.shape, alpha=1.0 / 6.0, beta=0.5)

    def sigmoid(self, name: str, x: Value) -> Value:
        """1 / (1 + exp(-x))."""
        return self.node("Sigmoid", name, [x], x.shape)

    def tanh(self, name: str, x: Value) -> Value:
        """Hyperbolic tangent."""
        return self.node("Tanh", name, [x], x.shape)

    def silu(self, name: str, x: Value) -> Value:
        """x times sigmoid of x: one operator in PyTorch, two nodes here."""
        gate = self.node("Sigmoid", f"{name}.sigmoid", [x], x.shape, part_of="silu")
        return self.node("Mul", name, [x, gate], x.shape, part_of="silu")

    def gelu(self, name: str, x: Value) -> Value:
        """x/2 (1 + erf(x / sqrt 2)): one operator in PyTorch, five nodes here (opset 20 is the first with ``Gelu``)."""
        root, one, half = (self.constant(number, "float32") for number in (math.sqrt(2.0), 1.0, 0.5))
        scaled = self.node("Div", f"{name}.scaled", [x, root], x.shape, part_of="gelu")
        erf = self.node("Erf", f"{name}.erf", [scaled], x.shape, part_of="gelu")
        shifted = self.node("Add", f"{name}.shifted", [erf, one], x.shape, part_of="gelu")
        gated = self.node("Mul", f"{name}.gated", [x, shifted], x.shape, part_of="gelu")
        return self.node("Mul", name, [gated, half], x.shape, part_of="gelu")

    def softmax(self, name: str, x: Value, *, axis: int = -1) -> Value:
        """exp(x) over its sum along an axis."""
        return self.node("Softmax", name, [x], x.shape, axis=axis)

    def local_response_norm(self, name: str, x: Value, *, spread: float, offset: float, size: int = 5) -> Value:
        """x over (offset + spread / size times the sum of squares over ``size`` neighbouring channels) ^ 0.75."""
        return self.node("LRN", name, [x], x.shape, alpha=spread, beta=0.75, bias=offset, size=size)

    def dropout(self, name: str, x: Value, ratio: float) -> Value:
        """Zeroes a share of the elements while training; does nothing otherwise."""
        return self.node("Dropout", name, [x, self.constant(ratio, "float32")], x.shape)

    def binary(self, op: str, name: str, left: Value, right: Value | float) -> Value:
        """``Add``, ``Sub``, ``Mul`` or ``Div``, with broadcasting; a number becomes a constant."""
        if isinstance(right, Value):
            return self.node(op, name, [left, right], _broadcast(left.shape, right.shape))
        return self.node(op, name, [left, self.constant(right, "float32")], left.shape)

    def add(self, name: str, left: Value, right: Value | float) -> Value:
        """left + right."""
        return self.binary("Add", name, left, right)

    def to_float(self, name: str, x: Value) -> Value:
        """Integers as float32."""
        return self.node("Cast", name, [x], x.shape, to=TensorProto.FLOAT)

    def matmul(self, name: str, left: Value, right: Value) -> Value:
        """Matrix product over the last two axes; leading axes are equal."""
        return self.node("MatMul", name, [left, right], (*left.shape[:-1], right.shape[-1]))

    # -- pooling -------------------------------------------------------------------------------------------------

    def max_pool(self, name: str, x: Value, *, kernel: int, stride: int, padding: int = 0, ceil: bool = False) -> Value:
        """Maximum over a square window; ``ceil`` also keeps a last window that runs over the edge."""
        size = [_window(side, kernel, stride, padding, ceil=ceil) for side in (x[2], x[3])]
        window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.node("MaxPool", name, [x], (*x.shape[:2], *size), ceil_mode=int(ceil), **window)

    def global_average_pool(self, name: str, x: Value) -> Value:
        """Mean over height and width, which stay as axes of size 1."""
        return self.node("GlobalAveragePool", name, [x], (*x.shape[:2], 1, 1))

    # -- shape and place -----------------------------------------------------------------------------------------

    def flatten(self, name: str, x: Value) -> Value:
        """[batch, everything else]."""
        return self.node("Flatten", name, [x], (x.shape[0], math.prod(x[i] for i in range(1, len(x.shape)))), axis=1)

    def reshape(self, name: str, x: Value, shape: Sequence[int]) -> Value:
        """Same elements in another shape; as in ONNX, 0 keeps a dimension and -1 is inferred."""
        return self.node("Reshape", name, [x, self.constant(list(shape))], _reshaped(x.shape, shape))

    def transpose(self, name: str, x: Value, axes: Sequence[int]) -> Value:
        """Axes in another order."""
        return self.node("Transpose", name, [x], [x.shape[axis] for axis in axes], perm=list(axes))

    def squeeze(self, name: str, x: Value, *, axis: int) -> Value:
        """Drop an axis of size 1."""
        return self.node("Squeeze", name, [x, self.constant([axis])], (*x.shape[:axis], *x.shape[axis + 1 :]))

    def unsqueeze(self, name: str, x: Value, axes: Sequence[int]) -> Value:
        """Insert axes of size 1."""
        shape = list(x.shape)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        return self.node("Unsqueeze", name, [x, self.constant(list(axes))], shape)

    def concat(self, name: str, parts: Sequence[Value], *, axis: int) -> Value:
        """Tensors one after another along an axis."""
        shape = list(parts[0].shape)
        shape[axis] = sum(part[axis] for part in parts)
        return self.node("Concat", name, parts, shape, axis=axis)

    def split(
        self, name: str, x: Value, sizes: Sequence[int], *, axis: int, outputs: Sequence[str] | None = None
    ) -> list[Value]:
        """The pieces of a tensor along an axis, named ``outputs`` or ``<name>.0``, ``<name>.1``, ..."""
        outputs = list(outputs or (f"{name}.{index}" for index in range(len(sizes))))
        self._nodes.append(
            helper.make_node("Split", [x.name, self.constant(list(sizes))], outputs, name=name, axis=axis)
        )
        return [
            Value(out, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for out, size in zip(outputs, sizes, strict=True)
        ]

    def slice(self, name: str, x: Value | str, shape: Sequence[Dim], *, start: int, end: int, axis: int) -> Value:
        """Elements ``start`` to ``end`` along an axis; ``shape`` is the result's."""
        bounds = [self.constant([number]) for number in (start, end, axis)]
        return self.node("Slice", name, [x, *bounds], shape)

    def select(self, name: str, x: Value, index: int, *, axis: int) -> Value:
        """One entry along an axis, which disappears."""
        return self.node("Gather", name, [x, self.constant(index)], (*x.shape[:axis], *x.shape[axis + 1 :]), axis=axis)

    def upsample(self, name: str, x: Value, factor: int) -> Value:
        """Height and width times a whole factor, by repeating pixels."""
        scales = self.constant([1, 1, factor, factor], "float32")
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.node("Resize", name, [x, "", scales], (*x.shape[:2], x[2] * factor, x[3] * factor), **how)


def _window(size: int, kernel: int, stride: int, padding: int, *, ceil: bool = False) -> int:
    """Return the number of windows along one side (the formula of ONNX's Conv and MaxPool)."""
    room = size + 2 * padding - kernel
    return (-(-room // stride) if ceil else room // stride) + 1


def _broadcast(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> tuple[Dim, ...]:
    width = max(len(left), len(right))
    pairs = zip((1,) * (width - len(left)) + left, (1,) * (width - len(right)) + right, strict=True)
    return tuple(b if a == 1 else a for a, b in pairs)


def _reshaped(old: tuple[Dim, ...], new: Sequence[int]) -> tuple[Dim, ...]:
    """Return the shape after a Reshape; at most one dimension may depend on the batch size (``batch``, ``batch*k``)."""
    shape: list[Dim] = [old[index] if size == 0 else size for index, size in enumerate(new)]
    if -1 not in shape:
        return tuple(shape)
    per_sample = _per_sample(old) // _per_sample([size for size in shape if size != -1])
    batch_left = any(isinstance(size, str) for size in old) and not any(isinstance(size, str) for size in shape)
    left: Dim = per_sample
    if batch_left:
        left = "batch" if per_sample == 1 else f"batch*{per_sample}"
    return tuple(left if size == -1 else size for size in shape)


def _per_sample(shape: Sequence[Dim]) -> int:
    """Return the elements per sample: ``batch`` counts as one, ``batch*k`` as k."""
    return math.prod(size if isinstance(size, int) else int(size.partition("*")[2] or 1) for size in shape)

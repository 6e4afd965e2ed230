"""An ONNX graph as a PyTorch module that trains: the zoo's networks, and any user's file made of the same operators."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import onnx
import torch
from onnx import numpy_helper
from onnx.inliner import inline_local_functions

from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads import torch_graph, torch_losses
from edgetune.workloads.initial_weights import has_data
from edgetune.workloads.onnx_file import fixed_model
from edgetune.workloads.torch_operators import OPERATORS
from edgetune.workloads.torch_operators.node import NodeView
from edgetune.workloads.torch_operators.recurrent import GATES, Recurrent
from edgetune.workloads.workload import RunOptions, Workload

if TYPE_CHECKING:
    from edgetune.workloads.torch_operators.node import Run
    from edgetune.workloads.zoo import ZooNetwork

_FEW = 8
"""Lists of numbers up to this length may be an operator's settings (scales, bounds)."""
_STORED = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data", "external_data", "data_location")
"""Where a tensor of an ONNX file may have its values, besides ``raw_data``."""
_ABSENT = -1
"""Slot of an input that the node leaves out, or of an output that nobody names."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One node: how to run it, which values it takes and gives, and which nobody needs after it.

    ``label`` is the name of its first output, which is unique where node names need not be.
    """

    label: str
    evaluate: Run
    train: Run
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    release: tuple[int, ...]


class OnnxModule(torch.nn.Module):  # type: ignore[misc]
    """Executes an ONNX graph node by node, as eager PyTorch would run the network it was written from.

    Weights become parameters of the same dotted names (``layer1.0.conv1.weight``), so the ``state_dict`` reads as the
    original's. Trained are: in a graph of the zoo, what it recorded as parameters; in any other graph, initializers of
    floating point and more than one element that are not an operator's settings. BatchNorm's running
    statistics are buffers. ``train()`` and ``eval()`` switch BatchNorm and Dropout. Call it with the graph's inputs in
    their order; it returns the output, or a tuple where there are several.

    The graph is turned into a plan once; running it looks at no protobuf, and drops each value after its last use.

    Args:
        model: The graph, with weights. It is not kept.
        outputs: Names of the values to return, also inner ones; the graph's outputs by default. What they do not depend
            on is left out.

    Raises:
        InputError: An operator or a variant of it that is not implemented, a weight without data, an unknown output.
    """

    def __init__(self, model: onnx.ModelProto, outputs: Sequence[str] | None = None) -> None:
        super().__init__()
        if model.functions:
            model = inline_local_functions(model)
        self._slots: dict[str, int] = {}
        self._held: list[tuple[int, dict[str, torch.Tensor], str]] = []
        self._fixed: list[tuple[int, torch.Tensor]] = []
        self._recurrent: list[tuple[tuple[str, ...], Recurrent]] = []
        wanted = list(outputs) if outputs is not None else [value.name for value in model.graph.output]
        nodes = torch_graph.needed_nodes(model.graph, wanted)
        weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self._weight_names = frozenset(weights)
        self._inputs = [self._slot(v.name) for v in model.graph.input if v.name not in weights]
        constants = self._hold(nodes, weights, torch_graph.trainable(nodes, weights))
        opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
        nodes = [node for node in nodes if node.op_type != "Constant"]
        last = {name: index for index, node in enumerate(nodes) for name in (*node.output, *node.input)}
        kept = {*wanted, *weights, *constants}
        self._plan = [
            self._step(node, weights, constants, opset, [n for n, at in last.items() if at == index and n not in kept])
            for index, node in enumerate(nodes)
        ]
        self._outputs = [self._slots[name] for name in wanted]
        self._skeleton = torch_graph.without_data(model, {name for name, _ in self.weights()})

    def forward(self, *inputs: torch.Tensor) -> Any:
        """The outputs for one minibatch."""
        values: list[Any] = [None] * (len(self._slots) + 1)  # the last one stands for inputs that are left out
        for slot, value in self._fixed:
            values[slot] = value
        for slot, owner, key in self._held:
            values[slot] = owner[key]
        for slot, value in zip(self._inputs, inputs, strict=True):
            values[slot] = value
        training = self.training
        for step in self._plan:
            taken = [values[slot] for slot in step.inputs]
            result = step.train(taken) if training else step.evaluate(taken)
            if isinstance(result, tuple):
                for slot, value in zip(step.outputs, result, strict=False):
                    values[slot] = value
            else:
                values[step.outputs[0]] = result
            values[_ABSENT] = None
            for slot in step.release:
                values[slot] = None
        found = tuple(values[slot] for slot in self._outputs)
        return found[0] if len(found) == 1 else found

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The graph's weights as they are now, under their ONNX names and in ONNX layout."""
        names = {slot: name for name, slot in self._slots.items()}
        for slot, owner, key in self._held:
            if names[slot] in self._weight_names:
                yield names[slot], owner[key].detach()
        for group, layer in self._recurrent:
            yield from zip(group, layer.onnx_weights(), strict=True)

    def label_steps(self, prefix: str) -> None:
        """From now on, run each node in a range that PyTorch's profiler sees as ``prefix`` and the node's output."""

        def labelled(run: Run, label: str) -> Run:
            def ranged(taken: Any) -> Any:
                with torch.profiler.record_function(prefix + label):
                    return run(taken)

            return ranged

        self._plan = [
            replace(step, evaluate=labelled(step.evaluate, step.label), train=labelled(step.train, step.label))
            for step in self._plan
        ]

    def _slot(self, name: str) -> int:
        return self._slots.setdefault(name, len(self._slots)) if name else _ABSENT

    def _hold(
        self, nodes: Iterable[onnx.NodeProto], weights: Mapping[str, onnx.TensorProto], trainable: set[str]
    ) -> dict[str, torch.Tensor]:
        """Take in weights and constants. Returns the small or integer ones, which operators may read beforehand."""
        known: dict[str, torch.Tensor] = {}
        inside_layers = {name for node in nodes if node.op_type in GATES for name in node.input[1:4]}
        used = {name for node in nodes for name in node.input}
        for name, tensor in weights.items():
            if name not in used or name in inside_layers:
                continue
            value = torch_graph.tensor_value(tensor)
            if name in trainable:
                self._attach(name, torch.nn.Parameter(value))
            else:
                self._attach_constant(name, value, known)
        for node in nodes:
            if node.op_type == "Constant":
                self._attach_constant(node.output[0], torch_graph.constant_value(node), known)
        return known

    def _attach_constant(self, name: str, value: torch.Tensor, known: dict[str, torch.Tensor]) -> None:
        """Keep what is no parameter: lists of integers on the CPU, for arithmetic on shapes; the rest as buffers."""
        if value.dim() <= 1 and (not value.is_floating_point() or value.numel() <= _FEW):
            known[name] = value
        if value.dim() <= 1 and not value.is_floating_point():
            self._fixed.append((self._slot(name), value))
        else:
            self._attach(name, value)

    def _attach(self, name: str, value: torch.Tensor) -> None:
        """Register a tensor under its dotted name, as nested modules."""
        owner, leaf = self._owner(name)
        if isinstance(value, torch.nn.Parameter):
            owner.register_parameter(leaf, value)
            self._held.append((self._slot(name), owner._parameters, leaf))
        else:
            owner.register_buffer(leaf, value)
            self._held.append((self._slot(name), owner._buffers, leaf))

    def _owner(self, name: str) -> tuple[Any, str]:
        """The module a dotted name belongs to, made where missing, and a free name in it."""
        owner: Any = self
        *path, leaf = [part or "_" for part in name.split(".")]
        for part in path:
            child = part if part in owner._modules else _free(owner, part)
            if child not in owner._modules:
                owner.add_module(child, torch.nn.Module())
            owner = owner._modules[child]
        return owner, _free(owner, leaf)

    def _step(
        self,
        node: onnx.NodeProto,
        weights: Mapping[str, onnx.TensorProto],
        constants: Mapping[str, torch.Tensor],
        opset: int,
        release: Sequence[str],
    ) -> _Step:
        attributes = {attribute.name: torch_graph.attribute_value(attribute) for attribute in node.attribute}
        evaluate: Run
        train: Run
        if node.op_type in GATES and node.domain in ("", "ai.onnx"):
            evaluate = train = self._recurrent_layer(node, attributes, weights)
        else:
            make = OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if make is None:
                raise InputError(
                    f"operator {node.op_type} (node {node.name!r}) cannot run in PyTorch here",
                    "train a Python file instead (make(batch_size) -> step), or export the network without it",
                )
            known = {index: constants[name] for index, name in enumerate(node.input) if name in constants}
            label = node.name or node.output[0]
            evaluate, train = (
                make(NodeView(node.op_type, label, attributes, known, len(node.output), training, opset))
                for training in (False, True)
            )
        inputs = tuple(self._slot(name) for name in node.input)
        outputs = tuple(self._slot(name) for name in node.output)
        return _Step(
            node.output[0], evaluate, train, inputs, outputs, tuple(self._slots[name] for name in release if name)
        )

    def _recurrent_layer(
        self, node: onnx.NodeProto, attributes: Mapping[str, Any], weights: Mapping[str, onnx.TensorProto]
    ) -> Recurrent:
        name = node.name or node.output[0]
        names = tuple(given for given in node.input[1:4] if given)
        extra = [node.input[index] for index in (4, 7) if len(node.input) > index and node.input[index]]
        taken = {other for group, _ in self._recurrent for other in group}
        if extra or any(given not in weights or given in taken for given in names):
            raise InputError(
                f"{node.op_type} {name!r} has computed or shared weights, peepholes or sequence lengths",
                "export it with constant folding, or train a Python file instead (make(batch_size) -> step)",
            )
        layer = Recurrent(node.op_type, name, attributes, [torch_graph.tensor_value(weights[given]) for given in names])
        owner, leaf = self._owner(name)
        owner.add_module(leaf, layer)
        self._recurrent.append((names, layer))
        return layer


def to_onnx(module: OnnxModule) -> onnx.ModelProto:
    """The graph that a module was made from, with the weights it has now: a trained checkpoint to hand back."""
    return with_trained(module._skeleton, module)


def with_trained(model: onnx.ModelProto, module: OnnxModule) -> onnx.ModelProto:
    """A copy of the model that a module was made from, its batch open perhaps, with the weights of the module now."""
    trained = onnx.ModelProto()
    trained.CopyFrom(model)
    current = dict(module.weights())
    for tensor in trained.graph.initializer:
        if tensor.name in current:
            values = numpy_helper.from_array(current[tensor.name].cpu().numpy())
            for stored in _STORED:
                tensor.ClearField(stored)
            tensor.raw_data = values.raw_data
    return trained


@dataclass(frozen=True, slots=True)
class Trainer:
    """A network in training.

    Args:
        step: Does one minibatch and returns the loss before it.
        module: What it trains.
        optimiser: What changes the weights, with its momentum.
    """

    step: Callable[[], float]
    module: OnnxModule
    optimiser: torch.optim.Optimizer

    def continue_from(self, other: Trainer) -> None:
        """Take over the weights, statistics and momentum of the same network at another batch size."""
        self.module.load_state_dict(other.module.state_dict())
        self.optimiser.load_state_dict(other.optimiser.state_dict())

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Forget what is learnt while the context is open, random numbers drawn by Dropout included."""
        module = copy.deepcopy(self.module.state_dict())
        optimiser = copy.deepcopy(self.optimiser.state_dict())
        with torch.random.fork_rng():
            yield
        self.module.load_state_dict(module)
        self.optimiser.load_state_dict(optimiser)


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> Callable[[], float]:  # noqa: ARG001
    """Return a training step of an ONNX graph with trainable weights; see ``steps.open_step``."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    model = fixed_model(workload, batch_size, options.dimensions, weights=True)
    return trainer(model, batch_size, device=options.torch_device, seed=options.seed).step


def trainer(
    model: onnx.ModelProto,
    batch_size: int,
    *,
    device: str = "cpu",
    seed: int = 0,
    loss: torch_losses.Kind | None = None,
    learning_rate: float | None = None,
    label: str | None = None,
) -> Trainer:
    """One minibatch of training, ready to be called again and again: forward, loss, backward, SGD with momentum 0.9.

    The minibatch is synthetic and always the same, so the loss falls from call to call. Weights without data are drawn
    from the seed, and PyTorch's own generator (Dropout) is seeded too.

    Args:
        model: A network of the zoo, with weights or without, or any ONNX graph of the operators known here.
        batch_size: Samples per minibatch.
        device: PyTorch device, e.g. ``cpu`` or ``cuda:0``.
        seed: Seed of weights, inputs and labels.
        loss: What to minimise, see ``torch_losses``; the zoo's own choice, or by the shape of the output, by default.
        learning_rate: Of the optimiser; the zoo's own, or 0.001, by default.
        label: Prefix of the ranges that a profiler is to see, see ``OnnxModule.label_steps``; none by default.

    Returns:
        Reading the loss of its step waits for the device to finish.

    Raises:
        InputError: The graph cannot be trained or has an input that cannot be made up.
    """
    from edgetune.workloads import zoo
    from edgetune.workloads.network_inputs import random_inputs

    row = _zoo_row(model)
    kind = loss or (row.loss if row else None)
    fixed = _with_batch(model, batch_size)
    if not all(has_data(tensor) for tensor in fixed.graph.initializer):
        fixed = zoo.with_weights(fixed, seed)
    arrays = random_inputs(fixed, seed=seed)
    torch.manual_seed(seed)
    module = OnnxModule(fixed, torch_losses.values_for(kind)).to(device).train()
    if label is not None:
        module.label_steps(label)
    inputs = [torch.from_numpy(array).to(device) for array in arrays.values()]
    parameters = list(module.parameters())
    if not parameters:
        raise InputError("the network has no weights to train", "export it with its weights as initializers")
    rate = learning_rate if learning_rate is not None else row.learning_rate if row else 1e-3
    optimiser = torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    objective = torch_losses.Objective(kind, seed)

    def step() -> float:
        optimiser.zero_grad(set_to_none=True)
        value = objective(module(*inputs))
        value.backward()
        optimiser.step()
        return float(value.item())

    return Trainer(step, module, optimiser)


def _zoo_row(model: onnx.ModelProto) -> ZooNetwork | None:
    from edgetune.workloads import zoo

    name = next((entry.value for entry in model.metadata_props if entry.key == zoo.NETWORK_KEY), None)
    return zoo.NETWORKS.get(name) if name else None


def _with_batch(model: onnx.ModelProto, batch_size: int) -> onnx.ModelProto:
    """The model at a batch size; itself where its inputs are fixed already, as whoever measures it has done."""
    from edgetune.workloads.dimensions import data_inputs, fix_dimensions

    shapes = [value.type.tensor_type.shape.dim for value in data_inputs(model)]
    if all(dim.HasField("dim_value") for shape in shapes for dim in shape):
        return model
    return fix_dimensions(model, batch_size=batch_size)


def _free(owner: torch.nn.Module, name: str) -> str:
    """The name, with underscores until nothing else in the module is called so."""
    while hasattr(owner, name):
        name += "_"
    return name

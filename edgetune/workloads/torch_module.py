"""An ONNX graph as a PyTorch module that trains: the zoo's networks, and any user's file made of the same operators."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx
import torch
from onnx import numpy_helper
from onnx.inliner import inline_local_functions

from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads import torch_graph
from edgetune.workloads.initial_weights import has_data
from edgetune.workloads.onnx_file import fixed_model, network_values
from edgetune.workloads.torch_operators import OPERATORS
from edgetune.workloads.torch_operators.arithmetic import GATES, NodeView, Recurrent, Run
from edgetune.workloads.workload import InputValues, RunOptions, Workload

_FEW = 8
"""Largest length of a list of numbers that may be an operator's settings (scales, bounds)."""
_STORED = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data", "external_data", "data_location")
"""Fields of an ONNX tensor that may hold its values, besides ``raw_data``."""
_ABSENT = -1
"""Slot of an omitted input, or of an output without a name."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One node: its function, the slots of its inputs and outputs, and those that are freed after it.

    ``label`` is the name of its first output, which is unique, unlike names of nodes.
    """

    label: str
    evaluate: Run
    train: Run
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    release: tuple[int, ...]


class OnnxModule(torch.nn.Module):  # type: ignore[misc]
    """Executes an ONNX graph node by node, as eager PyTorch runs the original network.

    Weights become parameters of the same dotted names (``layer1.0.conv1.weight``), as in the original's ``state_dict``.
    Trainable are the recorded parameters of a zoo graph; in any other graph, floating-point initializers of more than
    one element that are not an operator's settings. BatchNorm's running statistics are buffers. ``train()`` and
    ``eval()`` switch BatchNorm and Dropout. A call takes the graph's inputs in their order and returns the output, or a
    tuple of several outputs.

    The graph is converted to a plan once; a run reads no protobuf, and frees each value after its last use.

    Args:
        model: The graph with weights, which is not kept.
        outputs: Names of the values to return, also inner ones; by default the graph's outputs. Nodes that they do not
            depend on are left out.

    Raises:
        InputError: an operator or a variant of it is not implemented, a weight has no data, or an output is unknown.
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

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the outputs for one minibatch."""
        values: list[Any] = [None] * (len(self._slots) + 1)  # the last slot is that of omitted inputs
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
        """Yield the current weights of the graph, with their ONNX names and in ONNX layout."""
        names = {slot: name for name, slot in self._slots.items()}
        for slot, owner, key in self._held:
            if names[slot] in self._weight_names:
                yield names[slot], owner[key].detach()
        for group, layer in self._recurrent:
            yield from zip(group, layer.onnx_weights(), strict=True)

    def label_steps(self, prefix: str) -> None:
        """Run each node from now on in a range of PyTorch's profiler, named ``prefix`` and the node's output."""

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
        """Register weights and constants; return the small or integer ones, which operators may read in advance."""
        known: dict[str, torch.Tensor] = {}
        inside_layers = {name for node in nodes if node.op_type in GATES for name in node.input[1:4]}
        used = {name for node in nodes for name in node.input} - inside_layers
        held = {name: torch_graph.tensor_value(tensor) for name, tensor in weights.items() if name in used}
        held |= {node.output[0]: torch_graph.constant_value(node) for node in nodes if node.op_type == "Constant"}
        for name, value in held.items():
            is_parameter, is_list = name in trainable and name in weights, value.dim() <= 1
            if is_list and not is_parameter and (not value.is_floating_point() or value.numel() <= _FEW):
                known[name] = value
            if is_list and not is_parameter and not value.is_floating_point():  # on the CPU, for arithmetic on shapes
                self._fixed.append((self._slot(name), value))
            else:
                self._attach(name, torch.nn.Parameter(value) if is_parameter else value)
        return known

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
        """Return the module of a dotted name, created if missing, and a free name in it."""
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
        op = node.op_type if node.domain in ("", "ai.onnx") else ""
        evaluate: Run
        train: Run
        if op in GATES:
            evaluate = train = self._recurrent_layer(node, attributes, weights)
        else:
            make = OPERATORS.get(op)
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
        inputs, outputs = (tuple(self._slot(name) for name in names) for names in (node.input, node.output))
        freed = tuple(self._slots[name] for name in release if name)
        return _Step(node.output[0], evaluate, train, inputs, outputs, freed)

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


def with_trained(model: onnx.ModelProto, module: OnnxModule) -> onnx.ModelProto:
    """Return a copy of a module's original model, whose batch may be open, with the module's current weights."""
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
        step: Trains on one minibatch and returns the loss before the update.
        module: The trained module.
        optimiser: The optimiser with its momentum.
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
        """Restore weights, momentum and Dropout's random state when the context closes."""
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
    values = network_values(workload, options.dimensions)
    return trainer(model, batch_size, device=options.torch_device, seed=options.seed, values=values).step


def trainer(
    model: onnx.ModelProto,
    batch_size: int,
    *,
    device: str = "cpu",
    seed: int = 0,
    label: str | None = None,
    values: Sequence[InputValues] | None = None,
) -> Trainer:
    """Return a trainer whose step is one minibatch: forward, loss, backward, SGD with momentum 0.9.

    The learning rate is the zoo's, or 0.001.

    The minibatch is synthetic and always the same, so the loss falls from call to call. Weights without data are drawn
    from the seed, and PyTorch's own generator (Dropout) is seeded too.

    Args:
        model: A network of the zoo, with weights or without, or any ONNX graph of the operators known here.
        batch_size: Samples per minibatch.
        device: PyTorch device, e.g. ``cpu`` or ``cuda:0``.
        seed: Seed of weights, inputs and labels.
        values: Values of the inputs that are no plain floats; ``None`` for those that the graph shows.
        label: Prefix of the ranges in a profile, see ``OnnxModule.label_steps``; ``None`` for no ranges.

    Returns:
        Reading the loss of its step waits for the device to finish.

    Raises:
        InputError: the graph cannot be trained, or an input cannot be generated.
    """
    from edgetune.workloads import zoo
    from edgetune.workloads.dimensions import data_inputs, fix_dimensions
    from edgetune.workloads.network_inputs import random_inputs

    name = next((entry.value for entry in model.metadata_props if entry.key == zoo.NETWORK_KEY), "")
    row = zoo.NETWORKS.get(name)
    kind = row.loss if row else None
    dims = [dim for value in data_inputs(model) for dim in value.type.tensor_type.shape.dim]
    is_fixed = all(dim.HasField("dim_value") for dim in dims)
    fixed = model if is_fixed else fix_dimensions(model, batch_size=batch_size)
    if not all(has_data(tensor) for tensor in fixed.graph.initializer):
        fixed = zoo.with_weights(fixed, seed)
    arrays = random_inputs(fixed, values, seed=seed)
    torch.manual_seed(seed)
    module = OnnxModule(fixed, torch_graph.values_for(kind)).to(device).train()
    if label is not None:
        module.label_steps(label)
    inputs = [torch.from_numpy(array).to(device) for array in arrays.values()]
    parameters = list(module.parameters())
    if not parameters:
        raise InputError("the network has no weights to train", "export it with its weights as initializers")
    optimiser = torch.optim.SGD(parameters, lr=row.learning_rate if row else 1e-3, momentum=0.9)
    objective = torch_graph.Objective(kind, seed)

    def step() -> float:
        optimiser.zero_grad(set_to_none=True)
        value = objective(module(*inputs))
        value.backward()
        optimiser.step()
        return float(value.item())

    return Trainer(step, module, optimiser)


def _free(owner: torch.nn.Module, name: str) -> str:
    """Return the name with underscores appended until it is unique in the module."""
    while hasattr(owner, name):
        name += "_"
    return name

"""The operator table as two other runtimes execute the network.

``apart``: an eager framework without kernels for composed operators. Every part of an operator is a kernel: the scores
of attention, the values between the five kernels of a GELU, and every gate of an LSTM are written and read back.
Studies that count an exported graph node by node count this way. Softmax and normalisations stay one kernel, as in
eager frameworks. FLOP stay the same; bytes and launches grow.

``fuse``: a compiler such as TensorRT or torch.compile, which applies an activation before it writes the result of a
convolution. Element-wise chains and batch normalisation are folded into the operator that computes their input: one row
per chain, no bytes between its operators, the same products. Source of the fusions: NVIDIA TensorRT's developer guide,
"Types of Fusions" (convolution, scale, element-wise); X. Ding et al., RepVGG, arXiv:2101.03697, for batch normalisation
folded into weights.

Costs of a training step from the forward pass: gradients of inputs and of weights, and the optimiser.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from edgetune.artifacts.ops import OpRow
from edgetune.workloads.costs.node import WHOLE, Cost, GraphTensor, OperatorNode, readers_of
from edgetune.workloads.costs.walk import Costed, to_row


def apart(costed: Sequence[Costed]) -> list[Costed]:
    """Return the operators with the bytes and launches of their parts as separate kernels, still one row each."""
    return [Costed(item.node, replace(item.cost.plus(**asdict(item.cost.parts)), parts=WHOLE)) for item in costed]


_PRODUCERS = frozenset(("conv", "depthwise", "gemm", "elementwise", "normalisation"))
"""Classes whose kernels can apply element-wise operators before they write."""
_PRODUCTS = frozenset(("conv", "depthwise", "gemm"))
_FOLDS_SCALES: Mapping[str, int] = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2}
"""Products that a scale per channel can be folded into, with the index of their bias."""
_SHIFT_FLOPS = 1
_UNPACKS = _PRODUCERS | {"pooling", "reduction"}
"""Classes whose kernels can read quantised values."""


@dataclass(slots=True)
class _Chain:
    """A producer and the element-wise operators behind it, which become one kernel.

    Args:
        members: The operators, in order.
        extra: Tensors from outside the chain that members after the first read.
        cost: Cost of the whole chain.
    """

    members: list[OperatorNode]
    cost: Cost
    extra: list[GraphTensor | None] = field(default_factory=list)

    @property
    def last(self) -> GraphTensor:
        return self.members[-1].y

    def fused(self) -> Costed:
        first = self.members[0]
        if len(self.members) == 1:
            return Costed(first, self.cost)
        node = replace(
            first,
            op="+".join(member.op for member in self.members),
            inputs=(*first.inputs, *self.extra),
            outputs=self.members[-1].outputs,
        )
        return Costed(node, self.cost)


def fuse(costed: Sequence[Costed], outputs: frozenset[str]) -> list[Costed]:
    """Return the operators with every chain as one row, named after its first operator.

    An operator joins the producer of an input if no other operator reads that tensor, it is no output of the network,
    and it has as many elements as the operator's result (it is not broadcast). With two such producers, as for the sum
    of a residual block, the operator joins the one with products, and the later one of two. A ``DequantizeLinear``
    joins its readers instead, which then read the quantised values, as in engines that run a network exported with
    quantisation nodes.

    Args:
        costed: Operators of a forward pass, in order.
        outputs: Names of the network's outputs.
    """
    costed = _unpacked_by_readers(costed, outputs)
    readers = readers_of(item.node for item in costed)
    chains: list[_Chain] = []
    makers: dict[str, int] = {}
    for item in costed:
        joined = _producer(item, chains, makers, readers, outputs)
        if joined is None:
            chains.append(_Chain([item.node], item.cost))
            joined = len(chains) - 1
        else:
            _join(chains[joined], item)
        makers.update((tensor.name, joined) for tensor in item.node.makes)
    return [chain.fused() for chain in chains]


def _unpacked_by_readers(costed: Sequence[Costed], outputs: frozenset[str]) -> list[Costed]:
    """Return the operators with each ``DequantizeLinear`` folded into its readers, if all of them can unpack."""
    readers = readers_of(item.node for item in costed)
    found: list[Costed | None] = list(costed)
    for index, item in enumerate(costed):
        if item.node.op != "DequantizeLinear" or item.cost.ledger != "modelled" or item.node.y.name in outputs:
            continue
        reading = [(place, found[place]) for place in readers.get(item.node.y.name, [])]
        able = [
            (place, reader)
            for place, reader in reading
            if reader is not None and reader.cost.ledger == "modelled" and reader.cost.op_class in _UNPACKS
            if reader.cost.bytes_read >= item.node.y.size_bytes * reader.node.repeats  # some read a part
        ]
        if not reading or len(able) != len(reading):
            continue
        found[index] = None
        for count, (place, reader) in enumerate(able):
            found[place] = _reading_packed(reader, item, pays=count == 0)
    return [item for item in found if item is not None]


def _reading_packed(reader: Costed, unpacking: Costed, *, pays: bool) -> Costed:
    """Return ``reader`` reading the quantised values; with ``pays``, its cost includes the FLOP of unpacking."""
    packed, wide = unpacking.node.x, unpacking.node.y
    inputs = tuple(packed if t is not None and t.name == wide.name else t for t in reader.node.inputs)
    times = sum(tensor.name == wide.name for tensor in reader.node.reads) * reader.node.repeats
    cost = reader.cost.plus(
        flops_other=unpacking.cost.flops_other if pays else 0, bytes_read=times * (packed.size_bytes - wide.size_bytes)
    )
    return Costed(replace(reader.node, inputs=inputs), cost)


def _producer(
    item: Costed,
    chains: Sequence[_Chain],
    makers: Mapping[str, int],
    readers: Mapping[str, Sequence[int]],
    outputs: frozenset[str],
) -> int | None:
    """Return the index of the chain that an operator joins, or ``None``."""
    cost = item.cost
    if cost.ledger != "modelled" or (cost.op_class != "elementwise" and item.node.op != "BatchNormalization"):
        return None
    found: list[tuple[bool, int]] = []
    for tensor in item.node.reads:
        index = makers.get(tensor.name)
        if index is None or len(readers[tensor.name]) != 1 or tensor.name in outputs:
            continue
        chain = chains[index]
        fits = chain.last.name == tensor.name and tensor.elements == item.node.y.elements
        if fits and chain.cost.op_class in _PRODUCERS and chain.members[0].repeats == item.node.repeats:
            found.append((chain.cost.op_class in _PRODUCTS, index))
    return max(found)[1] if found else None


def _join(chain: _Chain, item: Costed) -> None:
    inner, node = chain.last, item.node
    first = chain.members[0]
    weight = first.optional(1) if first.op in _FOLDS_SCALES and not first.domain else None
    if node.op == "BatchNormalization" and len(chain.members) == 1 and weight is not None and weight.constant:
        chain.cost = _with_folded_scale(chain.cost, first, node)
    else:
        reads = sum(tensor.name == inner.name for tensor in node.reads)
        inner_bytes = inner.size_bytes * node.repeats
        cost = item.cost
        chain.cost = chain.cost.plus(
            macs=cost.macs, flops_other=cost.flops_other, bytes_read=max(cost.bytes_read - reads * inner_bytes, 0),
            bytes_written=cost.bytes_written - inner_bytes, weight_bytes=cost.weight_bytes,
        )  # fmt: skip
        chain.extra += [tensor for tensor in node.reads if tensor.name != inner.name]
    chain.members.append(node)


def _with_folded_scale(cost: Cost, producer: OperatorNode, norm: OperatorNode) -> Cost:
    """Return the cost of a product with a scale folded into its weights; a bias is added if there was none."""
    if producer.optional(_FOLDS_SCALES[producer.op]) is not None:
        return cost
    bias_bytes = norm.input(2).size_bytes * norm.repeats
    shifts = _SHIFT_FLOPS * norm.y.elements * norm.repeats
    return cost.plus(flops_other=shifts, bytes_read=bias_bytes, weight_bytes=bias_bytes)


PRODUCTS = frozenset(("conv", "depthwise", "gemm", "rnn"))
"""Classes whose backward pass has one product for each operand that needs a gradient."""

ATTENTION = frozenset(("Attention", "MultiHeadAttention", "GroupQueryAttention"))
"""Operators of two products, scores and weighted values. Each product has a gradient for both operands, so the backward
pass is one kernel of twice the forward MACs. Source: T. Dao et al., FlashAttention, arXiv:2205.14135, without
recomputation of the scores."""

BACKWARD_FLOPS_FACTOR = 2
BACKWARD_BYTES_FACTOR = 1.5
"""Backward of an operator without products moves three tensors (input and two gradients), forward two."""

OPTIMISER_PASSES = 5
OPTIMISER_FLOPS = 4
"""SGD with momentum per weight: read weight, gradient and momentum, write momentum and weight;
m = mu m + g and w = w - lr m are two operations each. Source: the definition, as in torch.optim.SGD."""


def training_rows(forward: Sequence[Costed], parameters: Sequence[GraphTensor]) -> list[OpRow]:
    """Return the rows of one training step: forward, backward in reverse order, then the optimiser.

    The backward pass of a product Y = X W of M MACs (convolution, matrix product, recurrent layer) costs M MACs for
    each operand that needs a gradient: dX reads dY and W and writes dX, dW reads dY and X and writes dW. The first
    layers have only dW. The backward pass of any other operator is one kernel of twice the FLOP and 1.5 times the
    bytes. Views, operators before the first parameter, and the loss, which is smaller than any layer, cost nothing.

    Args:
        forward: The forward pass, costed with ``OperatorNode.training`` set.
        parameters: Trainable weights.
    """
    trainable = {tensor.name for tensor in parameters}
    needs = set(trainable)
    rows: list[OpRow] = []
    backward: list[list[OpRow]] = []
    for item in forward:
        rows.append(to_row(item.node, item.cost))
        wanted = [tensor for tensor in item.node.reads if tensor.name in needs]
        # A constant computed from weights (a transposed one) passes a gradient on; one computed from shapes does not.
        if not wanted:
            continue
        needs.update(tensor.name for tensor in item.node.makes)
        if item.cost.ledger == "modelled":
            backward.append(_backward(item, wanted, trainable))
    rows += [row for group in reversed(backward) for row in group]
    for tensor in parameters:
        cost = Cost(
            "optimiser", flops_other=OPTIMISER_FLOPS * tensor.elements, bytes_read=3 * tensor.size_bytes,
            bytes_written=(OPTIMISER_PASSES - 3) * tensor.size_bytes, weight_bytes=tensor.size_bytes,
        )  # fmt: skip
        node = OperatorNode(f"{tensor.name}/optimiser", "SGD", (tensor,), (tensor,))
        rows.append(replace(to_row(node, cost, "optimiser"), precision=None))
    return rows


def _backward(item: Costed, wanted: Sequence[GraphTensor], trainable: set[str]) -> list[OpRow]:
    node, cost = item.node, item.cost
    if cost.op_class in PRODUCTS and node.op not in ATTENTION:
        return _product_gradients(node, cost, wanted, trainable)
    if cost.op_class == "gather":  # the dense gradient of the table is cleared, then rows are added
        written = node.x.size_bytes + cost.bytes_written
        cost = replace(cost, flops_other=node.y.elements, bytes_read=cost.bytes_moved, weight_bytes=0, kernels=2)
        return [to_row(node, replace(cost, bytes_written=written), "backward", "/backward")]
    factors = replace(
        cost,
        macs=BACKWARD_FLOPS_FACTOR * cost.macs,
        flops_other=BACKWARD_FLOPS_FACTOR * cost.flops_other,
        bytes_read=round(BACKWARD_BYTES_FACTOR * cost.bytes_moved) - cost.bytes_written,
        kernels=max(cost.kernels, 1),  # a strided view forward is a copy into place backward
    )
    return [to_row(node, factors, "backward", "/backward")]


def _product_gradients(
    node: OperatorNode, cost: Cost, wanted: Sequence[GraphTensor], trainable: set[str]
) -> list[OpRow]:
    """Return the rows of a product's gradients: one per input, one for all weights, where they are needed."""
    operands = [tensor for tensor in wanted if len(tensor.dims) > 1]  # gradients of biases belong to the weights' row
    weights = [tensor for tensor in operands if tensor.constant or tensor.name in trainable]
    inputs = [tensor for tensor in operands if tensor not in weights]
    rows = []
    for index, tensor in enumerate(inputs):
        suffix = "/input_gradient" if len(inputs) == 1 else f"/input_gradient_{index}"
        gradient = _gradient(cost, tensor.size_bytes)
        rows.append(to_row(node, gradient, "backward", suffix))
    if weights:
        written = sum(tensor.size_bytes for tensor in wanted if tensor in weights or tensor not in operands)
        bias_flops = node.y.elements if len(wanted) > len(operands) else 0  # dB sums dY over everything but channels
        gradient = replace(_gradient(cost, written, of_weights=True), flops_other=bias_flops)
        rows.append(to_row(node, gradient, "backward", "/weight_gradient"))
    return rows


def _gradient(cost: Cost, operand_bytes: int, *, of_weights: bool = False) -> Cost:
    """Return the cost of one gradient: reads the output's gradient and the other operands, writes this operand's."""
    if cost.op_class == "rnn":  # the same steps backwards: the same products and the same bytes
        return replace(cost, flops_other=0 if of_weights else cost.flops_other)
    others = max(cost.bytes_read - operand_bytes, 0)
    return replace(
        cost,
        flops_other=0,
        bytes_read=others + cost.bytes_written,
        bytes_written=operand_bytes,
        weight_bytes=0 if of_weights else cost.weight_bytes,
    )

"""The operator table as two other runtimes execute the network.

``apart``: an eager framework without kernels for composed operators. Every part of an operator is a kernel: the scores
of attention, the values between the five kernels of a GELU, and every gate of an LSTM go to memory and come back.
Studies that count an exported graph node by node count this way. Softmax and normalisations stay one kernel, as in
eager frameworks. Operations stay the same; bytes and launches grow.

``fuse``: a compiler such as TensorRT or torch.compile, which does not write the result of a convolution to memory to
read it back for the activation. Element-wise chains and batch normalisation are folded into the operator that makes
their input: one row per chain, nothing written or read between its operators, the products unchanged. Source of what is
folded: NVIDIA TensorRT's developer guide, "Types of Fusions" (convolution, scale, element-wise); X. Ding et al.,
RepVGG, arXiv:2101.03697, for batch normalisation as new weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.workloads.costs.node import WHOLE, Cost, GraphTensor, OperatorNode
from edgetune.workloads.costs.walk import Costed


def apart(costed: Sequence[Costed]) -> list[Costed]:
    """Return the operators with what their parts move and launch as kernels of their own, a row for each as before."""
    return [
        Costed(
            item.node,
            replace(
                item.cost,
                bytes_read=item.cost.bytes_read + item.cost.parts.bytes_read,
                bytes_written=item.cost.bytes_written + item.cost.parts.bytes_written,
                kernels=item.cost.kernels + item.cost.parts.kernels,
                parts=WHOLE,
            ),
        )
        for item in costed
    ]


_PRODUCERS = frozenset(("conv", "depthwise", "gemm", "elementwise", "normalisation"))
"""Classes whose kernels take further element-wise work on each value before they write it."""
_PRODUCTS = frozenset(("conv", "depthwise", "gemm"))
_FOLDS_SCALES: Mapping[str, int] = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2}
"""Products whose weights take up a scale per channel, and where their bias is."""
_SHIFT_FLOPS = 1
_UNPACKS = _PRODUCERS | {"pooling", "reduction"}
"""Classes whose kernels read quantised values as they are stored."""


@dataclass(slots=True)
class _Chain:
    """A producer and the element-wise operators after it, that become one kernel.

    Args:
        members: The operators, in order.
        extra: What members after the first read besides the chain's own value.
        cost: Of the whole chain.
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
    """Return the operators with every chain as one row, named as its first.

    An operator joins the producer of one of its inputs when nothing else reads that tensor, it is no output of the
    network, and it has as many elements as the operator's own result (a tensor that is broadcast has been written
    before it is spread). Where two producers offer themselves, as to the sum of a residual block, it joins the one with
    products, and of two the later. A ``DequantizeLinear`` joins what reads it instead, which then reads the quantised
    values: that is how engines run a network exported with quantisation nodes.

    Args:
        costed: Operators of a forward pass, in order.
        outputs: Names of the network's outputs.
    """
    costed = _unpacked_by_readers(costed, outputs)
    readers = _reader_counts(costed)
    chains: list[_Chain] = []
    makers: dict[str, int] = {}
    for item in costed:
        joined = _producer(item, chains, makers, readers, outputs)
        if joined is None:
            chains.append(_Chain([item.node], item.cost))
            joined = len(chains) - 1
        else:
            _join(chains[joined], item)
        for tensor in item.node.outputs:
            if tensor is not None:
                makers[tensor.name] = joined
    return [chain.fused() for chain in chains]


def _unpacked_by_readers(costed: Sequence[Costed], outputs: frozenset[str]) -> list[Costed]:
    """Return the operators with each ``DequantizeLinear`` folded into all that reads it, where all of that can."""
    readers: dict[str, list[int]] = {}
    for index, item in enumerate(costed):
        for name in {tensor.name for tensor in item.node.inputs if tensor is not None}:
            readers.setdefault(name, []).append(index)
    found: list[Costed | None] = list(costed)
    for index, item in enumerate(costed):
        if item.node.op != "DequantizeLinear" or item.cost.ledger != "modelled" or item.node.y.name in outputs:
            continue
        reading = [(place, found[place]) for place in readers.get(item.node.y.name, [])]
        able = [(place, reader) for place, reader in reading if reader is not None and _unpacks(reader, item.node.y)]
        if not reading or len(able) != len(reading):
            continue
        found[index] = None
        for count, (place, reader) in enumerate(able):
            found[place] = _reading_packed(reader, item, pays=count == 0)
    return [item for item in found if item is not None]


def _unpacks(reader: Costed, tensor: GraphTensor) -> bool:
    cost = reader.cost
    whole = cost.bytes_read >= tensor.size_bytes * reader.node.repeats  # not an operator that reads parts
    return cost.ledger == "modelled" and cost.op_class in _UNPACKS and whole


def _reading_packed(reader: Costed, unpacking: Costed, *, pays: bool) -> Costed:
    """Return a reader of the quantised values; one of the readers is charged with the work of unpacking them."""
    packed, wide = unpacking.node.x, unpacking.node.y
    inputs = tuple(packed if t is not None and t.name == wide.name else t for t in reader.node.inputs)
    times = sum(t is not None and t.name == wide.name for t in reader.node.inputs) * reader.node.repeats
    cost = replace(
        reader.cost,
        flops_other=reader.cost.flops_other + (unpacking.cost.flops_other if pays else 0),
        bytes_read=reader.cost.bytes_read - times * (wide.size_bytes - packed.size_bytes),
    )
    return Costed(replace(reader.node, inputs=inputs), cost)


def _reader_counts(costed: Sequence[Costed]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in costed:
        for name in {tensor.name for tensor in item.node.inputs if tensor is not None}:
            counts[name] = counts.get(name, 0) + 1
    return counts


def _producer(
    item: Costed,
    chains: Sequence[_Chain],
    makers: Mapping[str, int],
    readers: Mapping[str, int],
    outputs: frozenset[str],
) -> int | None:
    """Return the chain that an operator joins, or ``None``."""
    cost = item.cost
    if cost.ledger != "modelled" or (cost.op_class != "elementwise" and item.node.op != "BatchNormalization"):
        return None
    found: list[tuple[bool, int]] = []
    for tensor in item.node.inputs:
        index = makers.get(tensor.name) if tensor is not None else None
        if tensor is None or index is None or readers[tensor.name] != 1 or tensor.name in outputs:
            continue
        chain = chains[index]
        fits = chain.last.name == tensor.name and tensor.elements == item.node.y.elements
        if fits and chain.cost.op_class in _PRODUCERS and chain.members[0].repeats == item.node.repeats:
            found.append((chain.cost.op_class in _PRODUCTS, index))
    return max(found)[1] if found else None


def _join(chain: _Chain, item: Costed) -> None:
    inner, node = chain.last, item.node
    first = chain.members[0]
    if node.op == "BatchNormalization" and len(chain.members) == 1 and _takes_scales(first):
        chain.cost = _with_folded_scale(chain.cost, first, node)
    else:
        reads = sum(tensor is not None and tensor.name == inner.name for tensor in node.inputs)
        inner_bytes = inner.size_bytes * node.repeats
        cost = item.cost
        chain.cost = replace(
            chain.cost,
            macs=chain.cost.macs + cost.macs,
            flops_other=chain.cost.flops_other + cost.flops_other,
            bytes_read=chain.cost.bytes_read + max(cost.bytes_read - reads * inner_bytes, 0),
            bytes_written=chain.cost.bytes_written - inner_bytes + cost.bytes_written,
            weight_bytes=chain.cost.weight_bytes + cost.weight_bytes,
        )
        chain.extra += [tensor for tensor in node.inputs if tensor is not None and tensor.name != inner.name]
    chain.members.append(node)


def _takes_scales(node: OperatorNode) -> bool:
    weight = node.optional(1)
    return node.op in _FOLDS_SCALES and not node.domain and weight is not None and weight.constant


def _with_folded_scale(cost: Cost, producer: OperatorNode, norm: OperatorNode) -> Cost:
    """Return the cost of a product whose weights took up the scale: at most a bias is new."""
    if producer.optional(_FOLDS_SCALES[producer.op]) is not None:
        return cost
    bias_bytes = norm.input(2).size_bytes * norm.repeats
    return replace(
        cost,
        flops_other=cost.flops_other + _SHIFT_FLOPS * norm.y.elements * norm.repeats,
        bytes_read=cost.bytes_read + bias_bytes,
        weight_bytes=cost.weight_bytes + bias_bytes,
    )

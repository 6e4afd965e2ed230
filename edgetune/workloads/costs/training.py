"""Costs of a training step from the forward pass: gradients of inputs and of weights, and the optimiser."""

from collections.abc import Sequence
from dataclasses import replace

from edgetune.artifacts.ops import OpRow
from edgetune.workloads.costs.node import Cost, GraphTensor, OperatorNode
from edgetune.workloads.costs.walk import Costed, to_row

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
    for group in reversed(backward):
        rows.extend(group)
    rows.extend(_optimiser(tensor) for tensor in parameters)
    return rows


def _backward(item: Costed, wanted: Sequence[GraphTensor], trainable: set[str]) -> list[OpRow]:
    node, cost = item.node, item.cost
    if cost.op_class in PRODUCTS and node.op not in ATTENTION:
        return _product_gradients(node, cost, wanted, trainable)
    if cost.op_class == "gather":
        return [_embedding_gradient(node, cost)]
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


def _embedding_gradient(node: OperatorNode, cost: Cost) -> OpRow:
    """Return the row of an embedding's gradient: the dense gradient of the table is cleared, then rows are added."""
    added = replace(
        cost,
        flops_other=node.y.elements,
        bytes_read=cost.bytes_moved,
        bytes_written=node.x.size_bytes + cost.bytes_written,
        weight_bytes=0,
        kernels=2,
    )
    return to_row(node, added, "backward", "/backward")


def _optimiser(parameter: GraphTensor) -> OpRow:
    size_bytes = parameter.size_bytes
    cost = Cost(
        "optimiser", flops_other=OPTIMISER_FLOPS * parameter.elements, bytes_read=3 * size_bytes,
        bytes_written=(OPTIMISER_PASSES - 3) * size_bytes, weight_bytes=size_bytes,
    )  # fmt: skip
    node = OperatorNode(f"{parameter.name}/optimiser", "SGD", (parameter,), (parameter,))
    return replace(to_row(node, cost, "optimiser"), precision=None)

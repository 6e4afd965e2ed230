"""The cost formula of each operator type."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from edgetune.workloads.costs.formulas import attention, linear, movement, pointwise, runtime_fused
from edgetune.workloads.costs.node import UNMODELLED, ZERO, Cost, OperatorNode, Parts, UnknownShapeError
from edgetune.workloads.model_storage import refuse_malformed

Formula = Callable[[OperatorNode], Cost]

FORMULAS: dict[str, Formula] = {}
"""Formula by operator type of ONNX's own operator set; ``register`` adds entries."""

CONTRIB: dict[str, Formula] = {}
"""Formula by operator type of ONNX Runtime's own operator set, ``com.microsoft``."""

_DOMAINS = {"": FORMULAS, "ai.onnx": FORMULAS, "com.microsoft": CONTRIB}


def register(formula: Formula, ops: Iterable[str], formulas: dict[str, Formula] = FORMULAS) -> None:
    """Register ``formula`` for the operators ``ops`` in ``formulas``.

    Raises:
        ValueError: an operator has a formula already.
    """
    for op in ops:
        if op in formulas:
            raise ValueError(f"operator {op} has a formula already: {formulas[op].__name__}")
        formulas[op] = formula


def cost_of(node: OperatorNode) -> Cost:
    """Return the cost of one operator; ``UNMODELLED`` without a formula.

    A value that can be computed before the network runs (all inputs constant, or the shape of a tensor) costs nothing.

    Raises:
        InputError: the formula needs a shape that is unknown.
    """
    if node.outputs and all(tensor is None or tensor.constant for tensor in node.outputs):
        return ZERO
    formula = _DOMAINS.get(node.domain, {}).get(node.op)
    if formula is None:
        return UNMODELLED
    # The operator has an invalid rank or attribute, or an input is missing.
    with refuse_malformed(f"node {node.name!r} ({node.op})"):
        try:
            cost, times = formula(node), node.repeats  # each run reads the weights
        except UnknownShapeError:
            return UNMODELLED
    return replace(
        cost,
        macs=times * cost.macs,
        flops_other=times * cost.flops_other,
        bytes_read=times * cost.bytes_read,
        bytes_written=times * cost.bytes_written,
        weight_bytes=times * cost.weight_bytes,
        kernels=times * cost.kernels,
        parts=Parts(times * cost.parts.bytes_read, times * cost.parts.bytes_written, times * cost.parts.kernels),
    )


def has_formula(node: OperatorNode) -> bool:
    """Return whether the cost of an operator follows from its shapes."""
    return node.op in _DOMAINS.get(node.domain, {})


register(linear.conv, ("Conv", "ConvInteger", "QLinearConv"))
register(linear.conv_transpose, ("ConvTranspose",))
register(linear.gemm, ("Gemm",))
register(linear.matmul, ("MatMul", "MatMulInteger", "QLinearMatMul"))
register(linear.einsum, ("Einsum",))
register(attention.attention, ("Attention",))
register(attention.rotary_embedding, ("RotaryEmbedding",))
register(linear.recurrent, ("LSTM", "GRU", "RNN"))
register(pointwise.elementwise, pointwise.ELEMENTWISE_FLOPS)
register(pointwise.variadic, ("Sum", "Max", "Min", "Mean"))
register(pointwise.batch_norm, ("BatchNormalization",))
register(pointwise.normalisation, pointwise.NORM_FLOPS)
register(pointwise.local_response_norm, ("LRN",))
register(pointwise.reduction, pointwise.REDUCTION_FLOPS)
register(pointwise.pooling, ("MaxPool", "AveragePool", "LpPool"))
register(pointwise.global_pooling, ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
register(pointwise.dropout, ("Dropout",))
register(pointwise.cross_entropy, ("SoftmaxCrossEntropyLoss",))
register(pointwise.negative_log_likelihood, ("NegativeLogLikelihoodLoss",))
register(movement.copy, ("Concat", "Transpose", "Pad", "Tile", "Expand", "DepthToSpace", "SpaceToDepth"))
register(movement.copy, ("Trilu", "ReverseSequence", "CenterCropPad", "OneHot"))
register(movement.part, ("Slice", "Split"))
register(movement.gather, ("Gather", "GatherElements", "GatherND"))
register(movement.scatter, ("Scatter", "ScatterElements", "ScatterND", "MaxUnpool"))
register(movement.resize, ("Resize", "Upsample"))
register(movement.fill, ("ConstantOfShape", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"))
register(movement.fill, ("Range", "EyeLike"))
register(movement.fill, ("Bernoulli", "Multinomial"))
register(movement.update, ("TensorScatter",))
register(movement.joined, ("ConcatFromSequence",))
register(movement.top_k, ("TopK",))
register(movement.non_max_suppression, ("NonMaxSuppression",))
register(movement.select, ("NonZero", "Compress", "Unique"))
register(movement.roi_align, ("RoiAlign",))
register(movement.grid_sample, ("GridSample",))
register(movement.affine_grid, ("AffineGrid",))
register(movement.deform_conv, ("DeformConv",))
register(movement.col2im, ("Col2Im",))
register(movement.dft, ("DFT",))
register(movement.stft, ("STFT",))
register(movement.window, ("BlackmanWindow", "HammingWindow", "HannWindow"))
register(movement.control_flow, ("If", "Loop", "Scan"))
register(movement.view, ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Constant", "Shape", "Size"))
register(movement.view, ("BitCast", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceLength"))
register(movement.view, ("SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt"))

register(attention.packed_attention, ("Attention", "QAttention"), CONTRIB)
register(attention.multi_head_attention, ("MultiHeadAttention",), CONTRIB)
register(attention.grouped_query_attention, ("GroupQueryAttention",), CONTRIB)
register(attention.rotary_embedding, ("RotaryEmbedding",), CONTRIB)
register(linear.conv, ("QLinearConv",), CONTRIB)
register(linear.matmul_nbits, ("MatMulNBits",), CONTRIB)
register(movement.copy, ("Pad", "Trilu"), CONTRIB)
register(movement.gather, ("GatherND",), CONTRIB)
register(pointwise.elementwise, ("QuantizeLinear", "DequantizeLinear"), CONTRIB)
register(linear.quantised_lstm, ("DynamicQuantizeLSTM",), CONTRIB)
register(runtime_fused.elementwise, runtime_fused.FUSED_FLOPS, CONTRIB)
register(runtime_fused.skip_layer_norm, ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), CONTRIB)
register(runtime_fused.embed_layer_norm, ("EmbedLayerNormalization",), CONTRIB)
register(runtime_fused.group_norm, ("GroupNorm", "SkipGroupNorm"), CONTRIB)
register(runtime_fused.fused_conv, ("FusedConv",), CONTRIB)
register(runtime_fused.fused_gemm, ("FusedGemm",), CONTRIB)
register(runtime_fused.fused_matmul, ("FusedMatMul", "TransposeMatMul"), CONTRIB)
register(runtime_fused.qgemm, ("QGemm",), CONTRIB)
register(runtime_fused.dynamic_matmul, ("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), CONTRIB)
register(runtime_fused.quantised_pooling, ("QLinearAveragePool", "QLinearGlobalAveragePool"), CONTRIB)
register(runtime_fused.gather_packed, ("GatherBlockQuantized",), CONTRIB)
register(runtime_fused.bias_dropout, ("BiasDropout",), CONTRIB)

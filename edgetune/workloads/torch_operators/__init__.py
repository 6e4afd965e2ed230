"""ONNX operators as PyTorch functions: one table row per operator.

A row makes, once per node, the function that runs it: attributes and constant inputs are read then, so that a forward
pass does not read the graph. To add an operator, write its row, and its function in the file of its kind.
``LSTM`` and ``GRU``, which are modules with weights of their own, are in ``recurrent``.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch
from torch.nn import functional

from edgetune.workloads.torch_operators import arithmetic, layout, windows
from edgetune.workloads.torch_operators.arithmetic import configured, plain
from edgetune.workloads.torch_operators.node import Make

OPERATORS: Mapping[str, Make] = {
    "Add": plain(operator.add),
    "Sub": plain(operator.sub),
    "Mul": plain(operator.mul),
    "Div": plain(arithmetic.divide),
    "Mod": arithmetic.modulo,
    "Pow": plain(arithmetic.power),
    "Sqrt": plain(torch.sqrt),
    "Erf": plain(torch.erf),
    "Neg": plain(torch.neg),
    "Exp": plain(torch.exp),
    "Log": plain(torch.log),
    "Abs": plain(torch.abs),
    "Reciprocal": plain(torch.reciprocal),
    "Floor": plain(torch.floor),
    "Ceil": plain(torch.ceil),
    "Sin": plain(torch.sin),
    "Cos": plain(torch.cos),
    "Min": arithmetic.chain(torch.minimum),
    "Max": arithmetic.chain(torch.maximum),
    "Sum": arithmetic.chain(operator.add),
    "Equal": plain(torch.eq),
    "Less": plain(torch.lt),
    "Greater": plain(torch.gt),
    "Not": plain(torch.logical_not),
    "LessOrEqual": plain(torch.le),
    "GreaterOrEqual": plain(torch.ge),
    "And": plain(torch.logical_and),
    "Or": plain(torch.logical_or),
    "Where": plain(arithmetic.where),
    "Identity": plain(lambda x: x),
    "Relu": plain(torch.relu),
    "LeakyRelu": configured(functional.leaky_relu, alpha=0.01),
    "PRelu": plain(arithmetic.prelu),
    "Elu": configured(functional.elu, alpha=1.0),
    "Sigmoid": plain(torch.sigmoid),
    "Tanh": plain(torch.tanh),
    "Softplus": plain(functional.softplus),
    "HardSwish": plain(functional.hardswish),
    "HardSigmoid": arithmetic.hard_sigmoid,
    "Mish": plain(functional.mish),
    "Gelu": configured(lambda x, how: functional.gelu(x, approximate=how), approximate="none"),
    "Clip": arithmetic.clip,
    "Softmax": arithmetic.softmax(torch.softmax),
    "LogSoftmax": arithmetic.softmax(torch.log_softmax),
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "MaxPool": windows.max_pool,
    "AveragePool": windows.average_pool,
    "Resize": windows.resize,
    "Pad": windows.pad,
    "GlobalAveragePool": arithmetic.global_pool(torch.mean),
    "GlobalMaxPool": arithmetic.global_pool(torch.amax),
    "BatchNormalization": arithmetic.batch_norm,
    "LayerNormalization": arithmetic.layer_norm,
    "InstanceNormalization": arithmetic.instance_norm,
    "LRN": arithmetic.local_response_norm,
    "Dropout": arithmetic.dropout,
    "Gemm": arithmetic.gemm,
    "MatMul": plain(torch.matmul),
    "ReduceMean": arithmetic.reduce(torch.mean),
    "ReduceSum": arithmetic.reduce(torch.sum),
    "ReduceMax": arithmetic.reduce(torch.amax),
    "ReduceMin": arithmetic.reduce(torch.amin),
    "ArgMax": arithmetic.arg(torch.argmax),
    "ArgMin": arithmetic.arg(torch.argmin),
    "Flatten": configured(layout.flatten, axis=1),
    "Reshape": layout.reshape,
    "Transpose": configured(layout.transpose, perm=None),
    "Concat": layout.concat,
    "Split": layout.split,
    "Slice": layout.slice_,
    "Squeeze": layout.squeeze,
    "Unsqueeze": layout.unsqueeze,
    "Gather": layout.gather,
    "Cast": layout.cast,
    "Shape": configured(layout.shape, start=0, end=None),
    "ConstantOfShape": layout.constant_of_shape,
    "Expand": layout.expand,
    "Range": plain(layout.range_),
    "Tile": layout.tile,
}
"""Operator type to the function that makes its implementation for one node."""

"""ONNX operators as PyTorch functions, those of the zoo and of recurrent cells: one table row per operator.

A row makes, once per node, the function that runs it: attributes and constant inputs are read then, so that a forward
pass does not read the graph. To add an operator, write its row, and its function in the file of its kind.
``LSTM`` and ``GRU``, which are modules with weights of their own, are in ``recurrent``.
"""

import operator
from collections.abc import Mapping

import torch
from torch.nn import functional

from edgetune.workloads.torch_operators import arithmetic, layout
from edgetune.workloads.torch_operators.arithmetic import Make, configured, plain

OPERATORS: Mapping[str, Make] = {
    "Add": plain(operator.add),
    "Sub": plain(operator.sub),
    "Mul": plain(operator.mul),
    "Div": plain(arithmetic.divide),
    "Erf": plain(torch.erf),
    "Identity": plain(lambda x: x),
    "Relu": plain(torch.relu),
    "LeakyRelu": configured(functional.leaky_relu, alpha=0.01),
    "Sigmoid": plain(torch.sigmoid),
    "Tanh": plain(torch.tanh),
    "HardSwish": plain(functional.hardswish),
    "HardSigmoid": arithmetic.hard_sigmoid,
    "Clip": arithmetic.clip,
    "Softmax": arithmetic.softmax,
    "Conv": layout.conv,
    "MaxPool": layout.max_pool,
    "Resize": layout.resize,
    "GlobalAveragePool": plain(lambda x: x.mean(dim=tuple(range(2, x.dim())), keepdim=True)),
    "BatchNormalization": arithmetic.batch_norm,
    "LayerNormalization": arithmetic.layer_norm,
    "LRN": arithmetic.local_response_norm,
    "Dropout": arithmetic.dropout,
    "Gemm": arithmetic.gemm,
    "MatMul": plain(torch.matmul),
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
}
"""Operator type to the function that makes its implementation for one node."""

"""The operator table of a peak kernel: the same operator as often as a step runs it."""

from __future__ import annotations

from dataclasses import replace

from edgetune.artifacts.header import Header
from edgetune.artifacts.ops import KIND, VERSION, OpsTable
from edgetune.workloads.costs.node import Cost, GraphTensor, OperatorNode, streamed
from edgetune.workloads.costs.walk import to_row
from edgetune.workloads.kernels import KERNELS, MATMUL, BenchmarkKernel
from edgetune.workloads.workload import Workload


def kernel_table(workload: Workload, kernel: BenchmarkKernel) -> OpsTable:
    """Return the table of one step of a kernel.

    Args:
        workload: Its name and provenance.
        kernel: What it runs.
    """
    row = replace(to_row(_node(kernel), _cost(kernel)), precision=None)  # its operands do not tell TF32 from FP32
    conditions = {"task": "infer", "batch_size": 1, "precision": kernel.precision, "dimensions": {}}
    return OpsTable(
        header=Header.new(
            KIND,
            VERSION,
            inputs={"workload": {"name": workload.reference, "sha256": workload.sha256}},
            conditions=conditions,
        ),
        workload=workload.name,
        task="infer",
        batch_size=1,
        precision=kernel.precision,
        parameters=0,
        loads_images=False,
        rows=tuple(replace(row, name=f"{row.name}_{run}") for run in range(kernel.repeats)),
    )


def _node(kernel: BenchmarkKernel) -> OperatorNode:
    """Return the kernel as an operator with its tensors."""
    stored = kernel.storage

    def operand(name: str, rows: int, columns: int) -> GraphTensor:
        return GraphTensor(name, (rows, columns), stored.operand, stored.operand_bytes)

    if kernel.name == MATMUL:
        inputs = (operand("a", kernel.rows, kernel.inner), operand("b", kernel.inner, kernel.columns))
        output = GraphTensor("c", (kernel.rows, kernel.columns), stored.result, stored.result_bytes)
        return OperatorNode(kernel.label, KERNELS[MATMUL], inputs, (output,))
    x, y = (operand(name, kernel.rows, kernel.columns) for name in ("x", "y"))
    return OperatorNode(kernel.label, KERNELS[kernel.name], (x,), (y,))


def _cost(kernel: BenchmarkKernel) -> Cost:
    """Return the cost of one run: each operand read once, the result written once."""
    node = _node(kernel)
    if kernel.name == MATMUL:
        return streamed(
            node, "saturated", macs=kernel.flops // 2, channels_in=kernel.inner, channels_out=kernel.columns
        )
    return streamed(node, "elementwise" if kernel.name == "relu" else "copy", flops_other=kernel.flops)

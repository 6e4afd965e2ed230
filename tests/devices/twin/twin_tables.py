"""Tiny operator tables, for tests whose answers are written out by hand."""

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import KIND, VERSION, OpRow, OpsTable

MAXN = Mode(12, 2201.6, 1300.5, 3199.0)
LOW = Mode(4, 422.4, 114.75, 665.6)


def row(op_class, *, flops=0, read=0, written=0, channels=(0, 0), kernels=1, phase="forward"):
    return OpRow(
        name="n", op="Op", op_class=op_class, phase=phase, ledger="modelled", inputs=("1",), outputs=("1",),
        dtype="float32", macs=flops // 2, flops=flops, flops_other=flops % 2, bytes_read=read, bytes_written=written,
        weight_bytes=0, channels_in=channels[0], channels_out=channels[1], kernels=kernels,
    )  # fmt: skip


def table(*rows, task="infer", batch_size=1, precision="fp32", images=False, workload="tiny"):
    header = Header.new(KIND, VERSION)
    return OpsTable(header, workload, task, batch_size, precision, 1000, images, tuple(rows))


def mixed(**options):
    """A table with every group in it, some operators bound by memory and some by arithmetic."""
    return table(
        row("conv", flops=3_000_000_000, read=8_000_000, written=4_000_000, channels=(64, 128)),
        row("conv", flops=40_000_000, read=9_000_000, written=4_000_000, channels=(3, 16)),
        row("normalisation", flops=1_000_000, read=4_000_000, written=4_000_000),
        row("depthwise", flops=30_000_000, read=3_000_000, written=3_000_000, channels=(1, 96)),
        row("elementwise", flops=1_000_000, read=4_000_000, written=4_000_000),
        row("rnn", flops=20_000_000, read=5_000_000, written=10_000, kernels=5),
        row("gemm", flops=900_000_000, read=6_000_000, written=4_000),
        row("view", kernels=0),
        **options,
    )

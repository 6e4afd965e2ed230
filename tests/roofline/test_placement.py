"""Networks beneath a roof, in closed form and as properties of any table of operators.

Language models beneath a roof: tokens per second and joules per token against their closed forms.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.roofline import Roof
from edgetune.errors import InputError
from edgetune.stages.roofline.placement import TokenBound, layers_time, place, token_bound
from edgetune.workflows.roofline.sections import words
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

_MODE = Mode(12, 2201.6, 1300.5, 3199.0)
_ROOF = Roof(_MODE, "fp32", 100.0, 10.0, 4.0, 1.0, 3.0)
"""Balance in time 10, in energy (3 + 0.4)/(1 + 0.08) = 3.15 FLOP per byte."""


def _row(name: str, flops: int, moved: int, **changed: object) -> OpRow:
    row = OpRow(name, "Conv", "conv", "forward", "modelled", (), (), "float32", flops // 2, flops, 0, moved, 0, 0)
    return replace(row, **changed)  # type: ignore[arg-type]


def _table(rows: Sequence[OpRow], **changed: object) -> OpsTable:
    table = OpsTable(Header("ops", 1, "", ""), "net", "infer", 1, "fp32", 0, False, tuple(rows))
    return replace(table, **changed)  # type: ignore[arg-type]


_VIEW = _row("view", 0, 0, op="Reshape", op_class="view", ledger="zero", kernels=0)
_COMPUTE, _COPY = _row("conv", 400, 10), _row("relu", 0, 30, bytes_read=20, bytes_written=10)


def test_a_network_of_two_layers() -> None:
    """400 FLOP and 40 bytes: 4 s at either roof as a whole, 4 s + 3 s layer by layer."""
    found = place(_table([_COMPUTE, _COPY, _VIEW]), _ROOF, measured_s=8.0)
    assert (found.workload, found.batch_size, found.roof) == ("net", 1, _ROOF)
    assert (found.flops, found.bytes_moved, found.flop_per_byte) == (400, 40, 10.0)
    assert (found.roof_s, found.layers_s) == (pytest.approx(4), pytest.approx(7))
    assert found.roof_j == pytest.approx(400 * 1 + 40 * 3 + 4 * 4)
    assert found.layers_j == pytest.approx(400 * 1 + 40 * 3 + 4 * 7)
    conv, relu, view = found.rows
    assert (conv.name, conv.bound, conv.seconds, conv.energy_j) == ("conv", "compute", 4.0, 400 + 30 + 16)
    assert (relu.bound, relu.seconds, relu.flop_per_byte) == ("memory", 3.0, 0.0)
    assert (view.bound, view.seconds, view.flop_per_byte) == (None, 0.0, None)
    assert (found.unmodelled, found.unmodelled_nodes) == ((), 0)


@pytest.mark.parametrize(
    ("measured_s", "above", "told"),
    [
        (14.0, False, "it takes 2 times the least time: the rest is launches"),
        (7.2, False, "it takes 1.03 times the least time: it reaches its roof"),
        (6.8, False, "it takes 0.971 times the least time: it reaches its roof"),
        (1.4, True, "it is faster than its roof"),
    ],
)
def test_a_network_at_its_roof_reaches_it_and_above_it_nothing_bounds_it(
    measured_s: float, above: bool, told: str
) -> None:
    found = place(_table([_COMPUTE, _COPY]), _ROOF, measured_s=measured_s)
    assert found.above is above
    assert words(found, _ROOF)[-1].startswith(told)


@pytest.mark.parametrize(
    ("flops", "moved", "time", "energy", "largest"),
    [
        (1100, 100, "compute", "compute", "compute"),
        (900, 100, "memory", "compute", "compute"),  # between the two balance points
        (310, 100, "memory", "memory", "compute"),  # below both, though its FLOP cost more than its bytes
        (100, 100, "memory", "memory", "memory"),
        (0, 100, "memory", "memory", "memory"),
        (100, 0, "compute", "compute", "compute"),
    ],
)
def test_bounds_in_time_and_in_energy(flops: int, moved: int, time: str, energy: str, largest: str) -> None:
    found = place(_table([_row("one", flops, moved)]), _ROOF)
    assert (found.bound, found.energy_bound, found.largest_energy) == (time, energy, largest)


def test_a_roof_of_another_precision_is_refused() -> None:
    with pytest.raises(InputError, match="costed in fp32, and the roof is of fp16"):
        place(_table([_COMPUTE]), replace(_ROOF, precision="fp16"))
    assert place(_table([_COMPUTE]), replace(_ROOF, precision="tf32")).roof_s == 4.0


_rows = st.lists(
    st.builds(_row, st.just("row"), st.integers(0, 10**12), st.integers(0, 10**12), kernels=st.integers(0, 9)),
    min_size=1, max_size=8,
).filter(lambda rows: any(row.flops or row.bytes_read for row in rows))  # fmt: skip
_some_roof = st.builds(
    Roof, st.just(_MODE), st.just("fp32"), st.floats(1e9, 1e15), st.floats(1e8, 1e13), st.floats(0, 100),
    st.floats(1e-13, 1e-9), st.floats(1e-12, 1e-8),
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(rows=_rows, roof=_some_roof)
def test_layers_never_take_less_than_the_whole(rows: list[OpRow], roof: Roof) -> None:
    table = _table(rows)
    found = place(table, roof)
    assert found.layers_s >= found.roof_s * (1 - 1e-12)
    assert found.layers_s == pytest.approx(sum(row.seconds for row in found.rows))
    assert found.layers_j is not None
    assert found.roof_j is not None
    assert found.layers_j >= found.roof_j * (1 - 1e-12)
    assert found.layers_j == pytest.approx(sum(row.energy_j or 0.0 for row in found.rows))
    assert layers_time(table, roof) == pytest.approx(found.layers_s)
    for row in found.rows:
        assert row.seconds >= max(row.flops / roof.flops_per_s, row.bytes_moved / roof.bytes_per_s)


@settings(deadline=None, max_examples=100)
@given(rows=_rows, roof=_some_roof, faster=st.floats(1, 10))
def test_higher_roofs_never_take_longer(rows: list[OpRow], roof: Roof, faster: float) -> None:
    table = _table(rows)
    for better in (
        replace(roof, flops_per_s=roof.flops_per_s * faster), replace(roof, bytes_per_s=roof.bytes_per_s * faster)
    ):  # fmt: skip
        assert layers_time(table, better) <= layers_time(table, roof) * (1 + 1e-12)


_ROOF_TOKENS = Roof(Mode(12), "fp16", 1000.0, 10.0, 4.0, 0.5, 3.0)
"""Balance in time at 100 FLOP per byte."""


def _table_tokens(phase: str, context: int, tokens: int, batch_size: int, flops: int, **bytes_of: int) -> OpsTable:
    """A model of one operator that reads its weights and its cache."""
    weights, cache = bytes_of["weights"], bytes_of["cache"]
    moved = weights + cache
    row = OpRow(
        "all", "Gemm", "gemm", "forward", "modelled", (), (), "float16", flops // 2, flops, 0, moved, 0, weights
    )
    point = {"phase": phase, "context": context, "tokens": tokens, "weights_bytes": weights, "cache_bytes": cache}
    header = Header("ops", 1, "", "", conditions=point)
    return OpsTable(header, "lm", "infer", batch_size, "fp16", 0, False, (row,))


def _bound(
    table: OpsTable, roof: Roof = _ROOF_TOKENS, memory_bytes: int | None = None, **measured: float
) -> TokenBound:
    found = token_bound(place(table, roof, **measured), memory_bytes=memory_bytes)
    assert found is not None
    return found


def test_decoding_bound_by_memory_is_bandwidth_over_weights_and_cache() -> None:
    found = _bound(_table_tokens("decode", 8, 1, 1, 60, weights=30, cache=10))
    assert found.name == "decode 8"
    assert found.tokens_per_s == pytest.approx(10.0 / (30 + 10))
    assert found.token_j == pytest.approx(60 * 0.5 + 40 * 3.0 + 4.0 * 4.0)
    assert found.first_token_s is None


def test_a_minibatch_shares_the_weights_and_nothing_else() -> None:
    found = _bound(_table_tokens("decode", 8, 5, 5, 300, weights=30, cache=50))
    assert (found.batch_size, found.tokens) == (5, 5)
    assert found.tokens_per_s == pytest.approx(5 * 10.0 / (30 + 5 * 10))


def test_a_prefill_bound_by_computing_is_peak_over_flop_of_a_token_and_ends_with_the_first_token() -> None:
    found = _bound(_table_tokens("prefill", 64, 2 * 64, 2, 128 * 60, weights=30, cache=20))
    assert found.tokens_per_s == pytest.approx(1000.0 / 60)
    assert found.first_token_s == found.pass_s == pytest.approx(128 * 60 / 1000.0)
    assert found.token_j == pytest.approx((128 * 60 * 0.5 + 50 * 3.0 + 4.0 * found.pass_s) / 128)


@pytest.mark.parametrize(("memory", "fits"), [(40, True), (39, False), (None, None)])
def test_weights_and_cache_fit_or_not_or_the_memory_is_unknown(memory: int | None, fits: bool | None) -> None:
    found = _bound(_table_tokens("decode", 8, 1, 1, 60, weights=30, cache=10), memory_bytes=memory)
    assert (found.fits, found.memory_bytes) == (fits, memory)


def test_llama_2_7b_on_a_board_of_204_8_gb_per_second(tmp_path: Path) -> None:
    """As published: 6.74 G parameters, so 13.5 GB and 2 x 6.74 GFLOP a token; 204.8 GB/s is AGX Orin's data sheet."""
    path = tmp_path / "llama-2-7b.yaml"
    path.write_text("{layers: 32, hidden: 4096, heads: 32, kv_heads: 32, vocab: 32000, ffn: 11008}")
    roof = Roof(Mode(12), "fp16", 33e12, 204.8e9)
    weights, table_of_embeddings, cache = 2 * 6_738_415_616, 2 * 32000 * 4096, 2048 * 2 * 32 * 4096 * 2

    def bound(**dimensions: int) -> TokenBound:
        table = operator_table(resolve(f"llm:{path}"), "infer", 1, precision="fp16", dimensions=dimensions)
        assert table.flops / table.header.conditions["tokens"] == pytest.approx(2 * 6.74e9, rel=0.1)
        return _bound(table, roof, memory_bytes=64 << 30)

    decode = bound(past=2048)
    assert decode.weights_bytes == weights
    assert decode.tokens_per_s == pytest.approx(204.8e9 / (weights - table_of_embeddings + cache), rel=0.002)
    assert decode.fits
    prefill = bound(tokens=512)
    assert prefill.tokens_per_s == pytest.approx(33e12 / (2 * 6.74e9), rel=0.1)
    assert prefill.first_token_s == pytest.approx(512 * 2 * 6.74e9 / 33e12, rel=0.1)

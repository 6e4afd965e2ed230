"""Language models beneath a roof: tokens per second and joules per token against their closed forms."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.roofline import Roof
from edgetune.stages.roofline.placement import TokenBound, place, token_bound
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

_ROOF = Roof(Mode(12), "fp16", 1000.0, 10.0, 4.0, 0.5, 3.0)
"""Balance in time at 100 FLOP per byte."""


def _table(phase: str, context: int, tokens: int, batch_size: int, flops: int, **bytes_of: int) -> OpsTable:
    """A model of one operator that reads its weights and its cache."""
    weights, cache = bytes_of["weights"], bytes_of["cache"]
    moved = weights + cache
    row = OpRow(
        "all", "Gemm", "gemm", "forward", "modelled", (), (), "float16", flops // 2, flops, 0, moved, 0, weights
    )
    point = {"phase": phase, "context": context, "tokens": tokens, "weights_bytes": weights, "cache_bytes": cache}
    header = Header("ops", 1, "", "", conditions=point)
    return OpsTable(header, "lm", "infer", batch_size, "fp16", 0, False, (row,))


def _bound(table: OpsTable, roof: Roof = _ROOF, memory_bytes: int | None = None, **measured: float) -> TokenBound:
    found = token_bound(place(table, roof, **measured), memory_bytes=memory_bytes)
    assert found is not None
    return found


def test_decoding_bound_by_memory_is_bandwidth_over_weights_and_cache() -> None:
    found = _bound(_table("decode", 8, 1, 1, 60, weights=30, cache=10))
    assert found.name == "decode 8"
    assert found.tokens_per_s == pytest.approx(10.0 / (30 + 10))
    assert found.token_j == pytest.approx(60 * 0.5 + 40 * 3.0 + 4.0 * 4.0)
    assert found.first_token_s is None


def test_a_minibatch_shares_the_weights_and_nothing_else() -> None:
    found = _bound(_table("decode", 8, 5, 5, 300, weights=30, cache=50))
    assert (found.batch_size, found.tokens) == (5, 5)
    assert found.tokens_per_s == pytest.approx(5 * 10.0 / (30 + 5 * 10))


def test_a_prefill_bound_by_computing_is_peak_over_flop_of_a_token_and_ends_with_the_first_token() -> None:
    found = _bound(_table("prefill", 64, 2 * 64, 2, 128 * 60, weights=30, cache=20))
    assert found.tokens_per_s == pytest.approx(1000.0 / 60)
    assert found.first_token_s == found.pass_s == pytest.approx(128 * 60 / 1000.0)
    assert found.token_j == pytest.approx((128 * 60 * 0.5 + 50 * 3.0 + 4.0 * found.pass_s) / 128)


@pytest.mark.parametrize(("memory", "fits"), [(40, True), (39, False), (None, None)])
def test_weights_and_cache_fit_or_not_or_the_memory_is_unknown(memory: int | None, fits: bool | None) -> None:
    found = _bound(_table("decode", 8, 1, 1, 60, weights=30, cache=10), memory_bytes=memory)
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


@settings(deadline=None, max_examples=100)
@given(
    flops=st.integers(0, 10**12), weights=st.integers(1, 10**10), cache=st.integers(0, 10**10),
    tokens=st.integers(1, 4096), faster=st.floats(1, 10),
)  # fmt: skip
def test_higher_roofs_allow_more_tokens_and_longer_caches_fewer(
    flops: int, weights: int, cache: int, tokens: int, faster: float
) -> None:
    table = _table("decode", 8, tokens, tokens, flops, weights=weights, cache=cache)
    found = _bound(table)
    better = replace(_ROOF, bytes_per_s=_ROOF.bytes_per_s * faster, flops_per_s=_ROOF.flops_per_s * faster)
    assert _bound(table, better).tokens_per_s == pytest.approx(faster * found.tokens_per_s)
    longer = _bound(_table("decode", 9, tokens, tokens, flops, weights=weights, cache=cache + 1))
    assert longer.tokens_per_s <= found.tokens_per_s

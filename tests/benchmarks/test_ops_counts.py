"""By the rules of the study our operator tables give the totals that it publishes."""

import pytest
from ops_counts import bytes_there, lstm_there, reasons

from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve


@pytest.mark.parametrize(
    ("network", "batch_size", "published"),
    [
        ("mobilenet_v3_large", 1, 102_976_672),
        ("mobilenet_v3_large", 64, 5_216_786_464),
        ("resnet50", 1, 336_671_392),
        ("resnet50", 64, 15_120_235_264),
        ("yolov8n", 1, 539_346_304),
        ("yolov8n", 64, 33_725_327_104),
        ("bert_large", 1, 2_601_011_072),
        ("bert_large", 64, 89_999_925_248),
    ],
)
def test_bytes_by_their_rules_are_their_bytes(network, batch_size, published):
    """Source: Pagoda's analytical table, analytical_flops_mem.csv."""
    table = operator_table(resolve(f"zoo:{network}"), "infer", batch_size)
    assert bytes_there(table, norms=False) == pytest.approx(published, rel=0.002)


@pytest.mark.parametrize(("network", "published"), [("resnet50", 425.80e6), ("mobilenet_v3_large", 138.27e6)])
def test_their_printed_table_has_normalisation_as_layers(network, published):
    table = operator_table(resolve(f"zoo:{network}"), "infer", 1)
    assert bytes_there(table, norms=True) == pytest.approx(published, rel=0.002)
    assert "folded" not in reasons(table, norms=True)
    assert "folded" in reasons(table, norms=False)


def test_their_lstm_to_the_byte():
    """The analytical table at batch 1 and 64; 0.023 GFLOP and 34.48 MB in print."""
    assert lstm_there(1, decoded=8) == (129_003_520, 35_322_336)
    assert lstm_there(64, decoded=8) == (7_721_549_824, 95_929_344)
    assert lstm_there(1, decoded=1) == (pytest.approx(0.023e9, abs=0.001e9), pytest.approx(34.48e6, rel=0.001))

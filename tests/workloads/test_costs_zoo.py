"""The zoo's costs against published figures."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from edgetune.artifacts.ops import OpsTable
from edgetune.workloads import zoo
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve

TORCHVISION = Path(__file__).parents[2] / "../shared/data/torchvision/ops.csv"
TORCHVISION_NAMES = {
    "MobileNet_V3_Large": "mobilenet_v3_large",
    "MobileNet_V2": "mobilenet_v2",
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
    "AlexNet": "alexnet",
    "SqueezeNet1_0": "squeezenet",
}


def table(name: str, task: str = "infer", batch_size: int = 1, precision: str = "fp32") -> OpsTable:
    return operator_table(resolve(f"zoo:{name}"), task, batch_size, precision=precision)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_every_operator_of_the_zoo_is_modelled(name: str) -> None:
    assert all(row.ledger != "unmodelled" for row in table(name).rows)
    assert not table(name).header.warnings


# Pagoda (arXiv:2509.20189), table 4: analytical FLOP per inference at batch 1; of its LSTM see test_zoo.py.
@pytest.mark.parametrize(
    ("name", "gflop", "tolerance"),
    [
        ("resnet50", 8.23, 0.01),
        ("yolov8n", 8.84, 0.01),
        ("mobilenet_v3_large", 0.46, 0.02),  # printed with two digits
        ("bert_large", 79.14, 0.01),
    ],
)
def test_flop_match_the_published(name: str, gflop: float, tolerance: float) -> None:
    assert table(name).flops / 1e9 == pytest.approx(gflop, rel=tolerance)


# The same table's bytes. Its convention is not printed, so these hold an order of size, not a definition.
@pytest.mark.parametrize(
    ("name", "megabytes", "tolerance"),
    [
        ("resnet50", 425.80, 0.02),
        ("yolov8n", 539.35, 0.05),
        ("mobilenet_v3_large", 138.27, 0.05),
        ("lstm", 34.48, 1.0),  # recurrent weights read at each of 8 steps here, once there
        ("bert_large", 2601.01, 0.25),  # GELU and attention scaling counted node by node there
    ],
)
def test_bytes_are_near_the_published(name: str, megabytes: float, tolerance: float) -> None:
    assert table(name).bytes_moved / 1e6 == pytest.approx(megabytes, rel=tolerance)


@pytest.mark.skipif(not TORCHVISION.exists(), reason="the shared torchvision table is not here")
def test_macs_and_parameters_match_torchvision() -> None:
    with TORCHVISION.open() as stream:
        published = {
            TORCHVISION_NAMES[row["model"]]: (float(row["gmacs_ops"]), int(row["num_params"]))
            for row in csv.DictReader(stream)
            if row["model"] in TORCHVISION_NAMES and row["num_params"]
        }
    assert len(published) >= 4
    for name, (gmacs, parameters) in published.items():
        assert table(name).macs / 1e9 == pytest.approx(gmacs, rel=0.01), name
        assert table(name).parameters == pytest.approx(parameters, rel=0.01), name


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_large", "yolov8n", "bert_base"])
def test_training_is_about_three_times_the_forward_pass(name: str) -> None:
    # Forward, gradient to inputs, gradient to weights; a little less for the first layer, more for the optimiser.
    forward = table(name).macs
    assert 2.8 * forward < table(name, "train").macs <= 3 * forward


@pytest.mark.parametrize("name", ["resnet18", "lstm", "bert_base"])
def test_the_optimiser_updates_every_parameter_once(name: str) -> None:
    rows = [row for row in table(name, "train").rows if row.phase == "optimiser"]
    assert sum(row.bytes_read + row.bytes_written for row in rows) == 5 * 4 * table(name).parameters


@pytest.mark.parametrize("name", ["resnet18", "lstm", "bert_base"])
def test_work_is_linear_in_the_batch(name: str) -> None:
    one, eight = table(name), table(name, batch_size=8)
    assert eight.flops == 8 * one.flops
    assert eight.bytes_moved < 8 * one.bytes_moved


def test_rows_never_write_less_than_their_outputs_say() -> None:
    for row in table("mobilenet_v3_large").rows:
        if row.ledger == "modelled":
            outputs = 0
            for shape in row.outputs:
                size = 4
                for part in shape.split("x"):
                    size *= int(part)
                outputs += size
            assert row.bytes_written >= outputs, row.name

"""Samples and first answers of a run: what a handler made for a request is checked against that request's answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import live_networks
import numpy as np
import pytest

from edgetune.errors import InputError
from edgetune.stages.schedule.exchange import Exchange, read
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.python_file import HandlerFile


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    return live_networks.prepared_in(tmp_path_factory.mktemp("prepared"))


def numbered(request: int, line: str | None) -> Mapping[str, Any]:
    return {"x": np.full(live_networks.WIDE, request, np.float32)}


def test_the_sample_that_is_kept_is_that_of_the_request_that_was_answered_first(
    prepared: dict[str, Prepared], tmp_path: Path
) -> None:
    exchange = Exchange({"wide": tmp_path}, {"wide": prepared["wide"]}, {"wide": HandlerFile(numbered, None)})
    for request in (0, 1, 2):
        exchange.sample(request, "wide")
    for request in (1, 0, 2):
        exchange.take(request, "wide", {"answer": np.full((1, 10), request, np.float32)})
    assert read(tmp_path, "input", 1)[0].max() == 1
    assert read(tmp_path, "answer", 1)[0].max() == 1


def test_a_handler_gets_numbers_that_have_no_dimension_of_the_batch(
    prepared: dict[str, Prepared], tmp_path: Path
) -> None:
    got: list[Mapping[str, Any]] = []
    handler = HandlerFile(None, lambda request, line, arrays: got.append(arrays))
    exchange = Exchange({"branchy": tmp_path}, {"branchy": prepared["branchy"]}, {"branchy": handler})
    exchange.take(0, "branchy", {"scores": np.zeros((1, 10), np.float32), "peak": np.array(3.0, np.float32)})
    assert (got[0]["scores"].shape, got[0]["peak"]) == ((10,), 3.0)


def test_an_answer_that_could_not_be_written_is_not_taken_for_checked(
    prepared: dict[str, Prepared], tmp_path: Path
) -> None:
    folder = tmp_path / "later"
    exchange = Exchange({"wide": folder}, {"wide": prepared["wide"]}, {})
    outputs = {"answer": np.ones((1, 10), np.float32)}
    with pytest.raises(InputError, match="cannot write"):
        exchange.take(0, "wide", outputs)
    folder.mkdir()
    exchange.take(1, "wide", outputs)
    assert read(folder, "answer", 1)[0].max() == 1

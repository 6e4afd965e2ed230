"""Layers of real networks on worker threads answer what the whole network answers, and fail alone."""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import live_networks
import numpy as np
import onnxruntime as ort
import pytest

from edgetune.errors import InputError
from edgetune.stages.schedule import executor
from edgetune.stages.schedule.costs import network_of
from edgetune.stages.schedule.executor import PreparedLayers
from edgetune.stages.schedule.live import LiveTaskBackend
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.policies import POLICIES
from edgetune.stages.schedule.policies.policy import taken_by
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.state import Parallelism
from edgetune.stages.schedule.tasks import LayerTask
from edgetune.stages.schedule.weights import MappedWeights
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.resolve import resolve

MIB = 1 << 20
Arrays = Mapping[str, Any]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    return live_networks.prepared_in(tmp_path_factory.mktemp("prepared"))


class Kept:
    """Samples that differ between requests, and all answers that the backend leaves here."""

    def __init__(self, prepared: Mapping[str, Prepared]) -> None:
        self.prepared = prepared
        self.answers: dict[int, Arrays] = {}

    def sample(self, request: int, network: str) -> Arrays:
        generator = np.random.default_rng(request)
        return {t.name: generator.random(t.shape, dtype=np.float32) for t in self.prepared[network].inputs}


class Backend(LiveTaskBackend):
    """Keeps the answers of requests that are dropped."""

    def drop(self, request: Request) -> None:
        names, begun = self._networks[request.network].outputs, self._begun.get(request.number)
        if begun is not None and begun.values.keys() >= set(names):
            self._samples.answers[request.number] = {name: begun.values[name].numpy() for name in names}
        super().drop(request)


def whole_answer(prepared: Prepared, fed: Arrays) -> Arrays:
    session = ort.InferenceSession(str(prepared.folder / prepared.whole["default"]))
    names = [tensor.name for tensor in prepared.outputs]
    return dict(zip(names, session.run(names, dict(fed)), strict=True))


def layers(prepared: Mapping[str, Prepared]) -> dict[str, PreparedLayers]:
    return {name: PreparedLayers(each, {}, drop_cache=True) for name, each in prepared.items()}


def run(
    policy: str,
    runnables: Mapping[str, Any],
    networks: Mapping[str, LayeredNetwork],
    requests: Sequence[Request],
    answers: Any,
) -> ScheduleLoop:
    chosen = POLICIES[policy]()
    backend = Backend(runnables, workers=2, samples=answers)
    with closing(backend):
        known = taken_by(chosen, networks)
        loop = ScheduleLoop(
            chosen, backend, known, requests, budget_bytes=64 * MIB, parallelism=Parallelism(2)
        )  # fmt: skip
        backend.begin()
        loop.run()
    return loop


def requests(*names: str) -> list[Request]:
    return [Request(number, name, 0) for number, name in enumerate(names)]


@pytest.mark.parametrize("policy", ["linear", "deepeye", "masa", "reuse"])
def test_layers_answer_what_the_whole_network_answers(policy: str, prepared: dict[str, Prepared]) -> None:
    answers = Kept(prepared)
    asked = requests("branchy", "wide", "branchy", "wide")
    loop = run(policy, layers(prepared), live_networks.networks(prepared), asked, answers)
    assert [record.outcome for record in loop.requests] == ["ok"] * 4
    for request in asked:
        expected = whole_answer(prepared[request.network], answers.sample(request.number, request.network))
        for name, array in expected.items():
            np.testing.assert_allclose(answers.answers[request.number][name], array, rtol=1e-4, atol=1e-5)


CODE = 4 * MIB
"""Of libraries that run for the first time, which is mapped too; weights have more than that."""


def mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")


def damaged(prepared: Mapping[str, Prepared], folder: Path) -> dict[str, Prepared]:
    """Return the networks again, the wide one from a copy in which the second file of weights was cut short."""
    original = prepared["wide"].folder
    for path in original.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    cut = prepared["wide"].layers[1].weights[0].file
    os.truncate(folder / cut, 8 * MIB)
    return {**prepared, "wide": replace(prepared["wide"], folder=folder)}


@pytest.mark.parametrize("policy", ["linear", "masa", "reuse"])
def test_storage_that_fails_ends_the_requests_that_need_it_and_returns_their_memory(
    policy: str, prepared: dict[str, Prepared], tmp_path: Path
) -> None:
    broken = damaged(prepared, tmp_path)
    asked = requests("branchy", "wide", "branchy", "wide", "branchy")
    before = mapped_bytes()
    loop = run(policy, layers(broken), live_networks.networks(prepared), asked, Kept(prepared))
    outcomes = {record.request.number: (record.outcome, record.failure) for record in loop.requests}
    assert [outcomes[number][0] for number in range(5)] == ["ok", "failed", "ok", "failed", "ok"]
    assert f"holds {8 * MIB} bytes where {16 * MIB} were prepared" in str(outcomes[1][1])
    assert loop.state.memory.settled
    assert mapped_bytes() - before < CODE


class Spoilt(Kept):
    """One request has a sample of a wrong shape; others have none."""

    def sample(self, request: int, network: str) -> Arrays:
        if request == 2:
            raise InputError("the sample is damaged", "run the same command again")
        if request == 4:
            raise RuntimeError("nobody thought of this")
        made = super().sample(request, network)
        return made if request != 1 else {name: array[..., :5].copy() for name, array in made.items()}


def test_weights_that_cannot_be_viewed_leave_nothing_mapped(prepared: dict[str, Prepared]) -> None:
    wide = prepared["wide"]
    layer = wide.layers[0]
    odd = replace(layer, weights=(replace(layer.weights[0], dtype="banana"),))
    runnable = PreparedLayers(replace(wide, layers=(odd, *wide.layers[1:])), {}, drop_cache=True)
    with pytest.raises(TypeError):
        runnable.load(0)
    assert layer.weights[0].file not in Path("/proc/self/maps").read_text()


def test_a_request_that_fails_takes_no_other_down(prepared: dict[str, Prepared]) -> None:
    answers = Spoilt(prepared)
    loop = run("reuse", layers(prepared), live_networks.networks(prepared), requests(*["wide"] * 5), answers)
    outcomes = {record.request.number: (record.outcome, record.failure) for record in loop.requests}
    assert [outcomes[number][0] for number in range(5)] == ["ok", "failed", "failed", "ok", "failed"]
    assert "ONNX Runtime failed" in str(outcomes[1][1])
    assert str(outcomes[2][1]).endswith("the sample is damaged")
    assert str(outcomes[4][1]).endswith("RuntimeError: nobody thought of this")
    assert sorted(answers.answers) == [0, 3]
    assert loop.state.memory.settled


def test_values_are_dropped_with_their_last_reader(prepared: dict[str, Prepared]) -> None:
    """Of a chain, only the latest output is there; an answer stays until the request is finished."""
    runnable = layers(prepared)["wide"]
    backend = LiveTaskBackend({"wide": runnable}, workers=1, samples=Kept(prepared))
    request = Request(7, "wide", 0)
    alive: list[set[str]] = []
    with closing(backend):
        for layer in range(len(prepared["wide"].layers)):
            backend.start(LayerTask("load", "wide", "wide", layer, 7, 0, 0))
            backend.wait(None)
            backend.start(LayerTask("execute", "wide", "wide", layer, 7, 0, 0))
            backend.wait(None)
            alive.append(set(backend._begun[7].values))
        backend.drop(request)
        assert backend._begun == {}
    assert alive == [set(layer.outputs) for layer in prepared["wide"].layers]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    given_up_s = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < given_up_s:  # one that woke a wait may still end
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_file_that_layers_share_is_mapped_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live_networks.tied(tmp_path / "tied.onnx")
    tied = prepare(resolve(str(tmp_path / "tied.onnx")), PrepareOptions(), tmp_path / "tied")
    assert [layer.shared for layer in network_of(tied).layers] == [(("shared-000.weights", 4096),)] * 2
    mapped: list[str] = []

    def counting(path: Path, size_bytes: int, changed_ns: int | None) -> MappedWeights:
        mapped.append(path.name)
        return MappedWeights(path, size_bytes, changed_ns)

    monkeypatch.setattr(executor, "MappedWeights", counting)
    runnable = PreparedLayers(tied, {}, drop_cache=False)
    for _ in range(2):
        first, second = runnable.load(0), runnable.load(1)
        runnable.unload(first)
        (kept,) = second.values.values()
        assert kept.numpy().shape == (32, 32), "it is still there"
        runnable.unload(second)
    assert mapped == ["shared-000.weights"] * 2

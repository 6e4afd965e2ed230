"""Training runs: one by one, side by side, killed and resumed. The data are tiny, the training is real."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from edgetune.artifacts.convergence import ConvergenceRow
from edgetune.errors import DeviceError
from edgetune.stages.profiling.convergence import worker
from edgetune.stages.profiling.convergence.datasets import load_dataset
from edgetune.stages.profiling.convergence.proxy import Proxy, TrainingOptions, resolve_proxy, takes_tokens
from edgetune.stages.profiling.convergence.runs import train_all
from edgetune.stages.profiling.convergence.training import train
from edgetune.stages.profiling.journal import open_journal
from fakes.journals import entries_in

OPTIONS = TrainingOptions(0.9, max_epochs=6, learning_rate=0.02)


@pytest.fixture(scope="module")
def corners(tmp_path_factory):
    """A data set in which the label is the corner that a noisy point is nearest to; easy, and learnt in no time."""
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=600)
    points = np.stack([labels % 2, labels // 2], axis=1) + generator.normal(0, 0.2, (600, 2))
    path = tmp_path_factory.mktemp("data") / "corners.npz"
    np.savez(path, x=points, y=labels)
    return path


def mlp(path, **options) -> Proxy:
    reference = str(path)
    return Proxy(
        resolve_proxy("proxy:mlp"), load_dataset(reference).facts, reference, replace(OPTIONS, **options), "cpu"
    )


def once(path, *, batch_size=32, seed=0, reference="proxy:mlp", **options):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    data = load_dataset(str(path))
    given = replace(OPTIONS, **options)
    return train(resolve_proxy(reference), data, given, batch_size=batch_size, seed=seed, device="cpu")


def test_run_ends_at_the_first_look_that_sees_the_target(corners):
    run = once(corners)
    assert run.reached
    assert run.accuracy >= 0.9
    assert run.reason is None
    higher = once(corners, target_accuracy=0.97)
    assert higher.minibatches >= run.minibatches


def test_initial_weights_are_those_of_the_seed_at_every_batch_size():
    torch = pytest.importorskip("torch")
    from edgetune.stages.profiling.convergence.training import build_network

    shapes = load_dataset("shapes")

    def weights(batch_size, seed):
        trainee = build_network(resolve_proxy("proxy:cnn"), shapes, batch_size=batch_size, seed=seed)
        return torch.nn.utils.parameters_to_vector(trainee.module.parameters())

    assert torch.equal(weights(8, 0), weights(256, 0))
    assert not torch.equal(weights(8, 0), weights(8, 1))


def test_onnx_graph_is_trained_and_short_evaluations_are_filled_up(tmp_path, corners):
    from onnx import TensorProto, helper, numpy_helper

    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.normal(0, 0.5, shape).astype(np.float32), name)
        for name, shape in (("w1", (2, 16)), ("b1", (16,)), ("w2", (16, 4)), ("b2", (4,)))
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", k]) for n, k in (("x", 2), ("y", 4))]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], weights)
    path = tmp_path / "net.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    run = once(corners, reference=str(path), batch_size=50)  # 120 samples are held out: 50, 50 and 20
    assert run.reached


@pytest.fixture
def cycle(tmp_path):
    """Sequences in which each token follows from the one before, but for the first."""
    starts = np.random.default_rng(0).integers(5, size=300)
    tokens = (starts[:, None] + 2 * np.arange(9)) % 5
    path = tmp_path / "cycle.npz"
    np.savez(path, x=tokens[:, :8], y=tokens[:, 1:])
    return path, tokens


def of_tokens(path, reference, **options):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    workload = resolve_proxy(reference)
    assert takes_tokens(workload)
    data = load_dataset(str(path), tokens=True)
    return train(workload, data, replace(OPTIONS, **options), batch_size=16, seed=0, device="cpu")


@pytest.mark.parametrize("reference", ["proxy:lstm", "proxy:transformer"])
def test_text_networks_learn_the_next_token_or_a_label(cycle, reference):
    path, tokens = cycle
    assert of_tokens(path, reference, target_accuracy=0.99).reached
    np.savez(path, x=tokens[:, :8], y=tokens[:, 8])  # one label for a sequence
    assert of_tokens(path, reference, target_accuracy=0.99).reached


def test_a_transformer_sees_no_later_token():
    torch = pytest.importorskip("torch")
    from edgetune.stages.profiling.convergence.training import NextTokenTransformer

    network = NextTokenTransformer(11, 11, 8, layers=2, heads=6, width=16)  # heads of 2: twelve of sixteen
    tokens = torch.arange(8)[None]
    changed = tokens.clone()
    changed[0, 5] = 10
    before, after = network(tokens), network(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_onnx_graph_of_tokens_keeps_them_whole(tmp_path):
    """The zoo's LSTM takes two words and gives one score for each word of its vocabulary."""
    tokens = np.random.default_rng(0).integers(4, size=(120, 2))
    np.savez(tmp_path / "w.npz", x=tokens, y=tokens[:, 1])
    assert of_tokens(tmp_path / "w.npz", "zoo:lstm", target_accuracy=0.9, learning_rate=2e-3).reached


def test_worker_answers_for_one_run(corners):
    pytest.importorskip("torch")
    proxy = mlp(corners)
    command = {
        "workload": {**asdict(proxy.workload), "path": None},
        "dataset": str(corners),
        "options": asdict(proxy.options),
        "batch_size": 32,
        "seed": 0,
        "device": "cpu",
    }
    reply = worker.train_one(command)
    assert reply["status"] == "reached"
    assert reply["samples"] % 32 == 0
    assert reply["epochs"] == reply["samples"] / 480
    with pytest.raises(DeviceError, match="no cuda:7"):
        worker.train_one({**command, "device": "cuda:7"})


@pytest.fixture(scope="module")
def trained(corners, tmp_path_factory):
    """Two runs at batch size 16 and one at 64, two at a time: the table, its journal, and the progress told."""
    pytest.importorskip("torch")
    journal, told = tmp_path_factory.mktemp("trained") / "journal", []
    tasks = [(16, 0), (64, 0), (16, 1), (16, 0)]
    return train_all(mlp(corners), tasks, journal, jobs=2, on_run=lambda done, *_: told.append(done)), journal, told


def test_runs_side_by_side_make_a_table_and_are_not_trained_again(corners, trained, tmp_path):
    table, journal, told = trained
    proxy = mlp(corners)
    assert [(row.batch_size, row.seed) for row in table.rows] == [(16, 0), (16, 1), (64, 0)]
    assert all(row.reached and row.dataset == "corners" and row.optimizer == "adam" for row in table.rows)
    assert told == [0, 1, 2, 3]
    assert table.header.conditions["device"] == "cpu"
    assert table.header.conditions["samples_per_epoch"] == 480

    again = train_all(proxy, [(16, 0), (64, 0), (16, 1)], journal, jobs=2)
    assert again.rows == table.rows
    assert again.header.conditions["runs_resumed"] == 3
    assert again.header.conditions["device"] == "cpu"


def test_failed_runs_are_tried_again_and_others_kept(corners, trained, tmp_path):
    """Rows come from the journal, from a table that is known, and from one training."""
    proxy, journal, table = mlp(corners), tmp_path / "journal", trained[0]
    kept, known, lost = table.rows
    failed = replace(lost, epochs=None, status="failed", reason="out of memory")
    with open_journal(ConvergenceRow, journal, proxy.identity) as opened:
        opened.append(kept)
        opened.append(failed)
    again = train_all(proxy, [(16, 0), (16, 1), (64, 0)], journal, jobs=1, known=replace(table, rows=(known,)))
    assert again.rows[:2] == (kept, known)
    assert [row.status for row in again.rows] == ["reached", "reached", "reached"]
    assert again.header.conditions["runs_resumed"] == 2


PROGRAM = """
import json, sys
from pathlib import Path
from edgetune.stages.profiling.convergence.datasets import load_dataset
from edgetune.stages.profiling.convergence.proxy import Proxy, TrainingOptions, resolve_proxy
from edgetune.stages.profiling.convergence.runs import train_all
data, journal = sys.argv[1:]
options = TrainingOptions(1.0, max_epochs=6, learning_rate=0.02)
proxy = Proxy(resolve_proxy("proxy:mlp"), load_dataset(data).facts, data, options, "cpu")
table = train_all(proxy, [(64, seed) for seed in range(6)], Path(journal), jobs=1)
print(json.dumps([[row.seed, row.status, table.header.conditions["runs_resumed"]] for row in table.rows]))
"""


def test_killed_at_any_moment_only_the_run_under_way_is_lost(corners, tmp_path):
    pytest.importorskip("torch")
    journal = tmp_path / "journal"

    def start():
        command = [sys.executable, "-c", PROGRAM, str(corners), str(journal)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)

    def finished():
        return [value["seed"] for value in entries_in(journal)]

    with start() as process:
        while len(finished()) < 2 and process.poll() is None:
            time.sleep(0.005)
        process.kill()
    before = finished()
    assert len(before) >= 2
    with start() as process:
        output, _ = process.communicate(timeout=120)
    rows = json.loads(output)
    assert [row[0] for row in rows] == list(range(6))
    assert rows[0][2] == len(before)
    assert finished()[: len(before)] == before
    assert sorted(finished()) == list(range(6))

"""What the child process trains; ``processes.messages`` describes the process and its lines.

    {"workload": {...}, "dataset": "shapes", "options": {...}, "batch_size": 32, "seed": 0, "device": "auto"}
        -> {"ok": true, "epochs": 3.5, "samples": 14336, "accuracy": 0.91, ...}

One core each: many runs side by side use the cores better than one run on all of them, and on one core the same seed
gives the same run wherever the others are.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from edgetune.errors import DeviceError
from edgetune.stages.profiling.convergence.datasets import Dataset, load_dataset
from edgetune.stages.profiling.convergence.proxy import TrainingOptions, takes_tokens
from edgetune.workloads.torch_required import require_torch
from edgetune.workloads.workload import Workload


@lru_cache(maxsize=1)
def _dataset(reference: str, tokens: bool) -> Dataset:
    return load_dataset(reference, tokens=tokens)


def describe(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a data set: pictures and arrays of others are decoded in this process alone."""
    return {"facts": asdict(_dataset(command["dataset"], command["tokens"]).facts)}


def train_one(command: Mapping[str, Any]) -> dict[str, Any]:
    """Train one run and return the fields of its row."""
    torch = require_torch()
    from edgetune.stages.profiling.convergence.training import train  # it needs PyTorch

    torch.set_num_threads(1)
    device = _device(command["device"])
    workload, options = Workload.from_plain(command["workload"]), TrainingOptions(**command["options"])
    dataset = _dataset(command["dataset"], takes_tokens(workload))
    batch_size: int = command["batch_size"]
    run = train(workload, dataset, options, batch_size=batch_size, seed=command["seed"], device=device)
    samples = run.minibatches * batch_size
    return {
        "epochs": samples / len(dataset.x) if run.reached else None,
        "samples": samples if run.reached else None,
        "accuracy": run.accuracy,
        "status": "reached" if run.reached else "missed",
        "reason": run.reason,
        "device": device,
    }


def _device(wanted: str) -> str:
    """Return the PyTorch device: for ``auto`` a GPU if there is one."""
    torch = require_torch()
    if wanted == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise DeviceError(f"there is no {wanted} that PyTorch can use", "--device host trains on the CPU")
    return wanted

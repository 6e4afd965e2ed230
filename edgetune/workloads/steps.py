"""Runnable workloads: a callable that runs one minibatch and returns when the device has finished.

It runs in the child process of the profiler, the only process that loads PyTorch, ONNX Runtime or the user's code.
A runtime is one module with a function ``open_step(workload, task, batch_size, options)``. The kind of the workload
names it (``resolve.KINDS``); those of graphs are in ``engines.ENGINES`` and ``TRAINING``.
"""

from importlib import import_module

from edgetune.artifacts.profile import Task
from edgetune.workloads.engines import ENGINES
from edgetune.workloads.resolve import KINDS
from edgetune.workloads.torch_required import Step, TimedSteps, require_accelerator, require_torch
from edgetune.workloads.workload import RunOptions, Workload

TRAINING = "edgetune.workloads.torch_module"
"""Module that trains graphs; ``engines.ENGINES`` names those that infer them."""


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions | None = None) -> Step | TimedSteps:
    """Load a workload and return the step that runs one minibatch of it, or that times minibatches elsewhere.

    Args:
        workload: The workload. Networks infer on ONNX Runtime and train on PyTorch; Python files train; a kernel runs
            repeatedly on PyTorch, or on NumPy without PyTorch.
        task: ``infer`` or ``train``.
        batch_size: Samples per minibatch.
        options: Options of the run.

    Raises:
        InputError: the network, the training file or the inputs cannot be used with these options.
        DeviceError: a library is missing, or the requested execution provider does not run the network.
    """
    options = options or RunOptions()
    if options.python is not None and workload.kind != "command":  # a command has its interpreter in its words
        from edgetune.workloads import foreign_python

        return foreign_python.open_step(workload, task, batch_size, options)
    kind = KINDS.get(workload.kind)
    runtime = (kind.runtime if kind else "") or (ENGINES[options.engine.name] if task == "infer" else TRAINING)
    if runtime == TRAINING:
        require_torch()
    step: Step | TimedSteps = import_module(runtime).open_step(workload, task, batch_size, options)
    if isinstance(step, TimedSteps):
        return step
    if runtime in ENGINES.values() or not options.torch_device.startswith("cuda"):
        return step
    require_accelerator(options.torch_device)
    synchronize = require_torch().cuda.synchronize

    def finished() -> object:
        result = step()
        synchronize(options.torch_device)
        return result

    return finished

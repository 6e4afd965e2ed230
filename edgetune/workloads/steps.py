"""A workload made runnable: one callable that does one minibatch and returns when the device has finished it.

This runs in the child process of the profiler, the only process that loads PyTorch, ONNX Runtime or anyone's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.kernels import kernel_of
from edgetune.workloads.torch_required import Step, require_accelerator, require_torch
from edgetune.workloads.workload import Workload


def open_step(
    workload: Workload,
    task: Task,
    batch_size: int,
    *,
    ort_providers: Sequence[str] = ("CPUExecutionProvider",),
    torch_device: str = "cpu",
    threads: int | None = None,
    inputs_file: str | None = None,
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Step:
    """Load ``workload`` and return the step that runs one minibatch of it.

    Args:
        workload: What to run. Networks infer on ONNX Runtime and train on PyTorch; Python files train; a kernel runs on
            PyTorch as often as fills a step, or on NumPy where there is no PyTorch.
        task: ``infer`` or ``train``.
        batch_size: Samples per minibatch.
        ort_providers: ONNX Runtime execution providers to ask for, in order of preference.
        torch_device: PyTorch device for training and for kernels, e.g. ``cpu`` or ``cuda:0``.
        threads: CPU threads for the operators; ``None`` leaves the library's own choice.
        inputs_file: ``.npz`` of arrays named as the network's inputs; random ones without it.
        dimensions: Values of symbolic dimensions besides the batch, by name.
        seed: Seed of random inputs and weights.

    Raises:
        InputError: the network, the training file or the inputs cannot be used as asked.
        DeviceError: a library is missing, or the execution provider asked for did not take the network.
    """
    if workload.kind == "kernel":
        if inputs_file is not None or dimensions:
            raise InputError(f"{workload.reference} makes its own operands", "leave --inputs and --dim out")
        from edgetune.workloads.kernel_steps import open_kernel

        require_accelerator(torch_device)
        kernel = kernel_of(workload, task, batch_size)
        return _finishing(open_kernel(kernel, device=torch_device, threads=threads, seed=seed), torch_device)
    if workload.kind == "python":
        if task != "train":
            raise InputError(
                f"{workload.reference} is a Python file, which defines training only: make(batch_size) -> step()",
                "use --task train, or give an ONNX file or a zoo: network for inference",
            )
        from edgetune.workloads.python_file import open_training_file

        assert workload.path is not None
        return _finishing(open_training_file(workload.path, batch_size, threads=threads), torch_device)
    if task == "train":
        step = _training_step(
            workload, batch_size, device=torch_device, threads=threads, dimensions=dimensions or {}, seed=seed
        )
        return _finishing(step, torch_device)
    from edgetune.workloads.ort_session import open_inference

    return open_inference(
        workload,
        batch_size,
        providers=tuple(ort_providers),
        threads=threads,
        inputs_file=inputs_file,
        dimensions=dimensions or {},
        seed=seed,
    )


def _training_step(
    workload: Workload,
    batch_size: int,
    *,
    device: str,
    threads: int | None,
    dimensions: Mapping[str, int],
    seed: int,
) -> Step:
    """Return a training step of an ONNX graph with trainable weights on PyTorch."""
    torch = require_torch()
    if threads is not None:
        torch.set_num_threads(threads)
    from edgetune.workloads.onnx_file import fixed_model
    from edgetune.workloads.torch_module import training_step

    model = fixed_model(workload, batch_size, dimensions, weights=True)
    step: Step = training_step(model, batch_size, device=device, seed=seed)
    return step


def _finishing(step: Step, torch_device: str) -> Step:
    """Return ``step`` waiting for the accelerator before it returns; on the CPU it has nothing to wait for."""
    if not torch_device.startswith("cuda"):
        return step
    require_accelerator(torch_device)
    synchronize = require_torch().cuda.synchronize

    def finished() -> object:
        result = step()
        synchronize(torch_device)
        return result

    return finished

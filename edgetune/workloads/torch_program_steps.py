"""Inference of a program of ``torch.export.save`` by PyTorch, on generated inputs or those of the user.

Source: https://docs.pytorch.org/docs/stable/export.html (``torch.export.load``, ``ExportedProgram.module``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from edgetune.artifacts.profile import Task
from edgetune.choices import nearest
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.workloads.network_inputs import made_inputs
from edgetune.workloads.ort_session import one_line
from edgetune.workloads.torch_program import ProgramShapes, shapes_of
from edgetune.workloads.torch_required import INSTALL_TORCH, require_accelerator, require_torch
from edgetune.workloads.workload import RunOptions, Workload


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> Callable[[], object]:
    """Return a step that calls the program with one minibatch; see ``steps.open_step``.

    Raises:
        InputError: the task is to train, the program cannot be loaded or does not take this batch size, a size of an
            input is unknown, or the inputs do not fit.
        DeviceError: PyTorch is missing or too old, or cannot use the device.
    """
    if task != "infer":
        raise InputError(
            f"{workload.reference} is an exported program, which infers and does not train",
            "use --task infer, or give a Python file or an ONNX file to train",
        )
    torch = require_torch()
    require_accelerator(options.torch_device)
    shapes = shapes_of(workload)
    shapes.batch_limits.check(batch_size, workload.reference)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    program = _loaded(torch, workload, shapes.torch_version, options.torch_device)
    arguments, named = _arguments(torch, program, shapes, batch_size, options)
    with _refusing(f"{workload.reference} cannot be made to run"):
        module = program.module()

    def step() -> object:
        with torch.no_grad():
            try:
                return module(*arguments, **named)
            except Exception as error:
                why = one_line(error) or type(error).__name__
                raise InputError(
                    f"{workload.reference} failed at batch size {batch_size}: {why}",
                    "give real inputs with --inputs FILE.npz if it looks them up, or export it for these shapes",
                ) from None

    return step


def _loaded(torch: Any, workload: Workload, written_by: str, device: str) -> Any:
    """Return the program on a device.

    Raises:
        InputError: it cannot be loaded.
        DeviceError: this PyTorch has no ``torch.export.load``.
    """
    if not hasattr(torch, "export") or not hasattr(torch.export, "load"):
        raise DeviceError(f"PyTorch {torch.__version__} cannot load programs of torch.export", INSTALL_TORCH)
    made = f", which PyTorch {written_by} saved" if written_by else ""
    with _refusing(
        f"PyTorch {torch.__version__} cannot load {workload.reference}{made}",
        "export it with the PyTorch that runs it, or install the one that saved it",
    ):
        program = torch.export.load(str(workload.path))
        if device == "cpu" and all(tensor.device.type == "cpu" for tensor in program.state_dict.values()):
            return program
        from torch.export.passes import move_to_device_pass

        return move_to_device_pass(program, device)


@contextmanager
def _refusing(what: str, hint: str = "export it again") -> Iterator[None]:
    """Report any exception of PyTorch as an ``InputError``."""
    try:
        yield
    except EdgetuneError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {one_line(error) or type(error).__name__}", hint) from None


def _arguments(
    torch: Any, program: Any, shapes: ProgramShapes, batch_size: int, options: RunOptions
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a call.

    Floats are uniform in [0, 1), whole numbers 0 or 1; constants are those of the export.

    Raises:
        InputError: a size is unknown, an argument is no tensor, or the user's arrays do not fit.
    """
    values = dict(options.dimensions)
    known = sorted({*shapes.ranges, *shapes.examples})
    if unknown := sorted(set(values) - set(known)):
        listed = f"open dimensions: {', '.join(known) or 'none; all its dimensions are fixed'}"
        raise InputError(f"the program has no open dimension {unknown[0]!r}", nearest(unknown[0], known, listed=listed))
    if shapes.batch_symbol is not None:
        values[shapes.batch_symbol] = batch_size
    tensors = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    constants = {each.name: each.value for each in arguments if type(each).__name__ == "ConstantArgument"}
    names = [each.name for each in arguments if each.name not in constants]
    if any(not isinstance(tensors[name], torch.Tensor) for name in names):
        raise InputError("the program takes a number or an object, not only tensors", "export it with tensors alone")
    specs = [
        (name, _sizes(name, tensors[name].shape, values, shapes), _numpy_type(tensors[name].dtype)) for name in names
    ]
    arrays = made_inputs(specs, batch_size, shapes.batch_axes, options.inputs, options.seed)
    made = {
        name: torch.from_numpy(array).to(tensors[name].dtype).to(options.torch_device) for name, array in arrays.items()
    }
    flat = [constants[each.name] if each.name in constants else made[each.name] for each in arguments]
    from torch.utils._pytree import tree_unflatten  # since 2.1, and what torch.export itself uses

    positional, named = tree_unflatten(flat, program.call_spec.in_spec)
    return tuple(positional), dict(named)


def _sizes(name: str, shape: Sequence[Any], values: Mapping[str, int], shapes: ProgramShapes) -> tuple[int, ...]:
    """Return the shape of an input with the symbols of ``values`` filled in.

    Raises:
        InputError: a symbol has no value, or one out of its range.
    """
    found = []
    for axis, size in enumerate(shape):
        if isinstance(size, int):
            found.append(size)
            continue
        expression = size.node.expr
        for symbol in sorted(map(str, expression.free_symbols)):
            example = shapes.examples.get(symbol)
            least, most = shapes.ranges.get(symbol, (0, None))
            if symbol not in values:
                seen = "" if example is None else f", exported with {symbol}={example}"
                raise InputError(
                    f"axis {axis} of input {name} is open ({expression}{seen})",
                    f"choose it: --dim {symbol}={example or max(least, 1)}",
                )
            if values[symbol] < least or (most is not None and values[symbol] > most):
                upper = "or more" if most is None else f"to {most}"
                raise InputError(f"the program takes {symbol} of {least} {upper}, not {values[symbol]}", "change --dim")
        found.append(int(expression.subs({each: values[str(each)] for each in expression.free_symbols})))
    return tuple(found)


def _numpy_type(dtype: Any) -> str:
    """Return the NumPy type in which the user gives an input; bfloat16 and FP8 have none of their own."""
    name = str(dtype).removeprefix("torch.")
    return "float32" if name.startswith(("bfloat", "float8")) else name

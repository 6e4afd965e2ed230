"""``edgetune schedule kernels transform``: kernels made elastic, or refused with a reason."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def transform(
    file: Annotated[str, typer.Argument(metavar="FILE.cu", help="CUDA C, or - for stdin.", show_default=False)],
    *,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Default: stdout, if nothing else is told.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what was done and why that is safe.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Run original and forms on the CPU and compare them bit by bit: needs g++.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option("--device", "-d", metavar="NAME", help="Check on this GPU too: nvidia:N, or jetson for its own."),
    ] = None,
    launch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS",
            help="Check it so, too: 'vadd grid=6 block=256 a=float32[1500] n=int32:1500', beside the file's comments. "
            "Repeatable.",
        ),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option("--include", "-I", metavar="DIR", help="Look for headers here. Repeatable.")
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Make the kernels of a CUDA C file elastic, or say why not.

    All of the original stays, and behind each kernel stand its forms: KERNEL__grid runs any part of the logical blocks
    on any number of physical ones, KERNEL__block2 and so on run several logical threads in a physical one. Results are
    those of the original, bit by bit. What cannot be shown to be safe is refused with a line, a reason and a remedy.

    Launches to check with are comments in the file, // launch KERNEL grid=... , or given here; where there are neither,
    one is guessed for kernels that take plain pointers and numbers. Arguments stand in the order of the parameters:
    TYPE[SIZE] is memory, TYPE:NUMBER a value. Types have their bits in their names: C's int is int32, unsigned int
    uint32, long int64, float float32, double float64. shared=BYTES is dynamic shared memory. A kernel that was not
    checked is an error (exit code 5).

    With --device they run on a GPU, and before on the CPU where there is g++: each shows what the other may not. A GPU
    has the compiler's own code; orders of the CPU shim show races that a GPU may hide. CUDA runs nothing more after a
    kernel that fails, so that those behind it are not checked, nor are kernels that do not end on the CPU.

    \b
      edgetune schedule kernels transform conv.cu -o conv_elastic.cu
      edgetune schedule kernels transform conv.cu --explain --check
      edgetune schedule kernels transform conv.cu --check --device nvidia:0
    """
    from edgetune.cli.screen import Screen
    from edgetune.errors import InputError
    from edgetune.workflows.kernels.transform import TransformOptions, run_kernel_transform

    begin_outputs(force=force)
    if device is not None and not (check or launch):
        raise InputError("--device says where to check, and nothing is to be checked", "add --check")
    request = TransformOptions(
        file, output, tuple(include or ()), tuple(launch or ()), explain, check or bool(launch), json, device
    )
    run_kernel_transform(request, Screen(quiet, verbose))

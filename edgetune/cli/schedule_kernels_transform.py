"""``edgetune schedule kernels transform``: kernels made elastic, or refused with a reason."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options

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
    launch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS", help="Check it so: 'vadd grid=6 block=256 a=float32[1500] n=int32:1500'. Repeatable."
        ),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option("--include", "-I", metavar="DIR", help="Look for headers here. Repeatable.")
    ] = None,
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
    uint32, long int64, float float32, double float64. A kernel that was not checked is an error (exit code 5).

    \b
      edgetune schedule kernels transform conv.cu -o conv_elastic.cu
      edgetune schedule kernels transform conv.cu --explain --check
    """
    from edgetune.cli.run_kernel_transform import Request, carry_out
    from edgetune.cli.screen import Screen

    request = Request(file, output, tuple(include or ()), tuple(launch or ()), explain, check or bool(launch), json)
    carry_out(request, Screen(quiet, verbose))

"""``edgetune schedule kernels shrink``: the pieces of a kernel that are worth launching."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options
from edgetune.workflows.output import begin_outputs

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def shrink(
    file: Annotated[str, typer.Argument(metavar="FILE.cu", help="CUDA C, or - for stdin.", show_default=False)],
    *,
    grid: Annotated[str, typer.Option(metavar="X,Y,Z", help="Blocks of a launch, e.g. 196 or 14,14.")],
    block: Annotated[str, typer.Option(metavar="X,Y,Z", help="Threads of a block, e.g. 256 or 16,16.")],
    kernel: Annotated[
        str | None, typer.Option("--kernel", "-k", metavar="NAME", help="Which kernel. Default: the only one.")
    ] = None,
    shared: Annotated[str, typer.Option(metavar="SIZE", help="Dynamic shared memory of a block, e.g. 4KiB.")] = "0",
    gpu: Annotated[str, typer.Option("--gpu", "-g", metavar="NAME", help="Which GPU, e.g. orin-agx.")] = "orin-agx",
    arch: Annotated[str | None, typer.Option(metavar="SM", help="Compile for, e.g. sm_87. Default: the GPU's.")] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Default: the pipe, else kept.parquet.")
    ] = None,
    figure: Annotated[
        str | None, typer.Option("--figure", metavar="FIGURE", help="Draw what is kept: .svg, .png, .pdf.")
    ] = None,
    costs: Annotated[
        str | None, typer.Option("--costs", metavar="FILE", help="What launches cost here, as calibrate measured.")
    ] = None,
    launch_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="What a launch takes. Default: of --costs, else the catalogue.")
    ] = None,
    most_overhead: Annotated[
        str | None, typer.Option(metavar="TIME", help="What all launches of a kernel may take. Default: 64 launches.")
    ] = None,
    keep: Annotated[str, typer.Option(metavar="SHARE", help="Keep the best of those that fit.")] = "20%",
    strict_paper: Annotated[
        bool, typer.Option("--strict-paper", help="Launch a slice as that many blocks, as Miriam does.")
    ] = False,
    wiscore: Annotated[
        str, typer.Option(metavar="FORM", help="corrected, or literal: as printed, S_be twice.")
    ] = "corrected",
    include: Annotated[
        list[str] | None, typer.Option("--include", "-I", metavar="DIR", help="Look for headers here. Repeatable.")
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", metavar="MACRO", help="E.g. TILE=16. Repeatable.")
    ] = None,
    fmad: Annotated[bool, typer.Option(help="Let a * b + c be rounded once.")] = True,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Keep the pieces of a kernel that are worth launching beside a critical kernel.

    Compiles the kernel's elastic forms, which needs no GPU, and drops those that do not fit, that have stack or spills
    which the original has not, or whose smaller blocks take more registers than its blocks. The rest is cut into
    slices; for everything that a critical kernel can leave of the GPU, the best of those that fit are kept: those that
    fill it most, and are not too many to launch.

    \b
      edgetune schedule kernels shrink conv.cu --grid 14,14 --block 16,16 -o kept.parquet --figure kept.svg
      edgetune schedule kernels shrink conv.cu -k conv --grid 196 --block 256 --gpu rtx-2060
    """
    from edgetune.cli.screen import Screen
    from edgetune.elastic.compiler import CompileOptions
    from edgetune.workflows.kernels.shrink import ShrinkOptions, rules_of, run_kernel_shrink

    begin_outputs(force=force)
    rules = rules_of(wiscore, keep, launch_time, most_overhead, costs=costs, strict=strict_paper)
    compiling = CompileOptions(fmad=fmad, include=tuple(include or ()), define=tuple(define or ()))
    request = ShrinkOptions(file, kernel, grid, block, shared, gpu, arch, rules, compiling)
    run_kernel_shrink(request, output, figure, json=json, screen=Screen(quiet, verbose))

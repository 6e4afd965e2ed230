"""From the options of ``edgetune schedule kernels shrink`` to a table of kept pieces."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.choices import choose, nearest
from edgetune.cli.elastic_table_report import form_rows, show_forms, show_pieces
from edgetune.cli.screen import Screen, answer
from edgetune.errors import InfeasibleError, InputError
from edgetune.units import format_bytes, parse_bytes, parse_share, parse_time_s
from edgetune.workflows.output import Target, choose_target
from edgetune.workflows.stopping import reporting_saved

if TYPE_CHECKING:
    from edgetune.artifacts.elastic_table import ElasticTable
    from edgetune.elastic.abi import Dim
    from edgetune.elastic.compiler import CompiledSource, CompileOptions
    from edgetune.elastic.forms import Forms
    from edgetune.elastic.gpu import Gpu
    from edgetune.elastic.kernel import ElasticKernel, TransformResult
    from edgetune.elastic.shrink import Rules, Shrunk
    from edgetune.elastic.work import Logical

_DEFAULT_NAME = "kept.parquet"


@dataclass(frozen=True, slots=True)
class ShrinkOptions:
    """What was asked, in words but for the last two."""

    file: str
    kernel: str | None
    grid: str
    block: str
    shared: str
    gpu: str
    arch: str | None
    rules: Rules
    compiling: CompileOptions


def rules_of(
    wiscore: str, keep: str, launch_time: str | None, most_overhead: str | None, *, costs: str | None, strict: bool
) -> Rules:
    """Return what may be kept; of measured costs, a kernel may have as many launches as were measured at most.

    Raises:
        InputError: no share, no time, no known form of the score, or a file that holds no costs.
    """
    from edgetune.elastic.shrink import Rules

    share = parse_share(keep, what="--keep")
    if not 0 < share <= 1:
        raise InputError(f"--keep is {keep}", "a share above 0, at most 100 %, e.g. 20%")
    launch_s = most_s = None
    if costs is not None:
        from edgetune.elastic.cuda.calibrate import read_costs

        measured = read_costs(Path(costs))
        launch_s, most_s = measured.shard_s, measured.shard_s * max(measured.shards_s)
    return Rules(
        strict=strict,
        literal=choose(wiscore, ("corrected", "literal"), what="form of WIScore") == "literal",
        share=share,
        launch_s=launch_s if launch_time is None else parse_time_s(launch_time, what="--launch-time"),
        most_overhead_s=most_s if most_overhead is None else parse_time_s(most_overhead, what="--most-overhead"),
    )


def run_kernel_shrink(
    request: ShrinkOptions, output: str | None, figure: str | None, *, json: bool, screen: Screen
) -> None:
    """Compile the forms of a kernel, keep what is worth launching, and write, draw and tell it.

    Raises:
        InputError, DeviceError, InfeasibleError: as ``_shrunk``.
    """
    from edgetune.cli.plot import draw_kept
    from edgetune.plotting.figure_file import require_figure
    from edgetune.workflows.output import check_outputs

    target = choose_target(output, _DEFAULT_NAME, json=json)
    check_outputs({"-o": target.file, "--figure": figure}, [request.file], {"-o": "elastic_table"})
    if figure is not None:
        require_figure(figure)
    with reporting_saved(screen, lambda: "nothing is kept, and the same command starts over"):
        forms, compiled, shrunk, source = _shrunk(request)
    table = _table(request, forms, compiled, shrunk, source)
    target.write(table)
    target.report(screen)
    draw_kept(table, figure, screen, view=None, file=target.file)
    if json:
        answer(_answer(table, target, forms, shrunk))
    if not screen.quiet:
        _report(table, forms, shrunk, screen)


def _shrunk(request: ShrinkOptions) -> tuple[Forms, CompiledSource, Shrunk, bytes]:
    """Return the forms of the kernel, what compiled them, what was kept, and the source.

    Raises:
        InputError: the source cannot be read or compiled, has no such kernel, or the kernel was refused; the launch is
            none, or does not fit the GPU.
        DeviceError: NVRTC or tree-sitter is missing.
        InfeasibleError: nothing is kept.
    """
    from edgetune.artifacts.files import name_of, read_source
    from edgetune.elastic.compiler import arch_of
    from edgetune.elastic.forms import compile_forms
    from edgetune.elastic.gpu import find_gpu
    from edgetune.elastic.shrink import shrink
    from edgetune.elastic.source.transform import transform

    gpu = find_gpu(request.gpu)
    logical = _logical(request, gpu)
    source, name = read_source(request.file), name_of(request.file)
    folders = [*([] if request.file == "-" else [str(Path(request.file).parent)]), *request.compiling.include]
    transformed = transform(_text(source, name), name, [Path(folder) for folder in folders])
    kernel = _kernel(transformed, request.kernel, name)
    options = replace(request.compiling, include=tuple(folders))
    for_gpu = replace(transformed, source=transformed.device)  # whole programs are given too
    compiled, found = compile_forms(for_gpu, request.arch or arch_of(gpu), name=name, options=options)
    forms = found[kernel.kernel.name]
    asked = {count: form.resources for count, form in forms.elastic.items()}
    shrunk = shrink(kernel.kernel.name, logical, forms.original.resources, asked, gpu, rules=request.rules)
    if not shrunk.places:
        raise _nothing_kept(shrunk)
    return forms, compiled, shrunk, source


def _text(source: bytes, name: str) -> str:
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} is not text", "CUDA C must be UTF-8") from None


def _logical(request: ShrinkOptions, gpu: Gpu) -> Logical:
    from edgetune.elastic.abi import MOST_BLOCKS
    from edgetune.elastic.work import Logical

    logical = Logical(
        _dim(request.grid, "--grid"), _dim(request.block, "--block"),
        0 if request.shared == "0" else parse_bytes(request.shared, what="--shared"),
    )  # fmt: skip
    if logical.threads > gpu.threads_per_block:
        most = f"a block on {gpu.name} has at most {gpu.threads_per_block}"
        raise InputError(f"--block {request.block} has {logical.threads} threads", most)
    if logical.dynamic_shared_bytes > gpu.shared_bytes_per_block:
        most = f"a block on {gpu.name} has at most {format_bytes(gpu.shared_bytes_per_block)}"
        raise InputError(f"--shared is {request.shared}", most)
    if logical.blocks > MOST_BLOCKS:
        raise InputError(f"--grid {request.grid} has {logical.blocks} blocks", f"at most {MOST_BLOCKS}")
    return logical


def _dim(words: str, option: str) -> Dim:
    sizes = words.replace("x", ",").split(",")
    if not 1 <= len(sizes) <= 3 or not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise InputError(f"{option} is {words!r}", "one to three sizes, e.g. 196 or 14,14")
    x, y, z = [*map(int, sizes), 1, 1][:3]
    return x, y, z


def _kernel(transformed: TransformResult, asked: str | None, name: str) -> ElasticKernel:
    """Return the kernel that was asked for, or the only one.

    Raises:
        InputError: there is none of this name, several and none was named, or it was refused.
    """
    found = {each.kernel.name: each for each in transformed.kernels}
    if asked is None and len(found) > 1:
        raise InputError(f"{name} has {len(found)} kernels", f"choose one: --kernel {' or '.join(found)}")
    wanted = next(iter(found)) if asked is None else asked
    if wanted not in found:
        raise InputError(f"{name} has no kernel {wanted!r}", nearest(wanted, found))
    kernel = found[wanted]
    if not kernel.variants:
        first = kernel.refusals[0]
        raise InputError(f"{name}, line {first.line}: {wanted} cannot be elastic: {first.reason}", first.remedy)
    return kernel


def _nothing_kept(shrunk: Shrunk) -> InfeasibleError:
    if all(design.flaw is not None for design in shrunk.designs):
        flaws = ", ".join(dict.fromkeys(design.flaw or "" for design in shrunk.designs))
        message = f"no form of {shrunk.kernel} with {shrunk.logical.threads} threads is kept: {flaws}"
        return InfeasibleError(message, "launch it with other block sizes, or see what each form takes with --verbose")
    counts = sorted({design.count for design in shrunk.designs})
    if shrunk.rules.strict:
        return _nothing_strict(shrunk, [count for count in counts if count <= shrunk.gpu.sm_count])
    return InfeasibleError(
        f"launching {shrunk.kernel} takes longer than --most-overhead allows, even in one piece", "allow more of it"
    )


def _nothing_strict(shrunk: Shrunk, small: list[int]) -> InfeasibleError:
    """Return the error where no slice is launched as that many blocks; ``small`` are those that fit."""
    blocks, least = shrunk.logical.blocks, min(design.count for design in shrunk.designs)
    there = f"the {shrunk.gpu.sm_count} multiprocessors of {shrunk.gpu.name}"
    hint = "leave out --strict-paper: a physical block then runs several logical ones"
    if not small:
        message = f"--strict-paper: the smallest slice of {blocks} blocks is {least}, more blocks than {there}"
        return InfeasibleError(message, hint)
    message = (
        f"--strict-paper: of {blocks} blocks the largest slice that is no more than {there} is {small[-1]}, and "
        f"{blocks // small[-1]} launches take longer than is allowed"
    )
    return InfeasibleError(message, f"{hint}; or allow more with --most-overhead")


def _table(
    request: ShrinkOptions, forms: Forms, compiled: CompiledSource, shrunk: Shrunk, source: bytes
) -> ElasticTable:
    import hashlib

    from edgetune.artifacts.elastic_table import KIND, VERSION, ElasticTable
    from edgetune.artifacts.files import name_of
    from edgetune.artifacts.header import Header
    from edgetune.elastic.tables import rows_of

    launch_s, most_s = shrunk.rules.costs_s(shrunk.gpu)
    conditions = {
        "simulated": False,
        "gpu": {name: value for name, value in asdict(shrunk.gpu).items() if name != "source"},
        "arch": compiled.arch,
        "compiler": compiled.compiler,
        "compiling": asdict(request.compiling),
        "rules": {**asdict(shrunk.rules), "launch_s": launch_s, "most_overhead_s": most_s},
        "original": asdict(forms.original.resources),
        "forms": {form.symbol: asdict(form.resources) for form in forms.elastic.values()},
        "pruned_share": shrunk.pruned_share,
    }
    inputs = {"source": {"name": name_of(request.file), "sha256": hashlib.sha256(source).hexdigest()}}
    header = Header.new(KIND, VERSION, inputs=inputs, conditions=conditions)
    return ElasticTable(header, tuple(rows_of(shrunk, forms)))


def _answer(table: ElasticTable, target: Target, forms: Forms, shrunk: Shrunk) -> dict[str, Any]:
    from edgetune.artifacts.plain import plain

    return {
        "file": str(target.path or "-"),
        "kernel": shrunk.kernel,
        "gpu": shrunk.gpu.name,
        "designs": len(shrunk.designs),
        "pruned_share": shrunk.pruned_share,
        "forms": form_rows(forms, shrunk),
        "rows": [{key: value for key, value in plain(row).items() if value is not None} for row in table.rows],
    }


def _report(table: ElasticTable, forms: Forms, shrunk: Shrunk, screen: Screen) -> None:
    """Print what each form takes, and what is launched where no critical block is left over; the rest if asked."""
    show_forms(forms, shrunk, stream=sys.stderr)
    dropped = Counter(row.reason for row in table.rows if row.status == "dropped")
    reasons = ", ".join(f"{count}: {reason}" for reason, count in dropped.items())
    beside = len(shrunk.leftovers) * shrunk.gpu.sm_count
    screen.info(
        f"{len(shrunk.designs)} pieces, each beside {beside} kinds of critical kernel: {len(shrunk.places)} of "
        f"{len(shrunk.designs) * beside} combinations are kept, {shrunk.pruned_share:.1%} of the space pruned"
        f"{f'; pieces that are kept beside none: {reasons}' if reasons else ''}"
    )
    best = [row for row in table.rows if row.rank == 0 and row.critical_blocks == 0]
    show_pieces(table.rows if screen.verbose else best, stream=sys.stderr)

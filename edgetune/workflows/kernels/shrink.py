"""The pieces of a kernel that are worth launching beside a critical kernel."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgetune.artifacts.files import name_of, read_source
from edgetune.choices import nearest
from edgetune.errors import InfeasibleError, InputError, blaming
from edgetune.plotting.page import SectionWriter
from edgetune.stages.elastic.compiler import CompileOptions, arch_of
from edgetune.stages.elastic.front import Forms, forms_of, resources_of, transform
from edgetune.stages.elastic.gpu import Gpu, Logical, find_gpu
from edgetune.stages.elastic.kernel import MOST_BLOCKS, Dim, dim, symbol_of
from edgetune.stages.elastic.sample_launches import instance_symbol
from edgetune.stages.elastic.shrink import LAUNCHES, Shrunk
from edgetune.stages.elastic.shrink import shrink as shrunk_space
from edgetune.units import format_bytes, parse_bytes
from edgetune.workflows.kernels.options import ShrinkOptions, header_folders
from edgetune.workflows.reporting import Reporter


@dataclass(frozen=True, slots=True)
class KeptPieces:
    """The result of ``shrink``.

    Args:
        document: The answer for machines: the launch, the resources of each form, and each piece, kept or dropped.
        launch: The kernel and its launch, in words.
        said: How much of the design space is kept, and why some pieces are kept beside no critical kernel.
    """

    document: dict[str, Any]
    launch: str
    said: str


def shrink(opts: ShrinkOptions, reporter: Reporter) -> KeptPieces:
    """Compile the forms of a kernel and keep the pieces that are worth launching.

    Raises:
        InputError: the source cannot be read or compiled, has no such kernel, or the kernel is refused; the launch does
            not fit the GPU; or an option cannot be used.
        DeviceError: NVRTC or nvJitLink is missing.
        InfeasibleError: nothing is kept.
    """
    gpu = find_gpu(opts.gpu)
    logical, arch = _logical(opts, gpu), opts.arch or arch_of(gpu)
    with reporter.bar("compiling the forms", None):
        kernel, forms = _forms(opts, arch)
    shrunk = shrunk_space(kernel, logical, forms[None], {key: each for key, each in forms.items() if key}, gpu)
    if not shrunk.places:
        flaws = ", ".join(dict.fromkeys(design.flaw or "" for design in shrunk.designs))
        message = f"no form of {kernel} with {logical.threads} threads is kept: {flaws}"
        raise InfeasibleError(message, "launch it with other block sizes")
    rows = _piece_rows(forms, shrunk)
    document = {
        "kernel": kernel, "gpu": gpu.name, "arch": arch, "designs": len(shrunk.designs),
        "pruned_share": shrunk.pruned_share,
        "rules": {"launch_s": gpu.launch_s, "most_overhead_s": LAUNCHES * gpu.launch_s},
        "forms": _form_rows(forms, shrunk), "rows": rows,
    }  # fmt: skip
    grid, block = ("x".join(map(str, sizes)) for sizes in (logical.grid, logical.block))
    launch = f"{kernel}, {grid} blocks of {block} threads; beside: critical blocks, modulo multiprocessors"
    return KeptPieces(document, launch, _said(shrunk, rows))


def _forms(opts: ShrinkOptions, arch: str) -> tuple[str, Forms]:
    """Return the name of the kernel that was asked for, or of the only one, and its compiled forms.

    Raises:
        InputError: no kernel has this name, several exist and none was named, or the kernel is refused.
    """
    text, name = read_source(opts.file).decode("utf-8-sig", "surrogateescape"), name_of(opts.file)
    instances = [opts.kernel] if opts.kernel is not None and "<" in opts.kernel else []
    options = CompileOptions(include=header_folders(opts.file, opts.include))
    done = transform(text, name, arch, options=options, instances=instances)
    found = {each.kernel.name: each for each in done.kernels}
    if opts.kernel is None and len(found) > 1:
        raise InputError(f"{name} has {len(found)} kernels", f"choose one: --kernel {' or '.join(found)}")
    wanted = instance_symbol(instances[0]) if instances else opts.kernel or next(iter(found))
    if wanted not in found:
        raise InputError(f"{name} has no kernel {wanted!r}", nearest(wanted, found))
    if not found[wanted].variants:
        first = found[wanted].refusals[0]
        raise InputError(f"{name}, line {first.line}: {wanted} cannot be elastic: {first.reason}", first.remedy)
    return wanted, forms_of(done, resources_of(done.source, arch, name).__getitem__)[wanted]


def _logical(opts: ShrinkOptions, gpu: Gpu) -> Logical:
    shared_bytes = 0 if opts.shared == "0" else parse_bytes(opts.shared, what="--shared")
    logical = Logical(_dim(opts.grid, "--grid"), _dim(opts.block, "--block"), shared_bytes)
    if logical.threads > gpu.threads_per_block:
        most = f"a block on {gpu.name} has at most {gpu.threads_per_block}"
        raise InputError(f"--block {opts.block} has {logical.threads} threads", most)
    if logical.dynamic_shared_bytes > gpu.shared_bytes_per_block:
        most = f"a block on {gpu.name} has at most {format_bytes(gpu.shared_bytes_per_block)}"
        raise InputError(f"--shared is {opts.shared}", most)
    if logical.blocks > MOST_BLOCKS:
        raise InputError(f"--grid {opts.grid} has {logical.blocks} blocks", f"at most {MOST_BLOCKS}")
    return logical


def _dim(words: str, option: str) -> Dim:
    """Return sizes as the command line has them."""
    sizes = words.replace("x", ",").split(",")
    with blaming(option):
        return dim([int(size) if size.strip().isdecimal() else 0 for size in sizes])


def _form_rows(forms: Forms, shrunk: Shrunk) -> list[dict[str, Any]]:
    """Return the compiler's figures of the original and of each form that the launch can have."""
    flaws = {design.per_thread: (design.threads, design.flaw) for design in shrunk.designs}
    said: list[tuple[int | None, int, str]] = [
        (None, shrunk.logical.threads, "original"),
        *((count, size, "kept" if flaw is None else f"dropped: {flaw}") for count, (size, flaw) in flaws.items()),
    ]
    return [
        {
            "form": (symbol := symbol_of(shrunk.kernel, count)), "symbol": symbol, "per_thread": count,
            "threads": threads, "registers_per_thread": (needs := forms[count]).registers_per_thread,
            "registers_per_block": needs.registers_per_thread * threads,
            "static_shared_bytes": needs.static_shared_bytes, "stack_bytes": needs.stack_bytes,
            "spill_bytes": needs.spill_bytes, "verdict": verdict,
        }
        for count, threads, verdict in said
    ]  # fmt: skip


def _piece_rows(forms: Forms, shrunk: Shrunk) -> list[dict[str, Any]]:
    """Return the pieces that are kept, by leftover and rank, then those that are kept beside nothing, and why."""

    def of_form(per_thread: int, threads: int) -> dict[str, Any]:
        return {
            "symbol": symbol_of(shrunk.kernel, per_thread),
            "registers_per_thread": forms[per_thread].registers_per_thread, "per_thread": per_thread,
            "threads": threads,
        }  # fmt: skip

    kept = [
        {**of_form(place.shape.per_thread, place.threads), **asdict(place.shape), "status": "kept",
         "critical_blocks": place.critical_blocks, "critical_threads": place.critical_threads, "rank": place.rank,
         "score": place.score}
        for place in shrunk.places
    ]  # fmt: skip
    return kept + [
        {**of_form(each.per_thread, each.threads), "count": each.count, "status": "dropped", "reason": reason}
        for each in shrunk.designs
        if (reason := shrunk.reason(each)) is not None
    ]


def _said(shrunk: Shrunk, rows: Sequence[dict[str, Any]]) -> str:
    reasons = Counter(row["reason"] for row in rows if row["status"] == "dropped")
    beside, listed = len(shrunk.leftovers) * shrunk.gpu.sm_count, ", ".join(f"{n}: {why}" for why, n in reasons.items())
    return (
        f"{len(shrunk.designs)} pieces, each beside {beside} kinds of critical kernel: {len(shrunk.places)} of "
        f"{len(shrunk.designs) * beside} combinations are kept, {shrunk.pruned_share:.1%} of the space pruned"
        f"{f'; pieces that are kept beside none: {listed}' if listed else ''}"
    )


def pieces_section(kept: KeptPieces, out: SectionWriter, reporter: Reporter, *, whole: bool) -> None:
    """Write the resources of each form, and the pieces to launch beside no critical block, or the whole of them."""
    out.table(
        ("form", "threads>", "registers>", "of a block>", "shared>", "stack>", "spills>", "verdict"),
        [
            (
                row["form"], row["threads"], row["registers_per_thread"], row["registers_per_block"],
                *(format_bytes(row[f"{what}_bytes"]) for what in ("static_shared", "stack", "spill")), row["verdict"],
            )
            for row in kept.document["forms"]
        ],
    )  # fmt: skip
    reporter.info(kept.said)
    out.note(kept.launch)
    columns = ("beside>", "of threads>", "rank>", "piece>", "blocks>", "of threads>", "per thread>", "score>")
    out.table(
        (*columns, "dropped"),
        [
            (
                row.get("critical_blocks"), f"to {row['critical_threads']}" if "rank" in row else None,
                row.get("rank"), row["count"], row.get("blocks"), row["threads"], row["per_thread"],
                f"{row['score']:.3f}" if "rank" in row else None, row.get("reason", ""),
            )
            for row in kept.document["rows"]
            if whole or (row.get("rank") == 0 and row["critical_blocks"] == 0)
        ],
    )  # fmt: skip

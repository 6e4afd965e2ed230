"""The pieces of a kernel that are worth launching beside a critical kernel."""

from dataclasses import asdict, dataclass
from typing import Any

from edgetune.artifacts.files import name_of, read_source
from edgetune.choices import nearest
from edgetune.errors import InfeasibleError, InputError, blaming
from edgetune.plotting.page import SectionWriter
from edgetune.stages.elastic.compiler import CompileOptions, arch_of
from edgetune.stages.elastic.front import Forms, forms_of, resources_of, transform
from edgetune.stages.elastic.gpu import Call, Logical, find_gpu
from edgetune.stages.elastic.kernel import MOST_BLOCKS, NO_ROWS, ROWS, Dim, dim, symbol_of
from edgetune.stages.elastic.model import check_fits
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
        document: The answer for machines: the resources of each form, and each piece, kept or dropped.
        shrunk: The launch and its pieces.
    """

    document: dict[str, Any]
    shrunk: Shrunk


def shrink(opts: ShrinkOptions, reporter: Reporter) -> KeptPieces:
    """Compile the forms of a kernel and keep the pieces that are worth launching.

    Raises:
        InputError: the source cannot be read or compiled, has no such kernel, or the kernel is refused; the launch does
            not fit the GPU; or an option cannot be used.
        DeviceError: NVRTC or nvJitLink is missing.
        InfeasibleError: nothing is kept.
    """
    gpu = find_gpu(opts.gpu)
    shared_bytes = 0 if opts.shared == "0" else parse_bytes(opts.shared, what="--shared")
    logical = Logical(_dim(opts.grid, "--grid"), _dim(opts.block, "--block"), shared_bytes)
    if logical.blocks > MOST_BLOCKS:
        raise InputError(f"--grid {opts.grid} has {logical.blocks} blocks", f"at most {MOST_BLOCKS}")
    with reporter.bar("compiling the forms", None):
        kernel, forms = _forms(opts, logical.block, arch_of(gpu))
    check_fits(Call(kernel, logical, resources={1: forms[None]}), gpu)
    shrunk = shrunk_space(kernel, logical, forms[None], {key: each for key, each in forms.items() if key}, gpu)
    if not shrunk.places:
        flaws = ", ".join(dict.fromkeys(design.flaw or "" for design in shrunk.designs))
        message = f"no form of {kernel} with {logical.threads} threads is kept: {flaws}"
        raise InfeasibleError(message, "launch it with other block sizes")
    document = {
        "kernel": kernel, "gpu": gpu.name, "arch": arch_of(gpu), "designs": len(shrunk.designs),
        "pruned_share": shrunk.pruned_share,
        "rules": {"launch_s": gpu.launch_s, "most_overhead_s": LAUNCHES * gpu.launch_s},
        "forms": _form_rows(forms, shrunk), "rows": _piece_rows(shrunk),
    }  # fmt: skip
    return KeptPieces(document, shrunk)


def _forms(opts: ShrinkOptions, block: Dim, arch: str) -> tuple[str, Forms]:
    """Return the name of the kernel that was asked for, or of the only one, and its compiled forms.

    Raises:
        InputError: no kernel has this name, several exist and none was named, or the kernel is refused or does not suit
            the block.
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
    if not found[wanted].kernel.suits(block):
        raise InputError(f"{wanted}: {NO_ROWS}", ROWS)
    return wanted, forms_of(done, resources_of(done.source, arch, name).__getitem__)[wanted]


def _dim(words: str, option: str) -> Dim:
    """Return sizes as the command line has them."""
    sizes = words.replace("x", ",").split(",")
    with blaming(option):
        return dim([int(size) if size.strip().isdecimal() else 0 for size in sizes])


def _form_rows(forms: Forms, shrunk: Shrunk) -> list[dict[str, Any]]:
    """Return the compiler's figures of the original and of each form that the launch can have."""
    found: dict[int | None, tuple[int, str]] = {None: (shrunk.logical.threads, "original")}
    for design in shrunk.designs:
        found[design.per_thread] = design.threads, "kept" if design.flaw is None else f"dropped: {design.flaw}"
    return [
        {
            "symbol": symbol_of(shrunk.kernel, key), "per_thread": key, "threads": threads, **asdict(forms[key]),
            "verdict": verdict,
        }
        for key, (threads, verdict) in found.items()
    ]  # fmt: skip


def _piece_rows(shrunk: Shrunk) -> list[dict[str, Any]]:
    """Return the pieces that are kept, by leftover and rank, then those that are kept beside nothing, and why."""
    kept = [{"status": "kept", **asdict(place)} for place in shrunk.places]
    reasons = ((design, shrunk.reason(design)) for design in shrunk.designs)
    dropped = [{"status": "dropped", "reason": why, **asdict(design)} for design, why in reasons if why is not None]
    return [{"symbol": symbol_of(shrunk.kernel, row["per_thread"]), **row} for row in kept + dropped]


def pieces_section(kept: KeptPieces, out: SectionWriter, *, whole: bool) -> None:
    """Write the resources of each form, and the pieces to launch beside no critical block, or the whole of them."""
    shrunk = kept.shrunk
    out.table(
        ("form", "threads>", "registers>", "of a block>", "shared>", "stack>", "spills>", "verdict"),
        [
            (
                row["symbol"], row["threads"], row["registers_per_thread"],
                row["registers_per_thread"] * row["threads"],
                *(format_bytes(row[f"{what}_bytes"]) for what in ("static_shared", "stack", "spill")), row["verdict"],
            )
            for row in kept.document["forms"]
        ],
    )  # fmt: skip
    grid, block = ("x".join(map(str, sizes)) for sizes in (shrunk.logical.grid, shrunk.logical.block))
    out.note(
        f"{shrunk.kernel}, {grid} blocks of {block} threads: {len(shrunk.designs)} pieces, each beside "
        f"{len(shrunk.leftovers) * shrunk.gpu.sm_count} kinds of critical kernel (blocks modulo multiprocessors, and "
        f"threads of one); {shrunk.pruned_share:.1%} of the combinations pruned"
    )
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

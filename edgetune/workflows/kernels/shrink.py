"""The pieces of a kernel that are worth launching beside a critical kernel."""

from dataclasses import dataclass

from edgetune.artifacts.files import name_of, read_source
from edgetune.choices import nearest
from edgetune.errors import InfeasibleError, InputError, blaming
from edgetune.stages.elastic.compiler import CompileOptions, arch_of
from edgetune.stages.elastic.forms import Forms, forms_of
from edgetune.stages.elastic.front import resources_of, transform
from edgetune.stages.elastic.gpu import Gpu, Logical, find_gpu
from edgetune.stages.elastic.kernel import MOST_BLOCKS, Dim, ElasticKernel, TransformResult, dim
from edgetune.stages.elastic.sample_launches import instance_symbol
from edgetune.stages.elastic.shrink import Shrunk
from edgetune.stages.elastic.shrink import shrink as shrunk_space
from edgetune.units import format_bytes, parse_bytes
from edgetune.workflows.kernels.options import ShrinkOptions
from edgetune.workflows.reporting import Reporter


@dataclass(frozen=True, slots=True)
class KeptPieces:
    """The result of ``shrink``.

    Args:
        forms: The compiled forms of the kernel.
        shrunk: Its design space.
        arch: The architecture that they were compiled for.
    """

    forms: Forms
    shrunk: Shrunk
    arch: str


def shrink(opts: ShrinkOptions, reporter: Reporter) -> KeptPieces:
    """Compile the forms of a kernel and keep the pieces that are worth launching.

    Raises:
        InputError: the source cannot be read or compiled, has no such kernel, or the kernel is refused; the launch does
            not fit the GPU; or an option cannot be used.
        DeviceError: NVRTC is missing, or ptxas and nvJitLink are.
        InfeasibleError: nothing is kept.
    """
    gpu = find_gpu(opts.gpu)
    logical, arch = _logical(opts, gpu), opts.arch or arch_of(gpu)
    with reporter.bar("compiling the forms", None):
        kernel, forms = _forms(opts, arch)
    asked = {count: form.resources for count, form in forms.elastic.items()}
    shrunk = shrunk_space(kernel, logical, forms.original.resources, asked, gpu)
    if not shrunk.places:
        flaws = ", ".join(dict.fromkeys(design.flaw or "" for design in shrunk.designs))
        message = f"no form of {shrunk.kernel} with {shrunk.logical.threads} threads is kept: {flaws}"
        raise InfeasibleError(message, "launch it with other block sizes")
    return KeptPieces(forms, shrunk, arch)


def _forms(opts: ShrinkOptions, arch: str) -> tuple[str, Forms]:
    """Return the name of the kernel and its compiled forms."""
    text, name = read_source(opts.file).decode("utf-8-sig", "surrogateescape"), name_of(opts.file)
    instances = [opts.kernel] if opts.kernel is not None and "<" in opts.kernel else []
    options = CompileOptions(include=tuple(map(str, opts.folders)))
    done = transform(text, name, arch, options=options, instances=instances)
    kernel = _kernel(done, instance_symbol(instances[0]) if instances else opts.kernel, name).kernel.name
    return kernel, forms_of(done, resources_of(done.source, arch, name).__getitem__)[kernel]


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


def _kernel(transformed: TransformResult, asked: str | None, name: str) -> ElasticKernel:
    """Return the kernel that was asked for, or the only one.

    Raises:
        InputError: no kernel has this name, several exist and none was named, or the kernel is refused.
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

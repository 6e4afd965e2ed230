"""From the source of a network to machine code: transformed and compiled by NVRTC, or given as PTX."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.errors import InputError
from edgetune.stages.elastic.compiler import DEFAULTS, CompileOptions, arch_of
from edgetune.stages.elastic.cuda.blocks import ptx_with_block_records, with_block_records
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.forms import Form, Forms, compile_forms, variants_by_count
from edgetune.stages.elastic.front import check_version
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.ptx.parse import is_ptx
from edgetune.stages.elastic.ptx.transform import transform_ptx
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import KernelSequence


@dataclass(frozen=True, slots=True)
class Build:
    """A network's source, compiled.

    Args:
        image: Machine code.
        forms: Of its kernels, by name.
        recorded: Whether its kernels take the address of block records.
    """

    image: bytes
    forms: Mapping[str, Forms]
    recorded: bool = False


def build(
    network: KernelSequence,
    context: Context,
    *,
    recorded: bool = False,
    options: CompileOptions = DEFAULTS,
    persistent: bool = False,
) -> Build:
    """Make a network's kernels elastic and compile them for a GPU.

    Args:
        network: With source.
        context: The GPU.
        recorded: Whether blocks write down where and when they ran; that costs time.
        options: Of the compiler; its folders are searched for headers.
        persistent: Whether each kernel gets a persistent form too.

    Raises:
        InputError: the network has no source, or its source does not parse or compile.
        DeviceError: NVRTC or the parser is missing, or the driver does not compile PTX.
    """
    check_source(network)
    if is_ptx(network.name, network.source):
        name = f"{network.name}.ptx"
        done = transform_ptx(network.source, name, persistent=persistent)
        if recorded:
            done = replace(done, source=ptx_with_block_records(done.source, name))
        return replace(load_ptx(done, context, name), recorded=recorded)
    name, arch = f"{network.name}.cu", arch_of(context.facts.gpu)
    launched = {call.kernel for call in network.calls}
    folders = tuple(map(Path, options.include))
    transformed = transform(network.source, name, folders, launched, persistent=persistent)

    def compiled(source: str) -> Build:
        written = with_block_records(source, name) if recorded else source
        made, forms = compile_forms(replace(transformed, source=written), arch, name=name, options=options)
        return Build(made.image, forms, recorded)

    try:
        return compiled(transformed.compiled)  # whole programs are given too
    except InputError:
        without_forms = {each.kernel.name for each in transformed.kernels if not each.variants}
        with suppress(InputError):  # they may need what was left out, such as cooperative groups
            if launched & without_forms:
                return compiled(transformed.source)
        raise


def load_ptx(transformed: TransformResult, context: Context, name: str) -> Build:
    """Have the driver compile PTX with its forms, and ask it what they need.

    Multiplications and additions without a rounding of their own (``mul.f32``) may be contracted, in the original and
    in its form each as the driver decides (PTX ISA, section 9.7.3).

    Args:
        transformed: PTX.
        context: The GPU.
        name: Of the file, for messages.

    Raises:
        InputError: it is newer than the driver.
        DeviceError: the driver does not compile it.
    """
    check_version(transformed.source, context.facts.driver, name)
    image = transformed.source.encode("utf-8", "surrogateescape") + b"\0"
    words = context.driver.api.CUfunction_attribute
    with context.scope():
        module = context.load(image)

        def form(symbol: str) -> Form:
            function = context.function(module, symbol)
            registers, shared_bytes, local_bytes = (
                int(context.driver.call("cuFuncGetAttribute", each, function))
                for each in (words.CU_FUNC_ATTRIBUTE_NUM_REGS, words.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                             words.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
            )  # fmt: skip
            return Form(symbol, Resources(registers, shared_bytes, local_bytes))

        forms = {
            each.kernel.name: Forms(
                form(each.kernel.name),
                {count: form(variant.symbol) for count, variant in variants_by_count(each).items()},
                next((form(variant.symbol) for variant in each.variants if variant.level == "persistent"), None),
            )
            for each in transformed.kernels
        }
    return Build(image, forms)


def check_source(network: KernelSequence) -> None:
    """Check that a network can run on a GPU at all.

    Raises:
        InputError: it has no source.
    """
    if not network.source:
        raise InputError(f"network {network.name} has no source", "it can only be simulated; leave its tasks out")

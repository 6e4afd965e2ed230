"""From the source of a network to kernels on a GPU: compiled to PTX, made elastic, and compiled by the driver.

network.source --NVRTC, nvcc--> PTX --forms--> PTX --cuModuleLoadData--> functions, and what they need
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgetune.errors import InputError
from edgetune.stages.elastic.compiler import DEFAULTS, CompileOptions, arch_of, ptx_of
from edgetune.stages.elastic.cuda.blocks import with_block_records
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.forms import Forms, forms_of
from edgetune.stages.elastic.front import check_version, transform
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.work import KernelSequence


@dataclass(frozen=True, slots=True)
class Build:
    """A network's kernels and their forms.

    Args:
        image: PTX, as ``cuModuleLoadData`` takes it.
        forms: Of its kernels, by name.
        recorded: Whether its kernels take the address of block records.
    """

    image: bytes
    forms: Mapping[str, Forms]
    recorded: bool = False


def build(
    network: KernelSequence,
    context: Context,
    recorded: bool = False,
    *,
    options: CompileOptions = DEFAULTS,
    persistent: bool = False,
) -> Build:
    """Make a network's kernels elastic and compile them for a GPU.

    Args:
        network: With source, CUDA C or PTX.
        context: The GPU.
        recorded: Whether blocks write down where and when they ran; that costs time.
        options: Of the compiler; its folders are searched for headers.
        persistent: Whether each kernel gets a persistent form too.

    Raises:
        InputError: the network has no source, its source does not compile, or its PTX is newer than the driver.
        DeviceError: NVRTC is missing, or the driver does not compile the PTX.
    """
    check_source(network)
    name, arch = f"{network.name}.cu", arch_of(context.facts.gpu)
    done = transform(network.source, name, arch, options=options, persistent=persistent)
    if recorded:
        done = replace(done, source=with_block_records(done.source, name))
    return replace(load_forms(done, context, name), recorded=recorded)


def load_forms(transformed: TransformResult, context: Context, name: str) -> Build:
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
    image, words = image_of(transformed.source, context, name), context.driver.api.CUfunction_attribute
    with context.scope():
        module = context.load(image)

        def needs(symbol: str) -> Resources:
            function = context.function(module, symbol)
            registers, shared_bytes, local_bytes = (
                int(context.driver.call("cuFuncGetAttribute", each, function))
                for each in (words.CU_FUNC_ATTRIBUTE_NUM_REGS, words.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                             words.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
            )  # fmt: skip
            return Resources(registers, shared_bytes, local_bytes)

        return Build(image, forms_of(transformed, needs))


def image_of(text: str, context: Context, name: str) -> bytes:
    """Return PTX as the driver of a GPU takes it.

    Args:
        text: PTX.
        context: The GPU.
        name: Of the file, for messages.

    Raises:
        InputError: it is newer than the driver.
    """
    check_version(text, context.facts.driver, name)
    return text.encode("utf-8", "surrogateescape") + b"\0"


def compiled_image(source: str, context: Context, name: str) -> bytes:
    """Return CUDA C, without forms, as PTX for a GPU; arguments and errors as ``image_of`` and ``compiler.ptx_of``."""
    return image_of(ptx_of(source, arch_of(context.facts.gpu), name=name)[0], context, name)


def check_source(network: KernelSequence) -> None:
    """Check that a network can run on a GPU at all.

    Raises:
        InputError: it has no source.
    """
    if not network.source:
        raise InputError(f"network {network.name} has no source", "it can only be simulated; leave its tasks out")

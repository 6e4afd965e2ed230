"""From the source of a network to kernels on a GPU: compiled to PTX, made elastic, and compiled by the driver.

network.source --NVRTC, nvcc--> PTX --forms--> PTX --cuModuleLoadData--> functions, and what they need

Parts of a GPU: green contexts (CUDA 12.4), each with multiprocessors of its own.

    use_part(context, 16)                          132 multiprocessors --split--> 16: all streams from now on are there
    context.stream(0, part_of(context, 8))         a stream whose kernels run on 8 of those

A part is no context of its own: what is loaded and allocated in the context is used by streams of its parts, of which
CUDA gives the primary context as theirs (CUDA Driver API, ``cuCtxFromGreenCtx``, ``cuStreamGetCtx_v2``). It gives
best-effort work multiprocessors of its own, or lets a big GPU stand for a small one: its bandwidth and its caches are
still those of the big one, and results say so. Whether a GPU and its driver have green contexts is found out by making
one. Source: CUDA Driver API.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic.compiler import DEFAULTS, CompileOptions, arch_of, ptx_of
from edgetune.stages.elastic.cuda.blocks import with_block_records
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.front import Forms, check_version, forms_of, transform
from edgetune.stages.elastic.gpu import Call, Gpu, KernelSequence, Resources, blocks_resident
from edgetune.stages.elastic.kernel import WARP_THREADS, CudaKernel, TransformResult
from edgetune.stages.elastic.model import check_fits
from edgetune.workloads.cuda_driver import NotOfferedError


@dataclass(frozen=True, slots=True)
class Build:
    """A network's kernels and their forms.

    Args:
        image: PTX, as ``cuModuleLoadData`` takes it.
        forms: Of its kernels, by name.
        recorded: Whether its kernels take the address of block records.
        kernels: What they take and use, by name.
    """

    image: bytes
    forms: Mapping[str, Forms]
    recorded: bool = False
    kernels: Mapping[str, CudaKernel] = field(default_factory=dict)


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
    if not network.source:
        raise InputError(f"network {network.name} has no source", "it can only be simulated; leave its tasks out")
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
            asked = ("NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES")
            attributes = (getattr(words, f"CU_FUNC_ATTRIBUTE_{each}") for each in asked)
            return Resources(*(int(context.driver.call("cuFuncGetAttribute", each, function)) for each in attributes))

        kernels = {each.kernel.name: each.kernel for each in transformed.kernels}
        return Build(image, forms_of(transformed, needs), kernels=kernels)


def fitting(call: Call, built: Build, gpu: Gpu) -> Forms:
    """Return the forms of a call that a GPU can run, the original and those whose blocks fit and are whole warps.

    Raises:
        InputError: there is no such kernel, or no block of the original fits.
    """
    forms, logical = built.forms.get(call.kernel), call.logical
    if forms is None:
        raise InputError(f"its source has no kernel {call.kernel}", f"it has {', '.join(built.forms)}")
    kernel = built.kernels.get(call.kernel)
    elastic = call.elastic and (kernel is None or kernel.suits(logical.block))
    check_fits(replace(call, resources={1: forms[None]}), gpu)
    return {
        key: needs for key, needs in forms.items()
        if key is None
        or (elastic and (key < 2 or logical.threads % (WARP_THREADS * key) == 0)  # lanes keep their warps
            and blocks_resident(gpu, needs, logical.threads // max(key, 1), logical.dynamic_shared_bytes))
    }  # fmt: skip


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


_DEFAULT_STREAM = 1
"""``CU_GREEN_CTX_DEFAULT_STREAM``: older drivers accept no other flags."""


def use_part(context: Context, sm_count: int) -> None:
    """Have all streams of a context run on so many multiprocessors; its facts say how many these are.

    Args:
        context: The GPU.
        sm_count: At least so many: the GPU has a step.

    Raises:
        DeviceError: the GPU, the driver or the bindings lack green contexts, or there are fewer multiprocessors.
    """
    gpu = context.facts.gpu
    if not 1 <= sm_count <= gpu.sm_count:
        message = f"{gpu.name} has {gpu.sm_count} multiprocessors, and {sm_count} are asked for"
        raise DeviceError(message, "ask for fewer")
    if sm_count < gpu.sm_count:  # all of them are no part, and may be no multiple of the step
        context.part, got = _part(context, sm_count)
        gpu = replace(gpu, sm_count=got, flop_per_s=gpu.flop_per_s * got / gpu.sm_count)
        context.facts = replace(context.facts, gpu=gpu)


def part_of(context: Context, sm_count: int | None) -> Any:
    """Return a green context for streams whose kernels may use only so many multiprocessors; ``None`` for all.

    Raises:
        DeviceError: the GPU, the driver or the bindings lack green contexts, or there is no part of this size.
    """
    gpu = context.facts.gpu
    if sm_count is None or sm_count >= gpu.sm_count:
        return None
    part, got = _part(context, sm_count)
    if got != sm_count:
        message = f"the nearest part of {gpu.name} to {sm_count} multiprocessors has {got}"
        raise DeviceError(message, f"ask for {got}")
    return part


def _part(context: Context, sm_count: int) -> tuple[Any, int]:
    """Return a green context, which is destroyed at the end of the scope, and how many multiprocessors it has.

    Raises:
        DeviceError: there are no parts, or none of so many multiprocessors.
    """
    driver, gpu = context.driver, context.facts.gpu
    kind, device = driver.api.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM, driver.call("cuDeviceGet", context.facts.index)
    if context.part is None:
        whole = driver.call("cuDeviceGetDevResource", device, kind)
    else:
        whole = driver.call("cuGreenCtxGetDevResource", context.part, kind)
    try:
        group = driver.call("cuDevSmResourceSplitByCount", 1, whole, 0, sm_count)[0][0]
    except NotOfferedError:
        (least,) = driver.call("cuDevSmResourceSplitByCount", 1, whole, 0, 1)[0]  # raises where there are none at all
        message = f"{gpu.name} has no part of {sm_count} multiprocessors, though it has {gpu.sm_count}"
        hint = f"its parts come in steps, the least has {least.sm.smCount}: ask for fewer, or leave --sms out for all"
        raise DeviceError(message, hint) from None
    made = driver.call(
        "cuGreenCtxCreate", driver.call("cuDevResourceGenerateDesc", [group], 1), device, _DEFAULT_STREAM
    )
    return context.noted("cuGreenCtxDestroy", made), int(group.sm.smCount)

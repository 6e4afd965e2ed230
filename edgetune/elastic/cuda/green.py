"""A part of the GPU's multiprocessors alone: green contexts, where the GPU and its driver have them (CUDA 12.4).

    device 132 multiprocessors --split--> 16 --describe--> green context --made current--> everything made in it

It is a way to give best-effort work multiprocessors of its own, and to have a big GPU stand for a small one: then its
bandwidth and its caches are still those of the big one, and results are to say so. Whether it works is found out by
doing it. Source: CUDA Driver API, green contexts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from edgetune.elastic.cuda.context import Context
from edgetune.elastic.cuda.driver import Driver, NotOfferedError
from edgetune.elastic.gpu import Gpu
from edgetune.errors import DeviceError

_DEFAULT_STREAM = 1
"""``CU_GREEN_CTX_DEFAULT_STREAM``: older drivers accept no other flags."""


@contextmanager
def green_context(context: Context, sm_count: int) -> Iterator[Context]:
    """Make a context with so many multiprocessors current while the block runs; make everything anew in it.

    Args:
        context: The GPU's primary context, current.
        sm_count: At least so many: the GPU has a step, and the facts of the context that is given say how many it got.

    Raises:
        DeviceError: the GPU, the driver or the bindings lack green contexts, or there are not so many multiprocessors.
    """
    driver, facts = context.driver, context.facts
    if not 1 <= sm_count <= facts.gpu.sm_count:
        message = f"{facts.gpu.name} has {facts.gpu.sm_count} multiprocessors, and {sm_count} are asked for"
        raise DeviceError(message, "ask for fewer")
    if sm_count == facts.gpu.sm_count:  # all of them are no part, and may be no multiple of the step
        yield context
        return
    device = driver.call("cuDeviceGet", facts.index)
    whole = driver.call("cuDeviceGetDevResource", device, driver.api.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
    groups = _split(driver, whole, sm_count, facts.gpu)
    described = driver.call("cuDevResourceGenerateDesc", groups[:1], 1)
    green = driver.call("cuGreenCtxCreate", described, device, _DEFAULT_STREAM)
    got, flop_per_s = int(groups[0].sm.smCount), facts.gpu.flop_per_s
    gpu = replace(facts.gpu, sm_count=got, flop_per_s=flop_per_s * got / facts.gpu.sm_count)
    limited = replace(facts, gpu=gpu)
    part = Context(driver, limited, now_ns=context.now_ns, sleep_s=context.sleep_s)
    try:
        driver.call("cuCtxPushCurrent", driver.call("cuCtxFromGreenCtx", green))
        try:
            with part.scope():
                yield part
        finally:
            context.hung = context.hung or part.hung
            if not part.hung:
                with suppress(DeviceError):
                    driver.call("cuCtxPopCurrent")
    finally:
        if not part.hung:
            with suppress(DeviceError):
                driver.call("cuGreenCtxDestroy", green)


def _split(driver: Driver, whole: Any, sm_count: int, gpu: Gpu) -> Any:
    """Return the part of a GPU, in a list.

    Raises:
        DeviceError: there are no parts, or none of so many multiprocessors.
    """
    try:
        return driver.call("cuDevSmResourceSplitByCount", 1, whole, 0, sm_count)[0]
    except NotOfferedError:
        (least,) = driver.call("cuDevSmResourceSplitByCount", 1, whole, 0, 1)[0]  # raises where there are none at all
        message = f"{gpu.name} has no part of {sm_count} multiprocessors, though it has {gpu.sm_count}"
        hint = f"its parts come in steps, the least has {least.sm.smCount}: ask for fewer, or leave --sms out for all"
        raise DeviceError(message, hint) from None


def why_not_green(context: Context) -> str | None:
    """Return why a part of the multiprocessors cannot be had; ``None`` where it can: one is made and given back."""
    try:
        with green_context(context, 1) as part:
            part.stream()
    except DeviceError as error:
        return error.message
    return None

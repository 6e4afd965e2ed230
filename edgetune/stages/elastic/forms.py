"""The compiled forms of kernels: which symbol to launch for so many logical threads in a physical one.

conv      original  conv          38 registers
          1         conv__grid    40
          2, 4, 8   conv__block2  44, conv__block4, conv__block8
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.errors import InputError
from edgetune.stages.elastic.abi import PER_THREAD
from edgetune.stages.elastic.compiler import DEFAULTS, CompiledSource, CompileOptions, compile
from edgetune.stages.elastic.front import resources_of
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.kernel import ElasticKernel, TransformResult, Variant


@dataclass(frozen=True, slots=True)
class Form:
    """A compiled form of a kernel.

    Args:
        symbol: Its name for the launch.
        resources: Its needs.
    """

    symbol: str
    resources: Resources


@dataclass(frozen=True, slots=True)
class Forms:
    """All forms of a kernel.

    Args:
        original: The original.
        elastic: By logical threads in a physical one; empty where the kernel is refused.
        persistent: The form whose blocks take logical blocks from a counter, where it was asked for.
    """

    original: Form
    elastic: Mapping[int, Form]
    persistent: Form | None = None

    @property
    def resources(self) -> dict[int, Resources]:
        """The needs of each; 1 is the original, as in ``work.Call``."""
        return {**{count: form.resources for count, form in self.elastic.items()}, 1: self.original.resources}


def compile_forms(
    transformed: TransformResult, arch: str, *, name: str, options: CompileOptions = DEFAULTS
) -> tuple[CompiledSource, dict[str, Forms]]:
    """Compile a source with all its forms.

    Args:
        transformed: The source; PTX is assembled only to see what its kernels need.
        arch: E.g. ``sm_87``.
        name: Of the file, for messages.
        options: Compiler options.

    Returns:
        The compiled source, and the forms by name of the original, without templates and overloaded kernels, which are
        not made elastic.

    Raises:
        InputError, DeviceError: as ``compiler.compile``, and ``front.resources_of`` for PTX.
    """
    if transformed.language == "ptx":
        needs = resources_of(transformed.source, arch, name)
        compiled = CompiledSource(b"", arch, needs, {symbol: symbol for symbol in needs}, compiler="ptxas")
        return compiled, {each.kernel.name: _forms(each, compiled) for each in transformed.kernels}
    try:
        compiled = compile(transformed.source, arch, name=name, options=options)
    except InputError as error:
        raise _with_missing(error, transformed) from None
    launched = [each for each in transformed.kernels if each.kernel.name in compiled.symbols]
    return compiled, {each.kernel.name: _forms(each, compiled) for each in launched}


def variants_by_count(elastic: ElasticKernel) -> dict[int, Variant]:
    """Return the form to launch, by logical threads in a physical one."""
    found: dict[int, Variant] = {}
    for variant in (each for each in elastic.variants if each.level != "persistent"):
        for count in PER_THREAD[1:] if variant.per_thread is None else (variant.per_thread,):
            found.setdefault(count, variant)
    return found


def _with_missing(error: InputError, transformed: TransformResult) -> InputError:
    """Return an error that names the header that was not found: the device source goes without it."""
    missing = next((each for each in transformed.refusals if each.code == "header-missing"), None)
    if missing is None:
        return error
    return InputError(f"{error.message}; line {missing.line}: {missing.reason}", missing.remedy)


def _forms(elastic: ElasticKernel, compiled: CompiledSource) -> Forms:
    name = elastic.kernel.name
    made = variants_by_count(elastic)
    taking = next((each.symbol for each in elastic.variants if each.level == "persistent"), None)
    return Forms(
        Form(compiled.symbols[name], compiled.of(name)),
        {count: Form(variant.symbol, compiled.of(variant.symbol)) for count, variant in made.items()},
        None if taking is None else Form(taking, compiled.of(taking)),
    )

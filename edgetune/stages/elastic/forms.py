"""The compiled forms of kernels: which symbol to launch for so many logical threads in a physical one.

conv      original  conv          38 registers
          1         conv__grid    40
          2, 4, 8   conv__block2  44, conv__block4, conv__block8
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


def forms_of(transformed: TransformResult, needs: Callable[[str], Resources]) -> dict[str, Forms]:
    """Return the forms of each kernel of a file, by the name of the original.

    Args:
        transformed: The file.
        needs: Returns the needs of a kernel or form, by its symbol.
    """

    def form(symbol: str) -> Form:
        return Form(symbol, needs(symbol))

    return {
        each.kernel.name: Forms(
            form(each.kernel.name),
            {count: form(variant.symbol) for count, variant in variants_by_count(each).items()},
            next((form(variant.symbol) for variant in each.variants if variant.level == "persistent"), None),
        )
        for each in transformed.kernels
    }


def variants_by_count(elastic: ElasticKernel) -> dict[int, Variant]:
    """Return the form to launch, by logical threads in a physical one."""
    return {each.per_thread: each for each in elastic.variants if each.level != "persistent"}

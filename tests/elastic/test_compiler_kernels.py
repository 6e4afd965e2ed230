"""Forms of real kernels assemble for every architecture; those kept have no stack and no spills of their own."""

from pathlib import Path

import pytest
from kernel_corpus import ARCHES
from mdtb_resources import KERNELS

from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.front import Forms, forms_of, resources_of, transform
from edgetune.stages.elastic.gpu import Logical, find_gpu
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.mdtb.builder import kernel_source
from edgetune.stages.elastic.shrink import shrink

CORPUS = sorted((Path(__file__).parent / "kernels").glob("*.cu"))
GPU = find_gpu("orin-agx")


def assembled(source: str, name: str, arch: str) -> tuple[TransformResult, dict[str, Forms]]:
    options = CompileOptions(include=(str(CORPUS[0].parent),))
    done = transform(source, name, arch, options=options)
    return done, forms_of(done, resources_of(done.source, arch, name).__getitem__)


def assert_kept_forms_are_sound(kernel: str, forms: Forms) -> None:
    asked = {key: each for key, each in forms.items() if key}
    shrunk = shrink(kernel, Logical((196, 1, 1), (256, 1, 1)), forms[None], asked, GPU)
    for place in shrunk.places:
        form, original = asked[place.per_thread], forms[None]
        assert form.stack_bytes <= original.stack_bytes
        assert form.spill_bytes <= original.spill_bytes
        registers = form.registers_per_thread * place.threads
        assert registers <= original.registers_per_thread * 256 or place.per_thread == 1


@pytest.mark.parametrize(
    ("place", "kernel"),
    [pytest.param(*each, marks=pytest.mark.slow if each[0] % 3 else (), id=each[1]) for each in enumerate(KERNELS)],
)
def test_kernels_of_the_benchmark_have_forms_of_every_size(place: int, kernel: str) -> None:
    forms = assembled(kernel_source(kernel), f"{kernel}.cu", ARCHES[place % len(ARCHES)])[1][kernel]
    assert set(forms) == {None, 1, 2, 4, 8}
    for count, form in forms.items():
        if count != 8:  # eight convolutions of one thread are more than it has registers for on some
            assert (form.stack_bytes, form.spill_bytes) == (0, 0)
        assert form.static_shared_bytes == forms[None].static_shared_bytes
    assert_kept_forms_are_sound(kernel, forms)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_all_kernels_compile_for_all_architectures(file: Path, arch: str) -> None:
    done, found = assembled(file.read_text(), file.name, arch)
    for elastic in done.kernels:
        if elastic.variants:
            assert_kept_forms_are_sound(elastic.kernel.name, found[elastic.kernel.name])

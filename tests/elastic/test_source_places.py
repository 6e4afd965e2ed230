"""Forms compile and do what the originals do, wherever a kernel stands and whatever it calls."""

import shutil
from pathlib import Path

import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

FILE = Path(__file__).with_name("places.cu")
ENDS = {"as it is": "\n", "of Windows": "\r\n"}


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_forms_do_what_the_originals_do(end):
    text = FILE.read_text().replace("\n", end)
    done = transform(text, FILE.name)
    assert [each.refusals for each in done.kernels] == [()] * 5  # the sixth is under an #if that does not hold
    verdicts = check(done, sample_launches_in(text, FILE.name), name=FILE.name, matrix=BRIEF)
    assert [(each.kernel, each.answer, each.reason) for each in verdicts] == [
        (name, "equal", "") for name in ("in_space", "hidden", "in_c", "guarded", "single")
    ]


def test_forms_compile():
    pytest.importorskip("cuda.bindings.nvrtc")
    from edgetune.stages.elastic.compiler import compile

    done = transform(FILE.read_text(), FILE.name)
    compiled = compile(done.source, "sm_87", name=FILE.name)
    wanted = {variant.symbol for each in done.kernels for variant in each.variants}
    assert wanted <= set(compiled.resources)

"""Print what every MDTB kernel and its forms ask for, on four GPUs.

    python tests/benchmarks/elastic_registers.py [memory]

    convolution, 256 threads a block
      sm_87  original 38 x 256 = 9728; 1: 40 x 256 = 10240; 2: ...      registers of a thread x threads of a block

With ``memory`` forms take the indices of logical blocks from memory. A form is kept where it has no stack and no spills
that the original has not, and its block, if it is smaller, does not take more registers. The original is compiled with
its forms and alone: ends with 1 where that makes a difference.
"""

import sys
from collections.abc import Iterator

from edgetune.stages.elastic.abi import indexing_of
from edgetune.stages.elastic.compiler import ARCHES, compile
from edgetune.stages.elastic.forms import Forms, compile_forms
from edgetune.stages.elastic.gpu import find_gpu
from edgetune.stages.elastic.mdtb.builder import kernel_source
from edgetune.stages.elastic.mdtb.networks import KERNELS, NETWORKS, network
from edgetune.stages.elastic.shrink import Flaw, block_threads, flaw_of
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Logical

ORIN = find_gpu("orin-agx")
"""Its limits stand for all four: what a block may have of registers and threads is the same on each."""


def launches() -> dict[str, Logical]:
    """Return a launch of every kernel: that of the most blocks in any of the networks."""
    found: dict[str, Logical] = {}
    for name in NETWORKS:
        for call in network(name).calls:
            if call.kernel not in found or call.logical.blocks > found[call.kernel].blocks:
                found[call.kernel] = call.logical
    return found


def verdicts(forms: Forms, logical: Logical) -> Iterator[tuple[int, int, Flaw | None]]:
    """Yield logical threads in a physical one, threads of a block, and what speaks against that form."""
    for per_thread, threads in block_threads(logical.threads).items():
        if per_thread in forms.elastic:
            asked = forms.elastic[per_thread].resources
            yield per_thread, threads, flaw_of(forms.original.resources, asked, logical, per_thread, ORIN)


def main() -> int:
    """Compile all kernels for all architectures and print a line for each form."""
    indexing = indexing_of(sys.argv[1] if len(sys.argv) > 1 else "computed")
    kept = dropped = broken = 0
    for kernel in KERNELS:
        transformed = transform(kernel_source(kernel), f"{kernel}.cu", indexing=indexing)
        logical = launches()[kernel]
        print(f"\n{kernel}, {logical.threads} threads a block")
        for refusal in (each for elastic in transformed.kernels for each in elastic.refusals):
            print(f"  refused at {refusal.level} level: {refusal.code}, line {refusal.line}: {refusal.reason}")
        for arch in ARCHES:
            forms = compile_forms(transformed, arch, name=f"{kernel}.cu")[1][kernel]
            alone = compile(kernel_source(kernel), arch, name=f"{kernel}.cu").of(kernel)
            if alone != forms.original.resources:
                broken += 1
                print(f"  {arch}: the original itself changed: {alone} -> {forms.original.resources}")
            cells = [f"original {_asked(forms, None, logical.threads)}"]
            for per_thread, threads, flaw in verdicts(forms, logical):
                cells.append(f"{per_thread}: {_asked(forms, per_thread, threads)}{f' {flaw}!' if flaw else ''}")
                kept, dropped = kept + (flaw is None), dropped + (flaw is not None)
            print(f"  {arch:7}{'; '.join(cells)}")
    print(f"\n{kept} forms kept, {dropped} dropped; {broken} originals changed")
    return int(broken > 0)


def _asked(forms: Forms, per_thread: int | None, threads: int) -> str:
    resources = (forms.original if per_thread is None else forms.elastic[per_thread]).resources
    registers = resources.registers_per_thread
    extra = f" stack {resources.stack_bytes}" if resources.stack_bytes else ""
    extra += f" spills {resources.spill_bytes}" if resources.spill_bytes else ""
    return f"{registers} x {threads} = {registers * threads}{extra}"


if __name__ == "__main__":
    sys.exit(main())

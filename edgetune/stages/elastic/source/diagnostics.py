"""Every reason for which a kernel, or one level of it, stays as it is.

    grid-sync: {name} waits for all blocks of the grid ...        the code and the reason
        -> split the kernel where it waits ...                    what to do about it

A rule of the grid level costs the kernel all of its elastic forms; a rule of the block level leaves the grid elastic.
``legality`` and ``block_legality`` look for the reasons. A kernel that cannot be shown to be safe is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.stages.elastic.abi import Level
from edgetune.stages.elastic.kernel import Refusal

_GRID = """
grid-sync: {name} waits for all blocks of the grid, and pieces of a grid do not run at once
    -> split the kernel where it waits, and launch the parts one after another
spin-wait: a loop waits for what the host or another thread writes ({name}), which may be in a piece that runs later
    -> split the kernel at the wait, let the loop end by a count of its own, or use atomic operations without waiting
recursion: {name}, and this may go on until another thread has written, which may be in a piece that runs later
    -> let each call change an argument that ends the recursion, or write a loop over a stack of its own
cluster: {name} belongs to thread block clusters, and blocks of a cluster must run at once
    -> write a form of the kernel without clusters for best-effort work
dynamic-parallelism: {name} launches or waits for other kernels from the GPU, which belong to no piece
    -> launch them from the host
cooperative-groups: {name} uses a cooperative group in a way that is not read as one of the block or of a part of a warp
    -> use plain groups and their methods, or threadIdx, __syncthreads() and the warp primitives with masks
async-barrier: {name} is asynchronous: work may be under way when the next logical block begins
    -> copy with plain loads and stores, or with a pipeline of the thread (cuda::make_pipeline(), __pipeline_commit())
named-barrier: {name} waits for some threads of the block only
    -> use __syncthreads()
inline-assembly: inline assembly ({name}) may read special registers, jump or wait
    -> write it with intrinsics
macro-index: the macro {name} hides {index}, which stands for the physical launch there
    -> define the macro once and under no #if, or write it out where it is used
macro-paste: the macro {name} makes names with ##, which cannot be seen before it is expanded
    -> write the macro out where it is used
macro-changed: the macro {name} is defined anew between what uses it and where the elastic form stands
    -> give each meaning a name of its own
hidden-index: {name} reads blockIdx or gridDim where no logical index can be handed on to it
    -> read the index in the kernel and pass it on as a number
helper-index: the function {name} reads blockIdx or gridDim and cannot be given the logical ones: {why}
    -> read the index in the kernel and pass it on as a number
indirect-call: {name} is called through a pointer, so it is not known what it does
    -> call the function by its name
unknown-name: {name} is not defined here{where}, and may hide anything
    -> define it in this file, give the folder of its header with --include, or transform the PTX (nvcc -ptx) instead
undefined-function: {name} is declared, but defined neither in this file nor in a header that was found
    -> define it in this file, or include the file that defines it
redefined-builtin: {name} is redefined here, so the kernel does not say what it does
    -> give what is defined another name
reserved-name: the name {name} is taken: elastic forms are named KERNEL__grid and KERNEL__block, and use edgetune_...
    -> rename it (a file that was transformed already needs no second time)
goto: goto {name} may make a loop that waits, and is not looked through
    -> write it with if and loops
barrier-branch: only some threads of the block may come to this barrier: the others go on to the next block
    -> let all threads come to the barrier, or write the kernel so that it can be taken apart at its barriers
warp-branch: {name} waits for all lanes of a warp, and only some may come to it: the others go on to the next block
    -> use a mask of the lanes that come, e.g. from __ballot_sync(), or branch by whole warps
template: it is a template, and an elastic kernel needs a name of its own
    -> name its arguments, e.g. --instantiate '{instance}'; a template under an #if or in a class needs a wrapper
overloaded: there are several kernels called {name}, and an elastic kernel needs a name of its own
    -> give each a name of its own
unnamed-parameter: parameter {name} cannot be handed on by name
    -> give each parameter a plain type and a name
qualified: it is named with a scope in front, or belongs to a class
    -> define it inside its namespace
not-void: a kernel returns void, and this one is declared as {name}
    -> declare it as void
unparsable: this cannot be read as CUDA C: {name}
    -> write macros and #if out so that each branch is whole statements, give folders of headers with --include, or
       correct it; or transform the PTX (nvcc -ptx), which needs no readable source
too-deep: {name} is nested more than 150 deep, statements and expressions counted, and is not looked through
    -> take it apart into functions, or long sums into several statements
conditional: it stands in an unnamed namespace {name}, and its forms cannot stand beside it
    -> take it out of the namespace (static keeps it from other files)
static-local: the static variable {name} would be another one in each form of the kernel
    -> make it a __device__ variable of the file, or pass it as a pointer
macro-kernel: the macro {name} defines kernels, which cannot be seen before it is expanded
    -> write the kernels out
macro-behind: a macro defines the kernel and more behind it, and its forms cannot stand between
    -> let the macro end with the kernel
declared-only: {name} is declared here and defined elsewhere
    -> transform the file that defines it
header-missing: {name} was not found, and may define {words}
    -> put it beside the file, or give its folder with --include
return-before-warp: some threads of a warp return and others go on to warp primitives, which would wait for their
    lanes
    -> let the others pass by under an if instead of returning, and use masks
return-before-barrier: some threads return and others go on to a barrier, which would count those that have returned
    -> let them pass by under an if, or write the kernel so that it can be taken apart at its barriers
"""
_BLOCK = """
volatile-shared: shared memory is read and written as volatile, which counts on threads of a warp running in step
    -> leave volatile out and put __syncwarp() or __syncthreads() between writes and reads
shared-wait: a loop waits for what another thread of the block writes ({name})
    -> let threads meet at __syncthreads() instead
vote-barrier: {name} counts the threads of the physical block
    -> use __syncthreads() and shared memory for the count
macro-barrier: the macro {name} hides a barrier
    -> define the macro once and under no #if, or write it out where it is used
macro-return: the macro {name} hides a return
    -> define the macro once and under no #if, or write it out where it is used
macro-thread-index: the macro {name} hides {index}, which stands for the physical block there
    -> define the macro once and under no #if, or write it out where it is used
hidden-thread-index: {name} reads threadIdx or blockDim where no logical index can be handed on to it
    -> read the index in the kernel and pass it on as a number
helper-thread-index: the function {name} reads an index of the launch and cannot be given the logical ones: {why}
    -> read the index in the kernel and pass it on as a number
active-mask: __activemask() says which lanes happen to be there, and that is another matter in an elastic form
    -> compute the mask, e.g. with __ballot_sync()
macro-exit: the macro {name} hides a break, continue or case
    -> write the macro out
loop-exit: {name} leaves a loop that holds a barrier, for some threads only
    -> put what follows under an if, and let the loop's condition end it
barrier-place: a barrier stands where the kernel cannot be taken apart: {name}
    -> let __syncthreads(); be a statement of its own in the kernel, under plain if, for, while and do
directive: the directive {name} stands between barriers
    -> let what is under #if hold neither barriers nor declarations; take other directives out of the kernel
type-across: {name} lives across a barrier and has a type of which there can be no array
    -> declare it on its own, with a type that has a name and sizes that are constants
uncertain: it cannot be seen whether {name} is the same for all threads of a block, and a barrier depends on it
    -> write conditions around barriers with plain assignments, each a statement of its own
switch-barrier: a switch holds a barrier
    -> write it with if and else
helper-barrier: the function {name} holds a barrier
    -> write its body out in the kernel where it is called
auto: the type of {name}, which lives across a barrier, is left to the compiler
    -> write its type out
reference: {name} is a reference that lives across a barrier
    -> use what it refers to, or a pointer
shadowed: {name}, which lives across a barrier, is declared more than once
    -> give each a name of its own
group-argument: {name} hands on a cooperative group, which stands for the physical block
    -> leave it: the grid is elastic all the same
async-copy: {name} copies asynchronously, and a thread waits for the copies of all logical threads that it runs
    -> leave it: the grid is elastic all the same
tensor-core: {name} is spread over the threads of a warp
    -> leave it: the grid is elastic all the same
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One reason.

    Args:
        level: ``grid`` costs every form, ``block`` the block level.
        reason: One line; ``{name}`` and the like stand for what is found in the source.
        remedy: One line.
    """

    level: Level
    reason: str
    remedy: str


def _rules(level: Level, text: str) -> dict[str, Rule]:
    joined = text.strip().replace("\n    ", " ").split("\n")
    parts = (each.partition(": ") for each in joined)
    return {code: Rule(level, *(" ".join(half.split()) for half in rest.split("->"))) for code, _, rest in parts}


RULES: dict[str, Rule] = _rules("grid", _GRID) | _rules("block", _BLOCK)
"""By code."""


Line = int | tuple[str, int]
"""A line of the text that is read, from 1; of a header with a tree of its own with that header's name."""


def refusal(code: str, line: Line, kernel: str | None, **found: str) -> Refusal:
    """Return a refusal.

    Args:
        code: A row of ``RULES``.
        line: Where it shows.
        kernel: Of which kernel; ``None`` of the file.
        found: What the reason names.
    """
    rule = RULES[code]
    shown = {key: text.encode("utf-8", "replace").decode() for key, text in found.items()}  # source may be no UTF-8
    file, number = (None, line) if isinstance(line, int) else line
    return Refusal(code, number, rule.reason.format(**shown), rule.remedy.format(**shown), kernel, rule.level, file)

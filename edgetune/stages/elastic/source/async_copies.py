"""Asynchronous copies to shared memory that a thread starts and waits for itself.

    __pipeline_memcpy_async(&s[t], &x[i], 16);   __pipeline_commit();   __pipeline_wait_prior(0);
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    cuda::memcpy_async(&s[t], &x[i], shape, pipe);

All of these are groups of ``cp.async`` of the thread, which a form lets it await behind each logical block: nothing is
under way when the next one begins, whatever the kernel itself waits for. Those that arrive at a barrier of the block,
or belong to a pipeline of several threads, are not: how often a barrier was passed stays from one block to the next.

Source: CUDA C++ Programming Guide, "Asynchronous Data Copies"; Parallel Thread Execution ISA, cp.async.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgetune.stages.elastic.source.builtins import GROUP_PREFIX, THREAD_COPIES
from edgetune.stages.elastic.source.kernel_scan import parameter_nodes
from edgetune.stages.elastic.source.syntax import (
    Node,
    above,
    arguments,
    around,
    callee,
    child,
    find,
    has,
    names,
    squeezed,
    text_of,
    texts,
)
from edgetune.stages.elastic.source.translation_unit import Definition, ParsedKernel, declares

_ARGUMENTS = {"__pipeline_memcpy_async": (3, 4), "__pipeline_commit": (0,), "__pipeline_wait_prior": (1,)}
_PIPELINE, _MADE = "cuda::pipeline<cuda::thread_scope_thread>", "cuda::make_pipeline()"
_WAIT = re.compile(r"cuda::pipeline_consumer_wait_prior<\w+>")
_OF_GROUPS = frozenset({f"{GROUP_PREFIX}memcpy_async", f"{GROUP_PREFIX}wait"})

_OF_CUDA = THREAD_COPIES | {"cuda", "thread_scope_thread"}
"""Names that mean something else where a file defines them."""

AWAIT = """#if !defined(EDGETUNE_SHIM) && __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_all;" ::: "memory");
#endif
"""
"""What a thread runs behind a logical block, so that none of its copies is under way any more."""


def copies_of_threads(kernel: ParsedKernel) -> list[str]:
    """Return the words with which a kernel copies asynchronously; none where it does not."""
    copies = THREAD_COPIES | _OF_GROUPS
    return [each for piece in kernel.reach for each in piece.tokens if each in copies]


def unread_copies(kernel: ParsedKernel) -> Iterator[tuple[Definition, Node | str]]:
    """Yield the uses of asynchronous copies that are not known to be the thread's own; a word where a macro has it."""
    for piece in kernel.reach:
        used = [each for each in dict.fromkeys(piece.tokens) if each in THREAD_COPIES]
        if not used:
            continue
        own = [each for each in _OF_CUDA if each in kernel.source.definitions or each in piece.declared]
        if piece.node is None or own:
            yield piece, used[0]
            continue
        for name in names(piece.node):
            if text_of(name) in THREAD_COPIES and not _read(name):
                yield piece, name


def _read(name: Node) -> bool:
    """Return whether a word of asynchronous copies stands for one of the thread's own."""
    word, call = text_of(name), around(name, "call_expression")
    if word in _ARGUMENTS:
        called = call is not None and call.child_by_field_name("function") == name
        return called and call is not None and len(arguments(call)) in _ARGUMENTS[word]
    if word == "pipeline":
        return any(squeezed(each) == _PIPELINE for each in above(name))
    function = child(call, "function")
    if call is None or function is None or not function.start_byte <= name.start_byte < function.end_byte:
        return False
    if word == "make_pipeline":
        return squeezed(call) == _MADE
    given = arguments(call)
    if word == "memcpy_async":
        return callee(call) == "cuda::memcpy_async" and len(given) == 4 and _of_thread(given[3])
    return _WAIT.fullmatch(squeezed(function)) is not None and len(given) == 1 and _of_thread(given[0])


def _of_thread(pipe: Node) -> bool:
    """Return whether an expression is the name of a pipeline of one thread, everywhere in its function."""
    function = around(pipe, "function_definition")
    if pipe.type != "identifier" or function is None or around(pipe, "lambda_expression", within=function) is not None:
        return False
    name = text_of(pipe)
    given = [each for each in parameter_nodes(function) if name in texts(declares(each))]
    made = [each for each in find(function, "declaration") if name in texts(declares(each))]
    typed = [each.child_by_field_name("type") for each in (*given, *made)]
    values = [each.child_by_field_name("declarator") for each in made]
    fresh = all(has(each, "init_declarator") and squeezed(each).endswith(f"={_MADE}") for each in values)
    known = all(squeezed(each) == _PIPELINE or (made and not given and squeezed(each) == "auto") for each in typed)
    return bool(typed) and fresh and known

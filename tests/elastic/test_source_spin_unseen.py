"""Loops whose wait does not stand in a plain condition of the loop, each beside a loop that gets on."""

import pytest

from edgetune.stages.elastic.source.transform import transform

READS = ("v[{}]", "atomicAdd((int *)&v[{}], 0)", "__ldcg((int *)&v[{}])")
"""Ways to read what another block may write; of the first ``v`` is volatile."""

WAITS = {
    "a macro for the word": ("#define SPIN while\n", "SPIN (READ(0) == 0);"),
    "a macro for the loop": ("#define SPIN(c) while (c)\n", "SPIN(READ(0) == 0);"),
    "a lambda that is called at once": ("", "int c = 0; while ([&] { return READ(0) == 0; }()) ++c; x[1] = c;"),
    "a step behind &&": ("", "int i = 0; while (i < n) { READ(i) && ++i; }"),
    "a step behind ?": ("", "int i = 0; while (i < n) { READ(i) ? ++i : 0; }"),
    "a step that an inner loop leaves out": (
        "",
        "int i = 0; while (i < n) { do { if (!READ(i)) break; ++i; } while (0); }",
    ),
    "a step of a lambda": ("", "int i = 0; auto back = [&] { i -= !READ(i - 1); }; while (i < n) { ++i; back(); }"),
    "a step that a lambda leaves out": (
        "",
        "int i = 0; auto back = [&] { if (READ(i - 1)) return; --i; }; while (i < n) { ++i; back(); }",
    ),
    "a step by reference": ("", "int i = 0, &j = i; while (i < n) { ++i; if (!READ(i - 1)) --j; }"),
    "a step by address": ("", "int i = 0, *j = &i; while (i < n) { ++i; if (!READ(i - 1)) *j = 0; }"),
    "a step by an address of later": ("", "int i = 0, *j; j = &i; while (i < n) { ++i; if (!READ(i - 1)) *j = 0; }"),
    "a step by an array's other name": ("", "int i[1] = {0}, *j = i; while (i[0] < n) { ++i[0]; j[0] -= !READ(0); }"),
    "a step by the reference of a lambda": (
        "",
        "int i = 0; auto back = [&r = i](int s) { r -= !s; }; while (i < n) { ++i; int s = READ(0); back(s); }",
    ),
    "a value by address": ("", "int i = 0, s, *p = &s; while (i < n) { *p = READ(i); i += s; }"),
    "a function with a reference": (
        "__device__ void get(PTR v, int i, int &s) { s = READ(i); }\n",
        "int i = 0, s = 0; while (i < n) { get(v, i, s); i += s; }",
    ),
    "a function with an address": (
        "__device__ void get(PTR v, int i, int *s) { *s = READ(i); }\n",
        "int i = 0, s = 0; while (i < n) { get(v, i, &s); i += s; }",
    ),
    "a function that steps": (
        "__device__ void step(PTR v, int &i) { if (READ(i)) ++i; }\n",
        "int i = 0; while (i < n) { step(v, i); }",
    ),
    "a copy of memory": ("", "int s; do { memcpy(&s, (void *)v, 4); } while (s == 0);"),
}
PLAIN_WAITS = {
    "a comma": "int i = 0; while (++i, x[0] == 0);",
    "either": "for (int i = 0; i < n || x[0] == 0; i++);",
    "both in a break": "int i = 0; while (true) { ++i; if (x[0] && i > 3) break; }",
    "one around the other": "int i = 0; while (true) { ++i; if (x[0]) { if (i > n) break; } }",
    "a ring with a fence": "int i = 0; while (x[i] == 0) { i = (i + 1) % n; __threadfence(); }",
    "a count with a fence": "int c; do { c = 0; __threadfence(); for (int i = 0; i < n; ++i) c += x[i]; } "
    "while (c < n);",
    "a step with a fence": "for (int i = 0; i < n;) { __threadfence(); if (x[i]) ++i; }",
}
GET_ON = {
    "a macro for a loop that counts": (
        "#define UP(i) while (i < n)\n",
        "int i = 0; UP(i) { x[i] = atomicAdd(x, 1); ++i; }",
    ),
    "a macro that runs once": (
        "#define ADD(p) do { atomicAdd(p, 1); } while (0)\n",
        "for (int i = 0; i < n; ++i) ADD(x);",
    ),
    "a lambda that atomics are in": (
        "",
        "auto add = [&](int i) { atomicAdd(x + i, 1); }; for (int i = 0; i < n; ++i) add(i);",
    ),
    "a function that is given a number": (
        "__device__ void push(int *x, int i) { x[atomicAdd(x, 1)] = i; }\n",
        "for (int i = 0; i < n; ++i) push(x, i);",
    ),
    "a function with a constant reference": (
        "__device__ void push(int *x, const int &i) { x[atomicAdd(x, 1)] = i; }\n",
        "for (int i = 0; i < n; ++i) push(x, i);",
    ),
    "a value behind &&": ("", "int c = 0; for (int i = 0; i < n; ++i) { x[i] && ++c; } x[0] = c;"),
    "a fence between writes": ("", "for (int i = 0; i < n; ++i) { x[i] = i; __threadfence(); atomicAdd(x, 1); }"),
    "another variable by reference": (
        "__device__ void get(int *x, int i, int &s) { s = atomicAdd(x + i, 0); }\n",
        "int s = 0; for (int i = 0; i < n; ++i) { get(x, i, s); x[i] = s; }",
    ),
    "a row": ("", "for (int j = x[n]; j < n && j < x[n + 1]; ++j) x[j] = 0;"),
    "found, in a row": ("", "int j = 0; while (true) { if (j >= n || x[j]) break; ++j; }"),
}


def codes(head: str, body: str) -> set[str]:
    (kernel,) = transform(f"{head}__global__ void k(int *x, int n) {{ {body} }}\n", "k.cu").kernels
    return {each.code for each in kernel.refusals if each.level == "grid"}


def written(text: str, read: str) -> str:
    """Return a text in which ``READ(i)`` and ``PTR`` are written out."""
    while "READ(" in text:
        before, _, behind = text.partition("READ(")
        index, _, behind = behind.partition(")")
        text = before + read.format(index) + behind
    return text.replace("PTR", "volatile int *" if read == READS[0] else "int *")


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("head", "body"), WAITS.values(), ids=WAITS)
def test_a_wait_that_the_condition_does_not_show_is_refused(head, body, read):
    assert "spin-wait" in codes(written(head, read), written(f"PTR v = x; {body}", read))


@pytest.mark.parametrize("body", PLAIN_WAITS.values(), ids=PLAIN_WAITS)
def test_a_wait_by_plain_reads_is_refused(body):
    assert "spin-wait" in codes("", body)


@pytest.mark.parametrize(("head", "body"), GET_ON.values(), ids=GET_ON)
def test_a_loop_beside_it_that_gets_on_is_accepted(head, body):
    assert codes(head, body) == set()

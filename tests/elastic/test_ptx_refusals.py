"""PTX kernels that cannot be made elastic safely are refused by name; their harmless neighbours are not."""

import re

import pytest

from edgetune.errors import InputError
from edgetune.stages.elastic.kernel import ElasticKernel, TransformResult
from edgetune.stages.elastic.ptx.legality import RULES
from edgetune.stages.elastic.ptx.parse import is_ptx, parse
from edgetune.stages.elastic.ptx.transform import transform_ptx

HEAD = ".version 8.0\n.target sm_87\n.address_size 64\n"
DECLARED = """.reg .pred %p<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>; .shared .align 4 .b8 held[128];
  ld.param.u64 %rd1, [k_param_0]; ld.param.u32 %r9, [k_param_1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
"""
THREAD_0 = "setp.ne.s32 %p1, %r1, 0;"


def done(body: str, bounds: str = "", declared: str = DECLARED, functions: str = "") -> TransformResult:
    parameters = ".param .u64 k_param_0, .param .u32 k_param_1"
    entry = f".visible .entry k({parameters})\n{bounds}\n{{\n{declared}{body}\nret;\n}}\n"
    return transform_ptx(HEAD + functions + entry, "k.ptx")


def made(body: str, bounds: str = "", declared: str = DECLARED) -> ElasticKernel:
    return done(body, bounds, declared).kernels[0]


REFUSED = {
    "grid-sync": ["mov.u32 %r3, %envreg2;", "mov.u64 %rd2, %gridid;", "griddepcontrol.wait;"],
    "cluster": [
        "barrier.cluster.arrive;", "mov.u32 %r3, %cluster_ctaid.x;", "mapa.u64 %rd2, %rd1, %r1;",
        "st.shared::cluster.u32 [%r1], %r2;", "fence.acq_rel.cluster;",
    ],
    "function-call": ["call.uni (%r3), malloc, (%rd1);", "{ call.uni helper, (); }"],
    "indirect-call": ["call %rd1;", "brx.idx %r1, targets;"],
    "async-barrier": [
        "mbarrier.init.shared.b64 [%r1], 1;", "cp.async.bulk.shared.global [%r1], [%rd1], 16, [%r2];",
        "cp.async.mbarrier.arrive.shared.b64 [%r1];", "tcgen05.wait::ld.sync.aligned;",
    ],
    "named-barrier": [
        "bar.sync 1;", "bar.sync 0, 64;", "bar.arrive 0, 64;", "bar.sync %r1;", "bar.red.popc.u32 %r3, 1, %p1;",
    ],
    "special-register": [
        "mov.u32 %r3, %smid;", "mov.u32 %r3, %warpid;", "mov.v4.u32 {%r3,%r4,%r5,%r6}, %ctaid;",
    ],
    "unknown-instruction": ["setmaxnreg.inc.sync.aligned.u32 232;", "activemask.b32 %r3;", "frobnicate.u32 %r1;"],
    "unparsable": ["@%p1 bra $nowhere;", "bra;", "{ $L: add.s32 %r3, %r3, 1; } { $L: bra $L; }"],
    "reserved-name": ["mov.u32 %r3, edgetune_launch;"],
    "barrier-branch": [
        f"{THREAD_0} @%p1 bra $L; bar.sync 0; $L: bar.sync 0;",
        f"{THREAD_0} @%p1 bar.sync 0;",
        "$L: bar.sync 0; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r9; @%p1 bra $L; bar.sync 0;",
        f"mov.u32 %r3, 1; {THREAD_0} @%p1 bra $L; mov.u32 %r3, 2; $L:"
        " setp.eq.s32 %p2, %r3, 1; @%p2 bra $M; bar.sync 0; $M: bar.sync 0;",
        # Threads that stay come to different barriers of a loop that they all leave behind.
        f"{THREAD_0} @%p1 ret; $L: setp.lt.u32 %p2, %r1, %r9; @%p2 bra $M; bar.sync 0; bra $N; $M: bar.sync 0;"
        " $N: add.s32 %r4, %r4, 1; setp.lt.s32 %p3, %r4, 9; @%p3 bra $L;",
        "atom.global.add.u32 %r3, [%rd1], 1; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L; bar.sync 0; $L: bar.sync 0;",
        "ld.volatile.global.u32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L; bar.sync 0; $L: bar.sync 0;",
        "mov.u32 %r3, %clock; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L; bar.sync 0; $L: bar.sync 0;",
        "add.cc.u32 %r3, %r1, %r1; addc.u32 %r4, 0, 0; setp.eq.s32 %p1, %r4, 0;"
        " @%p1 bra $L; bar.sync 0; $L: bar.sync 0;",
        "setp.gt.u32 %p1, %r1, 31; @%p1 bra $L; bar.sync 0; $L: bar.sync 0;",
        "setp.gt.u32 %p1, %r1, 31; @%p1 bra $L; wgmma.fence.sync.aligned; $L:",
    ],
    "warp-branch": [
        "setp.gt.u32 %p1, %r1, 30; @%p1 bra $L; shfl.sync.down.b32 %r3, %r1, 1, 31, -1; $L:",
        "setp.ge.s32 %p1, %r1, %r9; @%p1 ret; bar.warp.sync -1;",
        "and.b32 %r3, %r1, 31; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L; vote.sync.any.pred %p2, %p1, -1; $L:",
        "mov.u32 %r4, %laneid; shr.u32 %r5, %r4, 4; vote.sync.any.pred %p1, %p2, %r5;"
        " @%p1 bra $L; bar.warp.sync -1; $L:",
    ],
    "spin-wait": [
        "$L: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;",
        "$L: ld.acquire.gpu.u32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;",
        "$L: ld.global.u32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;",
        "$L: atom.global.cas.b32 %r3, [%rd1], 0, 1; setp.ne.s32 %p1, %r3, 0; @%p1 bra $L;",
        "mov.u32 %r4, 7; $L: atom.global.cas.b32 %r3, [%rd1], %r4, 1; setp.ne.s32 %p1, %r3, %r4; @%p1 bra $L;",
        # A clock is read, and the flag ends it.
        "$L: mov.u32 %r4, %clock; ld.volatile.global.u32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;",
        # One thread tells the others of its block.
        "$L: ld.volatile.global.u32 %r3, [%rd1]; st.shared.u32 [held], %r3; bar.sync 0; ld.shared.u32 %r4, [held];"
        " setp.eq.s32 %p1, %r4, 0; @%p1 bra $L;",
        "$L: atom.add.u32 %r3, [%rd1], 0; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;",
        "$L: suld.b.1d.b32.trap {%r3}, [%rd1, {%r1}]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;",
        # The count is kept by the one who waits for the flag.
        "$L: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;"
        " add.s32 %r4, %r4, 1; setp.lt.s32 %p2, %r4, 9; @%p2 bra $L;",
        # It counts only where it finds the flag.
        "$L: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $M;"
        " add.s32 %r4, %r4, 1; $M: setp.lt.s32 %p2, %r4, 9; @%p2 bra $L;",
        # The wait is in a loop that ends.
        "$K: $L: ld.volatile.global.u32 %r3, [%rd1]; setp.ne.s32 %p1, %r3, %r4; @%p1 bra $L;"
        " add.s32 %r4, %r4, 1; bar.sync 0; setp.lt.s32 %p2, %r4, 9; @%p2 bra $K;",
    ],
}  # fmt: skip
BODIES = [(code, body) for code, bodies in REFUSED.items() for body in bodies]


@pytest.mark.parametrize(("code", "body"), BODIES, ids=[f"{code}-{place}" for place, (code, _) in enumerate(BODIES)])
def test_what_is_not_safe_is_refused_by_name(code: str, body: str) -> None:
    kernel = made(body)
    assert not kernel.variants
    assert code in {each.code for each in kernel.refusals}, kernel.refusals
    assert all(each.line > 3 and each.kernel == "k" for each in kernel.refusals)


ACCEPTED = [
    f"bar.sync 0; {THREAD_0} @%p1 ret;",
    f"{THREAD_0} @%p1 bra $L; add.s32 %r3, %r1, 1; $L: bar.sync 0;",
    "$L: bar.sync 0; add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r9; @%p1 bra $L;",
    "setp.ge.u32 %p1, %r2, %r9; @%p1 ret; bar.sync 0;",
    "ld.shared.u32 %r3, [held]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L; bar.sync 0; $L:",
    "bar.red.popc.u32 %r3, 0, %p1; setp.eq.s32 %p2, %r3, 0; @%p2 bra $L; bar.sync 0; $L:",
    "setp.gt.u32 %p1, %r1, 31; @%p1 bra $L; shfl.sync.down.b32 %r3, %r1, 1, 31, -1; $L:",
    "shr.u32 %r3, %r1, 5; setp.ne.s32 %p1, %r3, 0; @%p1 ret; bar.warp.sync -1;",
    "$L: ld.global.u32 %r3, [%rd1]; add.s64 %rd1, %rd1, 4; add.s32 %r4, %r4, 1; setp.lt.s32 %p1, %r4, 9; @%p1 bra $L;",
    "$L: atom.global.add.u32 %r3, [%rd1], 1; add.s32 %r4, %r4, 1; setp.lt.s32 %p1, %r4, 9; @%p1 bra $L;",
    # A retry that some thread wins each time.
    "ld.global.u32 %r4, [%rd1]; $L: add.s32 %r5, %r4, 1; atom.global.cas.b32 %r3, [%rd1], %r4, %r5;"
    " setp.ne.s32 %p1, %r3, %r4; mov.u32 %r4, %r3; @%p1 bra $L;",
    # It may leave earlier, and ends by a count.
    "$L: ld.volatile.global.u32 %r3, [%rd1]; setp.ne.s32 %p1, %r3, 0; @%p1 bra $M;"
    " add.s32 %r4, %r4, 1; setp.lt.s32 %p2, %r4, 9; @%p2 bra $L; $M:",
    "cp.async.ca.shared.global [held], [%rd1], 4; cp.async.wait_group 0; bar.sync 0;",
    # Time goes on.
    "$L: mov.u32 %r3, %clock; setp.lt.u32 %p1, %r3, %r9; @%p1 bra $L;",
    "mov.u64 %rd3, %clock64; $L: mov.u64 %rd2, %clock64; sub.s64 %rd4, %rd2, %rd3; setp.lt.s64 %p1, %rd4, %rd1;"
    " @%p1 bra $L;",
    # Threads that return, or leave a loop for good, while others go on to a barrier.
    f"{THREAD_0} @%p1 ret; bar.sync 0;",
    f"{THREAD_0} @%p1 bra $L; bar.sync 0; $L: st.shared.u32 [held], %r1;",
    "$L: bar.sync 0; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r9; @%p1 bra $L;",
    f"{THREAD_0} @%p1 ret; bar.red.popc.u32 %r3, 0, %p1;",
    # A reduction behind a return: branches in a loop that meet before its barrier, and nothing but the end behind it.
    "setp.ge.u32 %p1, %r1, %r9; @%p1 ret; mov.u32 %r4, 64; $L: setp.ge.u32 %p2, %r1, %r4; @%p2 bra $M;"
    " add.s32 %r3, %r3, 1; $M: bar.sync 0; shr.u32 %r4, %r4, 1; setp.ne.s32 %p3, %r4, 0; @%p3 bra $L;",
    # A flag in shared memory that all read between barriers.
    "$L: ld.volatile.shared.u32 %r3, [held]; bar.sync 0; add.s32 %r4, %r4, 1; setp.lt.s32 %p1, %r4, 9; @%p1 bra $L;",
    "barrier.sync 0; st.volatile.shared::cta.u32 [held], %r3;",
    "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}]; sust.b.1d.b32.trap [%rd1, {%r1}], {%r3};",
]  # fmt: skip


BLOCK_REFUSED = {
    "shared-wait": [
        "$L: atom.shared.cas.b32 %r3, [held], 0, 1; setp.ne.s32 %p1, %r3, 0; @%p1 bra $L;",
        "$L: atom.shared.add.u32 %r3, [held], 1; setp.lt.u32 %p1, %r3, %r9; @%p1 bra $L;",
        "$L: ld.volatile.shared.u32 %r3, [held]; setp.eq.s32 %p1, %r3, 0; @%p1 bra $L;",
    ],
    "warp-group": ["wgmma.fence.sync.aligned;"],
    "special-register": ["mov.v4.u32 {%r3,%r4,%r5,%r6}, %tid;"],
    "carry": ["add.cc.u32 %r3, %r1, %r1; bra $L; $L: addc.u32 %r4, 0, 0;"],
    "function-call": ["call.uni (%r3), vprintf, (%rd1);"],
    "crossing": [
        f"{THREAD_0} @%p1 bra $L; cp.async.commit_group; $L:",
        # A call that gives all threads of the block one value, as its braces are kept as they are.
        "{ .param .b64 a; add.s32 %r9, %r9, 1; st.param.b64 [a], %rd1; call.uni vprintf, (a); }",
    ],
    "unparsable": [".const .u32 table;"],
}
"""Kernels whose blocks are not elastic, though their grids are."""
OF_BLOCKS = [(code, body) for code, bodies in BLOCK_REFUSED.items() for body in bodies]


@pytest.mark.parametrize(("code", "body"), OF_BLOCKS, ids=[f"{c}-{at}" for at, (c, _) in enumerate(OF_BLOCKS)])
def test_the_grid_alone_is_elastic_where_a_block_cannot_be(code: str, body: str) -> None:
    kernel = made(body)
    assert [each.symbol for each in kernel.variants] == ["k__grid"]
    assert [(each.code, each.level, each.kernel) for each in kernel.refusals] == [(code, "block", "k")]


FORMS = ["k__grid", "k__block2", "k__block4", "k__block8"]


@pytest.mark.parametrize("body", ACCEPTED)
def test_what_is_safe_is_made_elastic(body: str) -> None:
    kernel = made(body)
    assert not kernel.refusals
    assert [each.symbol for each in kernel.variants] == FORMS


def test_a_block_of_fixed_size_is_divided_where_that_goes() -> None:
    assert [each.symbol for each in made("", ".reqntid 12, 1, 1").variants] == FORMS[:3]
    assert [each.symbol for each in made("bar.warp.sync -1;", ".reqntid 64, 1, 1").variants] == FORMS[:2]
    kernel = made("bar.warp.sync -1;", ".reqntid 32, 1, 1")
    assert ([each.symbol for each in kernel.variants], kernel.refusals[0].code) == (FORMS[:1], "block-size")
    assert len(made("bar.warp.sync -1;", ".maxntid 32, 1, 1").variants) == len(FORMS)


FUNCTION = ".func (.param .b32 out) {name}(.param .b32 in)\n{{\n.reg .b32 %r<4>;\n{body}\nret;\n}}\n"
CALL = "{{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), {name}, (a); ld.param.b32 %r3, [b]; }}"
HARMLESS = {
    "ld.param.u32 %r1, [in]; st.param.b32 [out], %r1;": True,
    "mov.u32 %r1, %ctaid.x; st.param.b32 [out], %r1;": False,
    "mov.u32 %r1, %tid.x; st.param.b32 [out], %r1;": False,
    "bar.sync 0;": False,
    "bar.warp.sync -1;": False,
    "exit;": False,
    "$L: ld.volatile.shared.u32 %r1, [%r2]; setp.eq.s32 %r3, %r1, 0; @%r3 bra $L;": False,
    "call.uni f, ();": False,
    "call.uni g, ();": False,
    "call.uni h, ();": True,
    "$L: bra $L;": True,
    "$L: ld.volatile.global.u32 %r1, [%r2]; setp.eq.s32 %r3, %r1, 0; @%r3 bra $L;": False,
}


@pytest.mark.parametrize("body", HARMLESS)
def test_a_function_passes_that_reads_no_index_and_waits_for_nobody(body: str) -> None:
    functions = [("f", body), ("g", "mov.u32 %r1, %nctaid.x;"), ("h", "call.uni __assertfail, ();")]
    found = done(CALL.format(name="f"), functions="".join(FUNCTION.format(name=n, body=each) for n, each in functions))
    (kernel,) = found.kernels
    if not HARMLESS[body]:
        assert [each.code for each in kernel.refusals] == ["function-call"]
        return
    assert [each.symbol for each in kernel.variants] == FORMS
    for copy in range(2):  # a call and its parameters stand together
        block = found.source[found.source.index("__block2") : found.source.index("__block4")]
        call = block[block.index(f"st.param.b32 [a], %edgetune{copy}_r1") :]
        assert call.index("call.uni (b), f, (a);") < call.index(f"ld.param.b32 %edgetune{copy}_r3") < call.index("}")


def test_clusters_are_seen_in_the_head_of_a_kernel() -> None:
    assert made("", ".explicitcluster .reqnctapercluster 2, 1, 1").refusals[0].code == "cluster"
    assert made("", ".maxntid 128, 1, 1").variants


def test_every_rule_has_an_example() -> None:
    assert set(RULES) == set(REFUSED) | set(BLOCK_REFUSED) | {"too-large", "block-size"}


def test_what_is_too_large_is_not_made() -> None:
    blocks = "".join(f"$L{place}: @%p1 bra $L{place};\n" for place in range(5000))
    assert made(blocks).refusals[0].code == "too-large"
    kernel = made("add.s32 %r3, %r1, 1;\n" * 9000)
    assert [each.symbol for each in kernel.variants] == FORMS[:2]
    assert [(each.code, each.level) for each in kernel.refusals] == [("too-large", "block")]


def test_sums_with_a_carry_are_of_one_copy_after_the_other() -> None:
    body = "add.cc.u32 %r3, %r1, %r1; xor.b32 %r4, %r1, 7; addc.cc.u32 %r5, %r4, 0; addc.u32 %r6, 0, 0;"
    form = done(body).source.partition("k__block2")[2].partition("k__block4")[0]
    assert re.findall(r"(add\S+|xor\.b32) %edgetune(\d)_r\d", form) == [
        (name, copy) for copy in "01" for name in ("add.cc.u32", "xor.b32", "addc.cc.u32", "addc.u32")
    ]


def test_a_turn_ends_with_what_the_kernel_needs() -> None:
    ends = {
        "add.s32 %r3, %r1, 1;": (),
        "bar.sync 0;": ("bar.sync 0",),
        "st.shared.u32 [held], %r1;": ("bar.sync 0",),
        "st.volatile.shared.u32 [held], %r1;": ("bar.sync 0, bar.warp.sync 0xffffffff",),
        "bar.warp.sync -1;": ("bar.warp.sync 0xffffffff",),
        "cp.async.ca.shared.global [held], [%rd1], 4;": ("cp.async.wait_all, bar.sync 0",),
        "wgmma.fence.sync.aligned;": ("wgmma.wait_group.sync.aligned 0, bar.sync 0",),
    }
    for body, end in ends.items():
        declared = DECLARED if "held" in body else DECLARED.replace(".shared .align 4 .b8 held[128];", "")
        steps = made(body, declared=declared).steps
        assert [each.split("with ")[1] for each in steps if "turn ends" in each] == list(end)


def test_a_return_in_braces_of_its_own_keeps_its_predicate() -> None:
    assert "@!p bra $edgetune_turn;" in done("{ .reg .pred p; setp.eq.s32 p, %r1, 0; @!p ret; }").source


def test_a_kernel_without_parameters_gets_one() -> None:
    for parameters in ("", "()", "(\n)"):
        done = transform_ptx(f"{HEAD}.visible .entry k{parameters}\n{{\nret;\n}}\n", "k.ptx")
        form = parse(done.source, "k.ptx").entries[1]
        assert [(each.name, each.size_bytes) for each in form.parameters] == [("edgetune_launch", 32)]


def test_all_of_the_original_stays() -> None:
    text = f"{HEAD}// kept\n.visible .entry k()\n{{\n  /* ret; */ ret;\n}}\n.global .u32 last;\n"
    done = transform_ptx(text, "k.ptx")
    assert done.source.startswith("/* edgetune: elastic forms at the end */ " + text + "\n.visible .entry k__grid(")
    numbers = [each.line for each in parse(done.source, "k.ptx").entries]
    assert numbers[:2] == [5, 11]


def test_a_transformed_file_is_left_as_it_is() -> None:
    once = transform_ptx(f"{HEAD}.visible .entry k()\n{{\nret;\n}}\n", "k.ptx").source
    again = transform_ptx(once, "k.ptx")
    assert [each.refusals[0].code for each in again.kernels] == ["reserved-name"] * 5
    assert again.source.count("k__grid(") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("int main() {}", "is no PTX"),
        (HEAD, "has no kernel"),
        (f"{HEAD}.entry k() {{ ret;", "k.ptx:4: kernel k has no end"),
        (f"{HEAD}.entry k() {{ ret }}", "k.ptx:4: a statement has no end"),
        (f"{HEAD}.entry k() {{ .reg .b32 %r<999999999>; ret; }}", "more than 100000 registers"),
    ],
)
def test_what_is_no_ptx_is_one_error(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        transform_ptx(text, "k.ptx")


def test_ptx_is_known_by_its_name_or_its_first_directive() -> None:
    assert is_ptx("k.ptx", "")
    assert is_ptx("-", f"// from a compiler\n\n{HEAD}")
    assert not is_ptx("k.cu", "__global__ void k() {}")

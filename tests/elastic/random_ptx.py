"""Random PTX kernels: branches, loops, returns, barriers and shuffles, on values that threads share or do not.

Each thread writes a mixture of its registers to its own place. Shared memory is read where the thread wrote it, or
between two barriers. Whether all threads come to a barrier is left to chance.
"""

import random

HEAD = """.version 8.0
.target sm_87
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2)
{
.reg .pred %p<9>; .reg .b32 %r<400>; .reg .b64 %rd<9>; .shared .align 4 .b8 held[256];
ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1]; ld.param.u32 %r9, [k_param_2];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %ntid.x;
mad.lo.s32 %r5, %r2, %r4, %r1; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
mov.u32 %r18, held; shl.b32 %r6, %r1, 2; add.s32 %r7, %r18, %r6;
add.s32 %r8, %r1, 7; and.b32 %r8, %r8, 31; shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r18;
st.shared.u32 [%r7], %r5; ld.global.u32 %r10, [%rd4]; ld.global.u32 %r11, [%rd1];
mov.u32 %r12, %r2; shr.u32 %r13, %r1, 5; mov.u32 %r14, 0; mov.u32 %r15, %r9; setp.eq.u32 %p1, %r14, 0;
"""
TAIL = """
xor.b32 %r10, %r10, %r11; mad.lo.s32 %r10, %r12, 31, %r10; mad.lo.s32 %r10, %r13, 17, %r10;
mad.lo.s32 %r10, %r14, 13, %r10; xor.b32 %r10, %r10, %r15; st.global.u32 [%rd5], %r10;
ret;
}
"""
LAUNCH = "// launch k grid=4 block={block} a=int32[256]:0..70 b=int32[256]:zero n=int32:{size}\n"
OPERATIONS = ("add.s32", "sub.s32", "xor.b32", "and.b32", "min.s32", "max.s32", "mul.lo.s32", "shr.u32")
OWN = ("%r10", "%r11", "%r12", "%r13", "%r14", "%r15")
READ = (*OWN, "%r1", "%r2", "%r3", "%r9")


class _Writer:
    def __init__(self, seed: int) -> None:
        self._random, self._lines, self._number = random.Random(seed), list[str](), 20
        for _ in range(self._random.randint(3, 8)):
            self._statement(2)
        self.text = "\n".join(self._lines)

    def _say(self, line: str) -> None:
        self._lines.append(line)

    def _any(self, *names: str) -> str:
        return self._random.choice(names)

    def _new(self) -> int:
        self._number += 1
        return self._number

    def _condition(self) -> str:
        test, kind = self._any("eq", "ne", "lt", "gt", "ge"), self._any("s32", "u32")
        self._say(f"setp.{test}.{kind} %p1, {self._any(*READ)}, {self._any('0', '1', '3', '31', '32', '63')};")
        return "%p1"

    def _body(self, depth: int) -> None:
        for _ in range(self._random.randint(1, 4)):
            self._statement(depth)

    def _statement(self, depth: int) -> None:
        kinds = {"compute": 35, "branch": 20 * (depth > 0), "loop": 13 * (depth > 0), "leave": 5, "meet": 27}
        (kind,) = self._random.choices(list(kinds), list(kinds.values()))
        getattr(self, f"_{kind}")(depth)

    def _compute(self, _: int) -> None:
        operation = self._any(*OPERATIONS)
        other = self._any("1", "5", "6") if operation == "shr.u32" else self._any(*READ, "3", "-1")
        guard = f"@{self._condition()} " if self._random.random() < 0.15 else ""
        self._say(f"{guard}{operation} {self._any(*OWN)}, {self._any(*READ)}, {other};")

    def _branch(self, depth: int) -> None:
        other, behind = self._new(), self._new()
        self._say(f"@{self._any('', '!')}{self._condition()} bra $L{other};")
        self._body(depth - 1)
        self._say(f"bra $L{behind}; $L{other}:")
        if self._random.random() < 0.5:
            self._body(depth - 1)
        self._say(f"$L{behind}:")

    def _loop(self, depth: int) -> None:
        count, bound = self._new(), self._new()
        trips = f"mov.u32 %r{bound}, {self._any('1', '2', '3')};"
        if self._random.random() < 0.4:
            trips = f"and.b32 %r{bound}, {self._any(*READ)}, 3;"
        self._say(f"{trips} mov.u32 %r{count}, 0; $L{count}:")
        self._body(depth - 1)
        if self._random.random() < 0.3:
            self._say(f"@{self._condition()} bra $L{bound};")
        self._say(f"add.s32 %r{count}, %r{count}, 1; setp.lt.s32 %p1, %r{count}, %r{bound}; @%p1 bra $L{count};")
        self._say(f"$L{bound}:")

    def _leave(self, _: int) -> None:
        self._say(f"st.global.u32 [%rd5], {self._any(*OWN)}; @{self._condition()} ret;")

    def _meet(self, _: int) -> None:
        register, by = self._any(*OWN), self._any("1", "5", "16")
        exchange = f"bar.sync 0; st.shared.u32 [%r7], {register}; bar.sync 0; ld.shared.u32 {self._any(*OWN)}, "
        self._say(
            self._any(
                "bar.sync 0;", "bar.sync 0;", f"st.shared.u32 [%r7], {register};", f"ld.shared.u32 {register}, [%r7];",
                f"{exchange}[%r8]; bar.sync 0;", f"{exchange}[held]; bar.sync 0;",
                f"shfl.sync.{self._any('bfly', 'down', 'idx')}.b32 {register}, {register}, {by}, 31, -1;",
                "vote.sync.any.pred %p1, %p1, -1;", "bar.red.or.pred %p1, 0, %p1;",
            )
        )  # fmt: skip


def random_kernel(seed: int) -> str:
    """Return a kernel, with a launch in a comment."""
    chosen = random.Random(seed)
    launch = LAUNCH.format(block=chosen.choice((32, 64)), size=chosen.randrange(5))
    return f"{launch}{HEAD}{_Writer(seed).text}{TAIL}"

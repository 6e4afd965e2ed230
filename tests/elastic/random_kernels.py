"""Kernels made by chance, right by construction: no two threads touch a place without a barrier between them.

Two shared arrays go through phases: in one, each thread reads and writes its own place only; in the other, all may read
any place and none writes. A barrier lies between phases, and loops and branches that hold barriers are taken by all
threads of a block alike. All arithmetic is of integers that wrap around, so sums are the same in any order.
"""

import random
from dataclasses import dataclass, field
from math import prod

GRIDS = ("4", "2,3", "5", "2,1,2")
TOP = 2
BLOCKS = ("32", "8,4", "24", "4,3,2", "17", "64")
HEAD = """
struct Knobs { int a, b[2]; };
__device__ int spun(int x, int y) { return (x ^ y * 7) + (int)threadIdx.x - (int)blockIdx.x; }
template <int N> __device__ int folded(const int *from, int at) {
    int sum = 0;
    for (int i = 0; i < N; ++i) sum = sum * 3 + from[(at + i) % N];
    return sum;
}
"""


@dataclass
class Maker:
    """One kernel in the making.

    Args:
        chance: Where decisions come from.
        warp: Whether it uses shuffles; it has no ``return`` then.
        returns: Whether threads may leave early.
    """

    chance: random.Random
    warp: bool = False
    returns: bool = True
    numbers: int = 0
    uniform: list[str] = field(default_factory=lambda: ["n", "knobs.a"])
    varied: list[str] = field(default_factory=lambda: ["h"])
    constants: list[str] = field(default_factory=lambda: ["t"])
    arrays: list[str] = field(default_factory=list)
    phase: dict[str, str] = field(default_factory=lambda: {"p": "own", "q": "own"})

    def name(self) -> str:
        self.numbers += 1
        return f"v{self.numbers}"

    def same(self, depth: int = 2) -> str:
        """Return an expression that is the same for all threads of a block."""
        if depth and self.chance.random() < 0.4:
            return f"({self.same(depth - 1)} {self.chance.choice('+-*^&|')} {self.same(depth - 1)})"
        leaves = [*self.uniform, "(int)blockIdx.x", "(int)gridDim.x", "(int)blockDim.x", str(self.chance.randint(0, 9))]
        return self.chance.choice(leaves)

    def any(self, depth: int = 2) -> str:
        """Return an expression."""
        pick = self.chance.random()
        if depth and pick < 0.4:
            return f"({self.any(depth - 1)} {self.chance.choice('+-*^&|')} {self.any(depth - 1)})"
        if depth and pick < 0.5:
            return self.chance.choice(
                [
                    f"spun({self.any(0)}, {self.any(depth - 1)})",
                    f"(({self.any(0)}) % 2 ? {self.any(depth - 1)} : {self.any(0)})",
                    f"max({self.any(depth - 1)}, {self.any(0)})",
                ]
            )
        leaves = [
            *self.varied,
            *self.constants,
            *self.uniform,
            "(int)threadIdx.x",
            "knobs.b[t & 1]",
            "in[g % 64u]",
            self.same(0),
        ]
        leaves += [f"{array}[({self.varied[-1]} & 0x7fffffff) % 3]" for array in self.arrays]
        for shared, phase in self.phase.items():
            leaves.append(
                f"{shared}[t]" if phase == "own" else f"{shared}[(t + {self.chance.randint(0, 9)}) % threads]"
            )
        return self.chance.choice(leaves)

    def block(self, size: int, depth: int, barriers: bool, loop: bool = False) -> list[str]:
        """Return statements; what is declared in them is forgotten at their end."""
        kept = (list(self.uniform), list(self.varied), list(self.constants), list(self.arrays))
        lines: list[str] = []
        for _ in range(size):
            lines += self.statement(depth, barriers, loop)
        self.uniform, self.varied, self.constants, self.arrays = kept
        return [f"    {line}" for line in lines]

    def statement(self, depth: int, barriers: bool, loop: bool) -> list[str]:
        kinds = ["declare", "declare", "assign", "assign", "array", "own", "branch", "loop", "count"]
        kinds += ["point", "member", "cases", "turn"]
        if barriers:
            kinds += ["barrier"] * 4 + ["declare_same", "change_same"] + ["together", "together_loop"] * (depth > 0)
            kinds += ["leave"] * self.returns + ["shuffle"] * (3 * self.warp) + ["scope"] * (depth > 0)
            kinds += ["part"] * (depth == TOP)  # not in a loop, whose earlier statements take it to be the same
        if loop and not barriers:
            kinds += ["skip"]
        made: list[str] = getattr(self, self.chance.choice(kinds))(depth)
        return made

    def declare(self, depth: int) -> list[str]:
        name, other, value = self.name(), self.name(), self.any()
        if self.chance.random() < 0.2:
            self.constants.append(name)
            return [f"const int {name} = {value};"]
        self.varied += [name, other]
        return [
            self.chance.choice(
                [f"int {name} = {value}, {other} = {name} + 1;", f"int {name}, {other};\n{name} = {other} = {value};"]
            )
        ]

    def changeable(self) -> str:
        return self.chance.choice(self.varied)

    def assign(self, depth: int) -> list[str]:
        return [f"{self.changeable()} {self.chance.choice(['+=', '^=', '=', '-='])} {self.any()};"]

    def array(self, depth: int) -> list[str]:
        if self.arrays and self.chance.random() < 0.6:
            array = self.chance.choice(self.arrays)
            return [
                f"{array}[{self.chance.randint(0, 2)}] += {self.any()};",
                f"h += {array}[{self.chance.randint(0, 2)}];",
            ]
        name = self.name()
        made = f"int {name}[3] = {{{self.any(1)}, {self.any(1)}}};"
        self.arrays.append(name)
        return [made]

    def own(self, depth: int) -> list[str]:
        mine = [shared for shared, phase in self.phase.items() if phase == "own"]
        return [f"{self.chance.choice(mine)}[t] = {self.any()};"] if mine else self.assign(depth)

    def branch(self, depth: int) -> list[str]:
        lines = [f"if (({self.any()}) & {self.chance.choice([1, 2, 4])}) {{", *self.block(2, 0, False), "}"]
        return [*lines, "else {", *self.block(1, 0, False), "}"] if self.chance.random() < 0.5 else lines

    def loop(self, depth: int) -> list[str]:
        name = self.name()
        head = f"for (int {name} = 0; {name} < (({self.any(1)}) & 3); ++{name}) {{"
        return [head, *self.block(2, 0, False, loop=True), "}"]

    def skip(self, depth: int) -> list[str]:
        return [f"if (({self.any(1)}) % 3 == 0) {self.chance.choice(['break', 'continue'])};"]

    def count(self, depth: int) -> list[str]:
        return [f"atomicAdd(&sums[blockIdx.x], ({self.any(1)}) & 15);"]

    def point(self, depth: int) -> list[str]:
        name, to = self.name(), self.changeable()
        return [f"int *{name} = &{to};", f"*{name} += {self.any(1)};"]

    def member(self, depth: int) -> list[str]:
        return [f"knobs.b[{self.chance.choice(['0', '1', 't & 1'])}] ^= {self.any(1)};"]

    def cases(self, depth: int) -> list[str]:
        fall = self.chance.choice(["break;", ""])
        first, second = self.block(1, 0, False), self.block(1, 0, False)
        return [f"switch (({self.any(1)}) & 3) {{", "case 0: {", *first, fall, "}", "default: {", *second, "} }"]

    def turn(self, depth: int) -> list[str]:
        name = self.name()
        return [f"int {name} = ({self.any(1)}) & 3;", f"while ({name}-- > 0) {{", *self.block(1, 0, False), "}"]

    def scope(self, depth: int) -> list[str]:
        return ["{", *self.block(3, depth - 1, True), "}"]

    def part(self, depth: int) -> list[str]:
        """Let what was the same for all threads be each thread's own from here on."""
        name = self.chance.choice(self.uniform)
        if len(self.uniform) > 1:
            self.uniform.remove(name)
            self.varied.append(name)
        return [f"{name} += {self.any(1)};"] if name not in self.uniform else []

    def barrier(self, depth: int) -> list[str]:
        for shared in self.phase:
            self.phase[shared] = self.chance.choice(["own", "read"])
        return ["__syncthreads();"]

    def declare_same(self, depth: int) -> list[str]:
        name = self.name()
        readable = [shared for shared, phase in self.phase.items() if phase == "read"]
        value = f"{self.chance.choice(readable)}[1] & 3" if readable and self.chance.random() < 0.5 else self.same()
        made = f"int {name} = {value};"
        self.uniform.append(name)
        return [made]

    def change_same(self, depth: int) -> list[str]:
        return [f"{self.chance.choice(self.uniform)} {self.chance.choice(['+=', '^=', '='])} {self.same()};"]

    def back(self, phase: dict[str, str]) -> list[str]:
        """Return the barrier that leads back to the phase at the beginning of a branch or loop."""
        if self.phase == phase:
            return []
        self.phase = dict(phase)
        return ["    __syncthreads();"]

    def together(self, depth: int) -> list[str]:
        before = dict(self.phase)
        lines = [f"if (({self.same()}) & 1) {{", *self.block(3, depth - 1, True), *self.back(before), "}"]
        if self.chance.random() < 0.5:
            lines += ["else {", *self.block(2, depth - 1, True), *self.back(before), "}"]
        return lines

    def together_loop(self, depth: int) -> list[str]:
        before, name = dict(self.phase), self.name()
        trips = f"(({self.same(1)}) & 3)"
        head, tail = self.chance.choice(
            [
                (f"for (int {name} = 0, {name}e = {trips}; {name} < {name}e; ++{name}) {{", "}"),
                (f"for (int {name} = t, {name}e = t + {trips}; {name} < {name}e; {name}++) {{", "}"),
                (f"int {name} = {trips};\nwhile ({name}-- > 0) {{", "}"),
                (f"int {name} = {trips};\ndo {{", f"}} while (--{name} > 0);"),
            ]
        )
        return [head, *self.block(3, depth - 1, True), *self.back(before), tail]

    def leave(self, depth: int) -> list[str]:
        if self.chance.random() < 0.3:
            return [f"if (({self.same()}) % 7 == 3) return;"]
        return [f"if (({self.any()}) % 11 == 3) {{", f"    out[g] = {self.any()};", "    return;", "}"]

    def shuffle(self, depth: int) -> list[str]:
        kind, by = self.chance.choice([("xor", 5), ("down", 3), ("up", 1)])
        return [f"{self.changeable()} = __shfl_{kind}_sync(0xffffffffu, {self.any()}, {by});"]


def kernel(name: str, seed: int) -> str:
    """Return a kernel with its launch."""
    chance = random.Random(seed)
    warp = chance.random() < 0.25
    block = chance.choice(("32", "8,8", "64")) if warp else chance.choice(BLOCKS)
    grid = chance.choice(GRIDS)
    threads, blocks = _product(block), _product(grid)
    maker = Maker(chance, warp, returns=not warp and chance.random() < 0.7)
    body = "\n".join(maker.block(chance.randint(6, 14), TOP, True))
    memory = f"out=int32[{threads * blocks}]:zero sums=int32[8]:zero in=int32[64]"
    return f"""
// launch {name} grid={grid} block={block} {memory} n=int32:{chance.randint(1, 40)} knobs=int32:2,3,5
__global__ void {name}(int *out, int *sums, const int *in, int n, Knobs knobs) {{
    __shared__ int p[{threads}], q[{threads}];
    const int threads = {threads};
    const int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int g = ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * threads + t;
    int h = in[g % 64u];
    p[t] = h;
    q[t] = t * 3 + n;
{body}
    out[g] += h + n + knobs.a + p[t] * {int(maker.phase["p"] == "own")};
}}
"""


def source(seed: int, kernels: int) -> str:
    """Return a file of kernels."""
    return HEAD + "".join(kernel(f"random{number}", seed * 1000 + number) for number in range(kernels))


def _product(sizes: str) -> int:
    return prod(int(size) for size in sizes.split(","))

"""What stands around the body of an elastic form: which logical block is next, and where threads are in it.

grid, block    at = %ctaid.x; next: if (at >= count) ret; index of first + at    turn: at += %nctaid.x; bra next
persistent     next: thread 0: rank < quota ? at = counter++ : leave             turn: done++; bra next
"""

from edgetune.stages.elastic.kernel import (
    CONTROL,
    COUNT_OFFSET_BYTES,
    DONE_OFFSET_BYTES,
    FIRST_OFFSET_BYTES,
    PARAMETER,
    QUOTA_OFFSET_BYTES,
    SIZE_BYTES,
    Level,
)

_REGISTERS = (
    "at", "count", "first", "step", "left", "number", "row", "x", "y", "z", "width", "height", "depth", "rows", "shape"
)  # fmt: skip
_LAUNCH = f"""
	ld.param.u32 %edgetune_width, [{PARAMETER}];
	ld.param.u32 %edgetune_height, [{PARAMETER}+4];
	ld.param.u32 %edgetune_depth, [{PARAMETER}+8];
	ld.param.u32 %edgetune_first, [{PARAMETER}+{FIRST_OFFSET_BYTES}];
	ld.param.u32 %edgetune_count, [{PARAMETER}+{COUNT_OFFSET_BYTES}];
	mul.lo.u32 %edgetune_rows, %edgetune_height, %edgetune_depth;"""
_SLICE = """
	mov.u32 %edgetune_at, %ctaid.x;
	mov.u32 %edgetune_step, %nctaid.x;
	setp.ge.u32 %edgetune_is, %edgetune_at, %edgetune_count;
	@%edgetune_is ret;
$edgetune_next:
	add.u32 %edgetune_number, %edgetune_first, %edgetune_at;"""
_TAKING = f"""
	.shared .align 4 .b8 edgetune_taken[4];
	.reg .b64 %edgetune_control;
	.reg .pred %edgetune_other;
	ld.param.u64 %edgetune_control, [{CONTROL}];
	cvta.to.global.u64 %edgetune_control, %edgetune_control;
	mov.u32 %edgetune_at, %tid.x;
	mov.u32 %edgetune_step, %tid.y;
	or.b32 %edgetune_at, %edgetune_at, %edgetune_step;
	mov.u32 %edgetune_step, %tid.z;
	or.b32 %edgetune_at, %edgetune_at, %edgetune_step;
	setp.ne.u32 %edgetune_other, %edgetune_at, 0;
	mov.u32 %edgetune_at, %ctaid.x;
	add.u32 %edgetune_at, %edgetune_at, %edgetune_first;
$edgetune_next:
	@%edgetune_other bra $edgetune_told;
	mov.u32 %edgetune_number, %edgetune_count;
	ld.volatile.global.u32 %edgetune_left, [%edgetune_control+{QUOTA_OFFSET_BYTES}];
	setp.lt.u32 %edgetune_is, %edgetune_at, %edgetune_left;
	@%edgetune_is atom.global.add.u32 %edgetune_number, [%edgetune_control], 1;
	st.shared.u32 [edgetune_taken], %edgetune_number;
$edgetune_told:
	bar.sync 0;
	ld.shared.u32 %edgetune_number, [edgetune_taken];
	setp.ge.u32 %edgetune_is, %edgetune_number, %edgetune_count;
	@%edgetune_is ret;"""
_INDEX = """
	mov.u32 %edgetune_x, %edgetune_number;
	mov.u32 %edgetune_y, 0;
	mov.u32 %edgetune_z, 0;
	setp.eq.u32 %edgetune_is, %edgetune_rows, 1;
	@%edgetune_is bra $edgetune_body;
	div.u32 %edgetune_row, %edgetune_number, %edgetune_width;
	mul.lo.u32 %edgetune_x, %edgetune_row, %edgetune_width;
	sub.u32 %edgetune_x, %edgetune_number, %edgetune_x;
	div.u32 %edgetune_z, %edgetune_row, %edgetune_height;
	mul.lo.u32 %edgetune_y, %edgetune_z, %edgetune_height;
	sub.u32 %edgetune_y, %edgetune_row, %edgetune_y;
$edgetune_body:
	"""
_TURN = """
	sub.u32 %edgetune_left, %edgetune_count, %edgetune_at;
	setp.le.u32 %edgetune_is, %edgetune_left, %edgetune_step;
	@%edgetune_is ret;
	{ends}add.u32 %edgetune_at, %edgetune_at, %edgetune_step;
	bra.uni $edgetune_next;
"""
_DONE = f"""
	{{ends}}@%edgetune_other bra $edgetune_next;
	membar.gl;
	red.global.add.u32 [%edgetune_control+{DONE_OFFSET_BYTES}], 1;
	bra $edgetune_next;
"""


def parameters(level: Level) -> str:
    """Return the declarations of the parameters behind those of the original."""
    control = f",\n\t.param .u64 {CONTROL}" if level == "persistent" else ""
    return f"\n\t.param .align 4 .b8 {PARAMETER}[{SIZE_BYTES}]{control}\n"


def before(level: Level, *, rows: bool, copies: int = 1, warps: bool = False) -> str:
    """Return the statements in front of the body.

    Args:
        level: Of the form.
        rows: Whether rows of threads must be whole warps; it stops where they are not.
        copies: Logical threads in a physical one, at block level.
        warps: Whether lanes of a warp meet there, so that a physical block must be whole warps.
    """
    registers = ", ".join(f"%edgetune_{each}" for each in _REGISTERS)
    threads = _threads(copies, warps=warps) if level == "block" else ""
    size = ("%ntid.x", "%ntid.y", "%ntid.z") if level != "block" else [f"%edgetune_b{axis}" for axis in "xyz"]
    check = f"""
	mov.u32 %edgetune_shape, {size[0]};
	and.b32 %edgetune_shape, %edgetune_shape, 31;
	setp.ne.u32 %edgetune_is, %edgetune_shape, 0;
	mov.u32 %edgetune_shape, {size[1]};
	mov.u32 %edgetune_rows, {size[2]};
	mul.lo.u32 %edgetune_shape, %edgetune_shape, %edgetune_rows;
	setp.ne.and.u32 %edgetune_is, %edgetune_shape, 1, %edgetune_is;
	@%edgetune_is trap;"""
    begin = _TAKING if level == "persistent" else _SLICE
    head = f".reg .b32 {registers};\n\t.reg .pred %edgetune_is;"
    return f"{head}{threads}{check if rows else ''}{_LAUNCH}{begin}{_INDEX}"


def _threads(copies: int, *, warps: bool) -> str:
    """Return the statements that say where each logical thread of a physical one is in its block."""
    names = [f"%edgetune_t{axis}{copy}" for copy in range(copies) for axis in "xyz"]
    text = f"""
	.reg .b32 %edgetune_bx, %edgetune_by, %edgetune_bz, {", ".join(names)};
	ld.param.u32 %edgetune_bx, [{PARAMETER}+12];
	ld.param.u32 %edgetune_by, [{PARAMETER}+16];
	ld.param.u32 %edgetune_bz, [{PARAMETER}+20];
	mul.lo.u32 %edgetune_shape, %edgetune_bx, %edgetune_by;
	mul.lo.u32 %edgetune_shape, %edgetune_shape, %edgetune_bz;
	mov.u32 %edgetune_step, %ntid.x;
	mul.lo.u32 %edgetune_row, %edgetune_step, {copies};
	setp.ne.u32 %edgetune_is, %edgetune_row, %edgetune_shape;
	@%edgetune_is trap;
	mov.u32 %edgetune_number, %tid.x;"""
    if warps:
        text += """
	and.b32 %edgetune_row, %edgetune_step, 31;
	setp.ne.u32 %edgetune_is, %edgetune_row, 0;
	@%edgetune_is trap;"""
    for copy in range(copies):
        x, y, z = names[3 * copy : 3 * copy + 3]
        text += f"""
	mad.lo.u32 {x}, %edgetune_step, {copy}, %edgetune_number;
	div.u32 %edgetune_row, {x}, %edgetune_bx;
	mul.lo.u32 {y}, %edgetune_row, %edgetune_bx;
	sub.u32 {x}, {x}, {y};
	div.u32 {z}, %edgetune_row, %edgetune_by;
	mul.lo.u32 {y}, {z}, %edgetune_by;
	sub.u32 {y}, %edgetune_row, {y};"""
    return text


def behind(level: Level, ends: list[str]) -> str:
    """Return the statements behind the body.

    Args:
        level: Of the form.
        ends: Instructions between two logical blocks.
    """
    if level == "persistent" and "bar.sync 0" not in ends:
        ends = [*ends, "bar.sync 0"]
    between = "".join(f"{each};\n\t" for each in ends)
    return "\n$edgetune_turn:" + (_DONE if level == "persistent" else _TURN).replace("{ends}", between)

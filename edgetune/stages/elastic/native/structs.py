"""The structures of ``decide.hpp`` and ``launcher.hpp``, as ctypes sees them; what they mean is said there."""

from __future__ import annotations

import ctypes
from typing import Any

U32, I32, U64, I64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64
DOUBLE, ADDRESS = ctypes.c_double, ctypes.c_void_p
MOST_PIECES = 32


def _struct(name: str, **fields: Any) -> Any:
    """Return a structure with these fields, in order."""
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


Shape = _struct("Shape", count=U32, per_thread=U32, blocks=U32)
Limit = _struct("Limit", threads=U32, shape=Shape)
CallRow = _struct(
    "CallRow",
    blocks=U32,
    threads=U32,
    wave=U32,
    row=U32,
    alone=Shape,
    block_s=DOUBLE,
    whole_s=DOUBLE,
    work_s=DOUBLE,
    waits_s=DOUBLE,
)
TaskRow = _struct("TaskRow", priority=I32, first_call=U32, calls=U32)
Table = _struct(
    "Table", rule=U32, tasks=U32, sm_count=U32, depth=U32, most=U32, saturating_threads=DOUBLE, launch_s=DOUBLE,
    task=ctypes.POINTER(TaskRow), calls=ctypes.POINTER(CallRow), rows=ctypes.POINTER(U32),
    limits=ctypes.POINTER(Limit),
)  # fmt: skip
Piece = _struct("Piece", number=U64, about_s=DOUBLE)
State = _struct(
    "State", oldest_ns=I64, waiting=U32, begun=U32, call=U32, left=U32, in_flight=U32, pieces=U32, running_blocks=U32,
    running_threads=U32, served_s=DOUBLE, piece=Piece * MOST_PIECES,
)  # fmt: skip
DecisionRow = _struct("DecisionRow", kind=U32, task=U32, shape=Shape)

Api = _struct(
    "Api", set_context=ADDRESS, launch_kernel=ADDRESS, launch_graph=ADDRESS, write_value=ADDRESS, set_words=ADDRESS,
    query_stream=ADDRESS,
)  # fmt: skip
FormRow = _struct("FormRow", function=ADDRESS, block=U32 * 3, shared_bytes=U32, arguments=ADDRESS * 2, part=ADDRESS * 2)
ReadyRow = _struct("ReadyRow", grid=U32 * 3, form=FormRow * 5)
LineRow = _struct(
    "LineRow", stream=ADDRESS, chain=ADDRESS, ended=ADDRESS, place=ADDRESS, ended_address=U64, arrivals=ADDRESS,
    arrival_count=U64, clients=U32,
)  # fmt: skip
PlanRow = _struct(
    "PlanRow", table=ADDRESS, api=ADDRESS, calls=ADDRESS, lines=ADDRESS, context=ADDRESS, begin_ns=I64, end_ns=I64,
    hang_ns=I64, query_ns=I64,
)  # fmt: skip
RecordRow = _struct(
    "RecordRow", kind=U32, task=U32, request=U64, number=U64, call=U32, first=U32, shape=Shape, outcome=U32,
    seen_ns=I64, asked_ns=I64, started_ns=I64, ended_ns=I64,
)  # fmt: skip
SummaryRow = _struct(
    "SummaryRow", lost=I32, function=U32, decisions=U64, decisions_ns=I64, longest_ns=I64, stalls=U64
)  # fmt: skip

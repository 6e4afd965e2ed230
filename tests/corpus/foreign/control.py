"""Networks with control flow, sequences, and shapes that depend on the data."""

import numpy as np

from foreign.network import ForeignNetwork, integers, network

LOOP = """h = Loop (%s, go, x) <body = body (int64 i, bool before, float[%s,64] s) => (bool after, float[%s,64] t) {
    after = Identity(before) m = MatMul(s, w) t = Relu(m)
}>"""
GO = np.array(True)


def at_least_one_trip(feeds):
    trips = int(feeds["trips"])
    return "" if trips >= 1 else f"the loop runs {trips} times"


def if_on_input():
    return network(
        """net (bool refine, float[1,64] x) => (float[1,64] y) {
            y = If (refine) <
                then_branch = yes () => (float[1,64] a) { m = MatMul(x, w) a = Relu(m) },
                else_branch = no () => (float[1,64] b) { b = Identity(x) }
            >
        }""",
        w=(64, 64),
    )  # fmt: skip


def if_on_constant():
    return network(
        """net (float["batch",64] x) => (float["batch",64] y) {
            y = If (refine) <
                then_branch = yes () => (float["batch",64] a) { m = MatMul(x, w) a = Relu(m) },
                else_branch = no () => (float["batch",64] b) { b = Identity(x) }
            >
        }""",
        w=(64, 64), refine=np.array(True),
    )  # fmt: skip


def if_on_shape():
    """Long inputs are pooled first: which branch runs is a matter of the shape."""
    return network(
        """net (float[1,"length",64] x) => (float[1,64] y) {
            shape = Shape(x) length = Gather(shape, one) long = Greater(length, limit)
            short = If (long) <
                then_branch = yes () => (float[1,L,64] a) { a = Slice(x, from, limits, middle) },
                else_branch = no () => (float[1,L,64] b) { b = Identity(x) }
            >
            m = MatMul(short, w) y = ReduceMax <axes = [1], keepdims = 0> (m)
        }""",
        w=(64, 64), one=np.array(1, np.int64), limit=np.array(16, np.int64), limits=integers(16),
        **{"from": integers(0)}, middle=integers(1),
    )  # fmt: skip


def loop_of_constant_trips():
    return network(f"net (float[1,64] x) => (float[1,64] h) {{ {LOOP % ('trips', 1, 1)} }}",
                   w=(64, 64), go=GO, trips=np.array(10, np.int64))  # fmt: skip


def loop_open_batch():
    return network(
        f"""net (float["batch",64] x) => (float["batch",64] h) {{ {LOOP % ("trips", '"batch"', '"batch"')} }}""",
        w=(64, 64), go=GO, trips=np.array(10, np.int64),
    )  # fmt: skip


def loop_of_input_trips():
    return network(f"net (int64 trips, float[1,64] x) => (float[1,64] h) {{ {LOOP % ('trips', 1, 1)} }}",
                   w=(64, 64), go=GO)  # fmt: skip


def loop_of_capped_trips():
    """The trip count is an input, at most 20: the graph says how far it may go."""
    return network(
        f"""net (int64 trips, float[1,64] x) => (float[1,64] h) {{
            few = Min(trips, most) {LOOP % ("few", 1, 1)}
        }}""",
        w=(64, 64), go=GO, most=np.array(20, np.int64),
    )  # fmt: skip


def loop_over_shape():
    """A decoder that steps through the frames of its input."""
    return network(
        """net (float[12,1,64] frames) => (float[12,1,64] y) {
            shape = Shape(frames) trips = Gather(shape, zero)
            last, y = Loop (trips, go, start) <
                body = body (int64 i, bool before, float[1,64] s) => (bool after, float[1,64] t, float[1,64] o) {
                    after = Identity(before) f = Gather(frames, i) a = Add(s, f) m = MatMul(a, w) t = Tanh(m)
                    o = Identity(t)
                }
            >
        }""",
        w=(64, 64), go=GO, start=np.zeros((1, 64), np.float32), zero=np.array(0, np.int64),
    )  # fmt: skip


def while_loop():
    """Halves its input until it is small: how often depends on the values."""
    return network(
        """net (float[1,64] x) => (float[1,64] y) {
            y = Loop (, go, x) <body = body (int64 i, bool before, float[1,64] s) => (bool after, float[1,64] t) {
                t = Mul(s, half) m = ReduceMax <keepdims = 0> (t) after = Greater(m, small)
            }>
        }""",
        go=GO, half=np.array(0.5, np.float32), small=np.array(0.001, np.float32),
    )  # fmt: skip


def if_inside_loop():
    return network(
        """net (float[1,64] x) => (float[1,64] y) {
            y = Loop (trips, go, x) <body = body (int64 i, bool before, float[1,64] s) => (bool after, float[1,64] t) {
                after = Identity(before) r = Mod(i, two) odd = Cast <to = 9> (r)
                t = If (odd) <
                    then_branch = yes () => (float[1,64] a) { a = MatMul(s, w) },
                    else_branch = no () => (float[1,64] b) { b = Relu(s) }
                >
            }>
        }""",
        w=(64, 64), go=GO, trips=np.array(6, np.int64), two=np.array(2, np.int64),
    )  # fmt: skip


def scan_over_axis_0():
    return network(
        """net (float[32] h, float[20,32] x) => (float[32] last, float[20,32] y) {
            last, y = Scan <num_scan_inputs = 1, body = body (float[32] s, float[32] e) => (float[32] t, float[32] o) {
                a = MatMul(s, u) b = MatMul(e, w) c = Add(a, b) t = Tanh(c) o = Identity(t)
            }> (h, x)
        }""",
        u=(32, 32), w=(32, 32),
    )  # fmt: skip


def scan_of_a_batch():
    return network(
        """net (float["batch",20,32] x, float["batch",32] h) => (float["batch",32] last) {
            last, y = Scan <num_scan_inputs = 1, scan_input_axes = [1],
                body = body (float["batch",32] s, float["batch",32] e) => (float["batch",32] t, float["batch",32] o) {
                    a = MatMul(s, u) b = MatMul(e, w) c = Add(a, b) t = Tanh(c) o = Identity(t)
                }
            > (h, x)
        }""",
        u=(32, 32), w=(32, 32),
    )  # fmt: skip


def sequence_of_parts():
    return network(
        """net (float[1,12,32] x) => (float[1,12,16] y) {
            parts = SplitToSequence <axis = 1> (x, four)
            a = SequenceAt(parts, zero) b = SequenceAt(parts, one) c = SequenceAt(parts, two)
            ya = MatMul(a, w) yb = MatMul(b, w) yc = MatMul(c, w)
            outs = SequenceConstruct(ya, yb, yc)
            y = ConcatFromSequence <axis = 1> (outs)
        }""",
        w=(32, 16), four=np.array(4, np.int64), zero=np.array(0, np.int64), one=np.array(1, np.int64),
        two=np.array(2, np.int64),
    )  # fmt: skip


def sequence_grown_in_loop():
    return network(
        """net (float[1,32] x) => (float[5,32] y) {
            none = SequenceEmpty <dtype = 1> ()
            s, all = Loop (trips, go, x, none) <
                body = body (int64 i, bool before, float[1,32] h, seq(float[?,32]) q)
                    => (bool after, float[1,32] t, seq(float[?,32]) p) {
                    after = Identity(before) m = MatMul(h, w) t = Tanh(m) p = SequenceInsert(q, t)
                }
            >
            y = ConcatFromSequence <axis = 0> (all)
        }""",
        w=(32, 32), go=GO, trips=np.array(5, np.int64),
    )  # fmt: skip


def suppressed_boxes():
    return network(
        """net (float[1,100,4] boxes, float[1,5,100] scores) => (int64[k,3] chosen, float[n,4] best) {
            chosen = NonMaxSuppression(boxes, scores, most, overlap, least)
            index = Gather <axis = 1> (chosen, two)
            flat = Squeeze(boxes, zero)
            best = Gather(flat, index)
        }""",
        most=integers(10), overlap=np.array([0.5], np.float32), least=np.array([0.1], np.float32),
        two=np.array(2, np.int64), zero=integers(0),
    )  # fmt: skip


def selected_by_value():
    return network(
        """net (float[1,64] x) => (float[n,8] y) {
            m = Greater(x, limit) places = NonZero(m) t = Transpose <perm = [1,0]> (places)
            v = GatherND(x, t) c = Unsqueeze(v, one) y = MatMul(c, w)
        }""",
        limit=np.array(0.5, np.float32), one=integers(1), w=(1, 8),
    )  # fmt: skip


def best_of_all():
    return network(
        """net (float["batch",3,32,32] image) => (float["batch",20] values, int64["batch",20] indices) {
            a = Conv <strides = [2,2]> (image, w) b = Flatten(a) values, indices = TopK(b, k)
        }""",
        w=(4, 3, 2, 2), k=integers(20),
    )  # fmt: skip


def distinct_words():
    return network(
        """net (int64[32] ids) => (float[n,16] y) { d, first, back, count = Unique(ids) y = Gather(table, d) }""",
        table=(50, 16),
    )  # fmt: skip


def compressed():
    return network(
        """net (float[8,16] rows, bool[8] keep) => (float[n,4] y) {
            a = Compress <axis = 0> (rows, keep) y = MatMul(a, w)
        }""",
        w=(16, 4),
    )  # fmt: skip


def length_as_input():
    """How long the answer is, is an input: 0 or 1 would be another network than anyone's."""
    return network(
        """net (int64 frames, float[1,16] style) => (float[n,16] y) {
            i = Range(zero, frames, one) f = Cast <to = 1> (i) c = Unsqueeze(f, last) a = MatMul(c, w) y = Add(a, style)
        }""",
        zero=np.array(0, np.int64), one=np.array(1, np.int64), last=integers(-1), w=(1, 16),
    )  # fmt: skip


def some_frames(feeds):
    frames = int(feeds["frames"])
    return "" if frames >= 1 else f"{frames} frames are asked for"


ROW = ForeignNetwork
NETWORKS = (
    ROW("if_on_input", "a branch by an input", if_on_input, {"refine": (), "x": (1, 64)}, {"x": 0, "refine": None}),
    ROW("if_on_constant", "a branch by a constant", if_on_constant, {"x": (1, 64)}, {"x": 0}, 64 * 64),
    ROW("if_on_shape", "a branch by the length of the input", if_on_shape, {"x": (1, 24, 64)}, {"x": 0},
        16 * 64 * 64, {"length": 24}),
    ROW("loop_of_constant_trips", "ten trips", loop_of_constant_trips, {"x": (1, 64)}, {"x": 0}, 10 * 64 * 64),
    ROW("loop_open_batch", "ten trips, batch open", loop_open_batch, {"x": (1, 64)}, {"x": 0}, 10 * 64 * 64),
    ROW("loop_of_input_trips", "the trip count is an input", loop_of_input_trips, {"trips": (), "x": (1, 64)},
        {"x": 0, "trips": None}, verdict="either", accept=at_least_one_trip),
    ROW("loop_of_capped_trips", "the trip count is an input, with a limit in the graph", loop_of_capped_trips,
        {"trips": (), "x": (1, 64)}, {"x": 0, "trips": None}, accept=at_least_one_trip,
        verdict="either", given={"trips": 20}),
    ROW("loop_over_shape", "as many trips as frames; axis 0 is time", loop_over_shape, {"frames": (12, 1, 64)},
        {"frames": 1}, 12 * 64 * 64),
    ROW("while_loop", "as many trips as values ask for", while_loop, {"x": (1, 64)}, {}),
    ROW("if_inside_loop", "a branch in every other trip", if_inside_loop, {"x": (1, 64)}, {"x": 0}),
    ROW("scan_over_axis_0", "time is axis 0 and there is no batch", scan_over_axis_0, {"h": (32,), "x": (20, 32)},
        {}, 2 * 20 * 32 * 32),
    ROW("scan_of_a_batch", "time is axis 1 of a scan", scan_of_a_batch, {"x": (1, 20, 32), "h": (1, 32)},
        {"x": 0, "h": 0}, 2 * 20 * 32 * 32),
    ROW("sequence_of_parts", "a sequence of tensors", sequence_of_parts, {"x": (1, 12, 32)}, {"x": 0}, 12 * 32 * 16),
    ROW("sequence_grown_in_loop", "a sequence that a loop grows", sequence_grown_in_loop, {"x": (1, 32)}, {"x": 0},
        5 * 32 * 32),
    ROW("suppressed_boxes", "NonMaxSuppression", suppressed_boxes, {"boxes": (1, 100, 4), "scores": (1, 5, 100)}, {}),
    ROW("selected_by_value", "NonZero", selected_by_value, {"x": (1, 64)}, {}),
    ROW("best_of_all", "TopK", best_of_all, {"image": (1, 3, 32, 32)}, {"image": 0}, 256 * 4 * 12),
    ROW("distinct_words", "Unique", distinct_words, {"ids": (32,)}, {}, 0),
    ROW("compressed", "Compress", compressed, {"rows": (8, 16), "keep": (8,)}, {}),
    ROW("length_as_input", "the length of the answer is an input", length_as_input, {"frames": (), "style": (1, 16)},
        {"frames": None}, verdict="either", accept=some_frames),
)  # fmt: skip

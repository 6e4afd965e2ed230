"""Networks whose axes are not the usual ones: where the batch is, whether there is one, and what is open."""

import numpy as np

from foreign.network import ForeignNetwork, integers, network


def lstm_time_major():
    return network(
        """net (float[50,1,40] x) => (float[50,1,1,64] y, float[1,1,64] last) {
            y, last = LSTM <hidden_size = 64> (x, w, r)
        }""",
        w=(1, 256, 40), r=(1, 256, 64),
    )  # fmt: skip


def gru_time_major():
    return network(
        """net (float[20,2,24] x) => (float[20,2,32] y) {
            h = GRU <hidden_size = 32, linear_before_reset = 1> (x, w, r)
            y = Squeeze(h, one)
        }""",
        w=(1, 96, 24), r=(1, 96, 32), one=integers(1),
    )  # fmt: skip


def lstm_with_states():
    return network(
        """net (float[20,4,16] x, float[1,4,32] h, float[1,4,32] c)
            => (float[20,1,4,32] y, float[1,4,32] hn, float[1,4,32] cn) {
            y, hn, cn = LSTM <hidden_size = 32> (x, w, r, b, , h, c)
        }""",
        w=(1, 128, 16), r=(1, 128, 32), b=(1, 256),
    )  # fmt: skip


def gru_step_of_one():
    return network(
        """net (float[1,1,24] x, float[1,1,32] state) => (float[1,1,1,32] y, float[1,1,32] next) {
            y, next = GRU <hidden_size = 32> (x, w, r, , , state)
        }""",
        w=(1, 96, 24), r=(1, 96, 32),
    )  # fmt: skip


def stacked_states():
    """Two layers of a GRU, whose states lie in one input of ``[layers, batch, hidden]``."""
    return network(
        """net (float["batch",12,24] x, float[2,"batch",32] states) => (float["batch",32] y) {
            seq = Transpose <perm = [1,0,2]> (x)
            h0, h1 = Split <axis = 0> (states, halves)
            a, last0 = GRU <hidden_size = 32> (seq, w0, r0, , , h0)
            b = Squeeze(a, one)
            c, last1 = GRU <hidden_size = 32> (b, w1, r1, , , h1)
            y = Squeeze(last1, zero)
        }""",
        w0=(1, 96, 24), r0=(1, 96, 32), w1=(1, 96, 32), r1=(1, 96, 32),
        halves=integers(1, 1), one=integers(1), zero=integers(0),
    )  # fmt: skip


POINTS = """net (float[%s,3] x) => (float[256] y) {
    a = MatMul(x, w1)
    b = Relu(a)
    c = MatMul(b, w2)
    y = ReduceMax <axes = [0], keepdims = 0> (c)
}"""


def point_cloud():
    return network(POINTS % 4096, w1=(3, 64), w2=(64, 256))


def point_cloud_open():
    return network(POINTS % '"N"', w1=(3, 64), w2=(64, 256))


def audio():
    return network(
        """net (float[16000] wave) => (float[16] y) {
            a = Unsqueeze(wave, axes)
            b = Conv <kernel_shape = [64], strides = [16]> (a, w)
            c = Relu(b)
            d = ReduceMean <axes = [2], keepdims = 0> (c)
            y = Squeeze(d, zero)
        }""",
        w=(16, 1, 64), axes=integers(0, 1), zero=integers(0),
    )  # fmt: skip


def channels_last():
    return network(
        """net (float[1,32,48,3] image) => (float[1,32,48,16] y) {
            a = Transpose <perm = [0,3,1,2]> (image)
            b = Conv <pads = [1,1,1,1]> (a, w)
            c = Relu(b)
            y = Transpose <perm = [0,2,3,1]> (c)
        }""",
        w=(16, 3, 3, 3),
    )  # fmt: skip


def channels_first_no_batch():
    """An image of ``[channels, height, width]``, with the batch axis added inside."""
    return network(
        """net (float[3,24,24] image) => (float[10] y) {
            a = Unsqueeze(image, zero)
            b = Conv <pads = [1,1,1,1]> (a, w)
            c = GlobalAveragePool(b)
            d = Flatten(c)
            e = Gemm(d, f)
            y = Squeeze(e, zero)
        }""",
        w=(16, 3, 3, 3), f=(16, 10), zero=integers(0),
    )  # fmt: skip


def vector():
    return network(
        """net (float[64] x) => (float[10] y) { a = MatMul(x, w1) b = Tanh(a) y = MatMul(b, w2) }""",
        w1=(64, 128), w2=(128, 10),
    )  # fmt: skip


def rows_of_an_image():
    return network(
        """net (float[28,28] image) => (float[10] y) { a = Reshape(image, flat) y = MatMul(a, w) }""",
        flat=integers(784), w=(784, 10),
    )  # fmt: skip


def scalar():
    """A diffusion model's embedding of the time step."""
    return network(
        """net (float t) => (float[64] y) { a = Mul(t, frequencies) b = Sin(a) c = MatMul(b, w) y = Relu(c) }""",
        frequencies=(32,), w=(32, 64),
    )  # fmt: skip


def image_and_scalar():
    return network(
        """net (float[1,3,16,16] image, float threshold) => (float[1,8,16,16] y) {
            a = Conv <pads = [1,1,1,1]> (image, w)
            b = Sub(a, threshold)
            y = Relu(b)
        }""",
        w=(8, 3, 3, 3),
    )  # fmt: skip


def image_and_anchors():
    return network(
        """net (float[1,3,32,32] image, float[64,4] anchors) => (float[1,64,4] boxes) {
            a = Conv <strides = [4,4]> (image, w)
            b = Reshape(a, shape)
            c = Transpose <perm = [0,2,1]> (b)
            boxes = Add(c, anchors)
        }""",
        w=(4, 3, 4, 4), shape=integers(0, 4, 64),
    )  # fmt: skip


def detection_queries():
    """Cross-attention of learned queries, which are an input, to an image."""
    return network(
        """net (float[1,3,32,32] image, float[100,64] queries) => (float[1,100,64] y) {
            a = Conv <strides = [4,4]> (image, w)
            b = Reshape(a, shape)
            keys = Transpose <perm = [0,2,1]> (b)
            scores = MatMul(queries, b)
            p = Softmax <axis = -1> (scores)
            y = MatMul(p, keys)
        }""",
        w=(64, 3, 4, 4), shape=integers(0, 64, 64),
    )  # fmt: skip


def siamese():
    return network(
        """net (float[1,3,16,16] left, float[1,3,16,16] right) => (float[1,8] y) {
            a = Conv(left, w) b = GlobalAveragePool(a) c = Flatten(b)
            d = Conv(right, w) e = GlobalAveragePool(d) f = Flatten(e)
            g = Sub(c, f) y = Abs(g)
        }""",
        w=(8, 3, 3, 3),
    )  # fmt: skip


def words_and_crops():
    """One sentence and two crops of one image: no axis is the batch of both."""
    return network(
        """net (int64[1,12] words, float[2,3,8,8] crops) => (float[1,16] y) {
            a = Gather(table, words)
            b = ReduceMean <axes = [1], keepdims = 0> (a)
            c = Conv(crops, w)
            d = ReduceMean <axes = [0,2,3], keepdims = 0> (c)
            y = Add(b, d)
        }""",
        table=(30, 16), w=(16, 3, 3, 3),
    )  # fmt: skip


def coincident_leading():
    """A batch of 8, and a codebook that has 8 rows by chance."""
    return network(
        """net (float[8,16] x, float[8,16] codebook) => (float[8,8] y) {
            t = Transpose <perm = [1,0]> (codebook)
            d = MatMul(x, t)
            y = Softmax <axis = -1> (d)
        }"""
    )


def normalised_by_inputs():
    return network(
        """net (float[1,3,16,16] image, float[1,3,1,1] mean) => (float[1,8,14,14] y) {
            a = Sub(image, mean) y = Conv(a, w)
        }""",
        w=(8, 3, 3, 3),
    )  # fmt: skip


def similarity_of_all_pairs():
    """As CLIP compares a batch of images with a batch of texts: what it costs grows with the square."""
    return network(
        """net (float[8,32] image, float[8,32] text) => (float[8,8] y) {
            t = Transpose <perm = [1,0]> (text)
            y = MatMul(image, t)
        }"""
    )


def loss_over_batch():
    return network(
        """net (float[4,16] x) => (float loss) {
            a = MatMul(x, w) b = Relu(a) loss = ReduceMean <keepdims = 0> (b)
        }""",
        w=(16, 10),
    )  # fmt: skip


def cumulative():
    """A running sum over time in axis 0: twice as long runs, gives twice as much, and is not two samples."""
    return network(
        """net (float[32,16] x) => (float[32,8] y) { a = MatMul(x, w) y = CumSum(a, axis) }""",
        w=(16, 8), axis=np.array(0, np.int64),
    )  # fmt: skip


def frames_convolved():
    """Frames in axis 0, which a convolution over time mixes."""
    return network(
        """net (float[64,16] frames) => (float[64,24] y) {
            a = Transpose <perm = [1,0]> (frames)
            b = Unsqueeze(a, zero)
            c = Conv <pads = [1,1]> (b, w)
            d = Squeeze(c, zero)
            y = Transpose <perm = [1,0]> (d)
        }""",
        w=(24, 16, 3), zero=integers(0),
    )  # fmt: skip


def graph_convolution():
    return network(
        """net (float[34,16] nodes, float[34,34] adjacency) => (float[34,8] y) {
            a = MatMul(nodes, w) b = MatMul(adjacency, a) y = Relu(b)
        }""",
        w=(16, 8),
    )  # fmt: skip


def graph_of_edges():
    return network(
        """net (float[34,16] nodes, int64[2,78] edges) => (float[34,16] y) {
            from, to = Split <axis = 0> (edges, halves)
            f = Squeeze(from, zero)
            t = Squeeze(to, zero)
            sent = Gather(nodes, f)
            message = MatMul(sent, w)
            index = Unsqueeze(t, last)
            y = ScatterND <reduction = "add"> (nodes, index, message)
        }""",
        halves=integers(1, 1), zero=integers(0), last=integers(-1), w=(16, 16),
    )  # fmt: skip


ATTENTION = """net (float[%s,64] x) => (float[%s,64] y) {
    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
    kt = Transpose <perm = [1,0]> (k)
    s = MatMul(q, kt) p = Softmax <axis = -1> (s) y = MatMul(p, v)
}"""
SQUARE = (64, 64)


def attention_over_axis_0():
    return network(ATTENTION % (49, 49), wq=SQUARE, wk=SQUARE, wv=SQUARE)


def open_sequence():
    return network(ATTENTION % ('"seq"', '"seq"'), wq=SQUARE, wk=SQUARE, wv=SQUARE)


def open_time():
    return network(
        """net (float["time",1,40] x) => (float["time",1,1,64] y) { y = LSTM <hidden_size = 64> (x, w, r) }""",
        w=(1, 256, 40), r=(1, 256, 64),
    )  # fmt: skip


def batch_in_axis_1():
    return network(
        """net (float[24,"batch",32] x) => (float["batch",10] y) {
            a = MatMul(x, w) b = Relu(a) c = ReduceMean <axes = [0], keepdims = 0> (b) y = MatMul(c, f)
        }""",
        w=(32, 64), f=(64, 10),
    )  # fmt: skip


def all_symbolic():
    return network(
        """net (float["a","b","c"] x) => (float["a","b",16] y) { h = MatMul(x, w) y = Relu(h) }""", w=(32, 16)
    )


CNN = """net (float[%s,3,%s,%s] image) => (float[%s,10] y) {
    a = Conv <pads = [1,1,1,1], strides = [2,2]> (image, w)
    b = Relu(a) c = GlobalAveragePool(b) d = Flatten(c) y = Gemm(d, f)
}"""


def open_batch():
    return network(CNN % ('"N"', 16, 16, '"N"'), w=(8, 3, 3, 3), f=(8, 10))


def nameless_batch():
    return network(CNN % ("?", 16, 16, "?"), w=(8, 3, 3, 3), f=(8, 10))


def open_height_width():
    return network(CNN % (1, '"height"', '"width"', 1), w=(8, 3, 3, 3), f=(8, 10))


def everything_nameless():
    return network(CNN % ("?", "?", "?", "?"), w=(8, 3, 3, 3), f=(8, 10))


def batch_of_8():
    return network(CNN % (8, 16, 16, 8), w=(8, 3, 3, 3), f=(8, 10))


def exported_reshapes():
    """Exported for one sample, which is written into every Reshape."""
    return network(
        """net (float[1,16,8,8] x) => (float[1,64,32] y) {
            a = Reshape(x, tokens) b = MatMul(a, w) c = Reshape(b, heads)
            d = Transpose <perm = [0,2,1,3]> (c) e = Reshape(d, joined) y = Relu(e)
        }""",
        tokens=integers(1, 64, 16), heads=integers(1, 64, 4, 8), joined=integers(1, 64, 32), w=(16, 32),
    )  # fmt: skip


def flattened_with_minus_one():
    """``Reshape`` to ``[1, -1, 8]``: another batch would run, as one longer sample."""
    return network(
        """net (float[1,16,8] x) => (float[1,8] y) {
            a = MatMul(x, w) b = Reshape(a, shape) y = ReduceMax <axes = [1], keepdims = 0> (b)
        }""",
        w=(8, 8), shape=integers(1, -1, 8),
    )  # fmt: skip


def class_token():
    """A learned token, stored for one sample, joined to the tokens of an image."""
    return network(
        """net (float[1,16,32] x) => (float[1,10] y) {
            a = Concat <axis = 1> (token, x) b = MatMul(a, w) c = Relu(b)
            d = Gather <axis = 1> (c, first) y = MatMul(d, f)
        }""",
        token=(1, 1, 32), w=(32, 32), f=(32, 10), first=np.array(0, np.int64),
    )  # fmt: skip


def crops_in_the_batch():
    """Ten crops of each sample, put into the batch inside."""
    return network(
        """net (float["batch",10,3,8,8] crops) => (float["batch",8] y) {
            a = Reshape(crops, images) b = Conv(a, w) c = GlobalAveragePool(b)
            d = Reshape(c, grouped) y = ReduceMean <axes = [1], keepdims = 0> (d)
        }""",
        images=integers(-1, 3, 8, 8), w=(8, 3, 3, 3), grouped=integers(-1, 10, 8),
    )  # fmt: skip


def nodes_and_edges_open():
    return network(
        """net (float["nodes",16] features, int64["edges"] source) => (float["edges",8] y) {
            a = MatMul(features, w) y = Gather(a, source)
        }""",
        w=(16, 8),
    )  # fmt: skip


def batch_and_sequence():
    return network(
        """net (int64["batch","sequence"] ids, float["batch","sequence"] mask) => (float["batch",32] y) {
            a = Gather(table, ids) m = Unsqueeze(mask, last) b = Mul(a, m) c = MatMul(b, w)
            y = ReduceMean <axes = [1], keepdims = 0> (c)
        }""",
        table=(100, 32), w=(32, 32), last=integers(-1),
    )  # fmt: skip


def product_of_symbols():
    return network(
        """net (float["batch*sequence",32] x) => (float["batch*sequence",16] y) { a = MatMul(x, w) y = Relu(a) }""",
        w=(32, 16),
    )  # fmt: skip


ROW = ForeignNetwork
NETWORKS = (
    ROW("lstm_time_major", "an LSTM over [time, batch, features], fixed", lstm_time_major,
        {"x": (50, 1, 40)}, {"x": 1}, 50 * 4 * 64 * (40 + 64)),
    ROW("gru_time_major", "the output's batch is axis 1, too; linear before reset", gru_time_major,
        {"x": (20, 2, 24)}, {"x": 1}, 20 * 2 * 3 * 32 * (24 + 32)),
    ROW("lstm_with_states", "initial states of [layers, batch, hidden]", lstm_with_states,
        {"x": (20, 4, 16), "h": (1, 4, 32), "c": (1, 4, 32)}, {"x": 1, "h": 1, "c": 1}, 20 * 4 * 4 * 32 * (16 + 32)),
    ROW("gru_step_of_one", "time and batch are both 1", gru_step_of_one,
        {"x": (1, 1, 24), "state": (1, 1, 32)}, {"x": 1, "state": 1}, 3 * 32 * (24 + 32)),
    ROW("stacked_states", "the batch is axis 0 of one input and axis 1 of another", stacked_states,
        {"x": (1, 12, 24), "states": (2, 1, 32)}, {"x": 0, "states": 1}, 12 * 3 * 32 * (24 + 32 + 32 + 32)),
    ROW("point_cloud", "axis 0 is points, fixed, and is reduced", point_cloud,
        {"x": (4096, 3)}, {}, 4096 * (3 * 64 + 64 * 256)),
    ROW("point_cloud_open", "axis 0 is open and called N, and is points", point_cloud_open,
        {"x": (4096, 3)}, {}, 4096 * (3 * 64 + 64 * 256), {"N": 4096}),
    ROW("point_cloud_unsaid", "the same; nobody says how many points", point_cloud_open,
        {"x": (4096, 3)}, {}, verdict="refused"),
    ROW("audio", "a wave of [16000]", audio, {"wave": (16000,)}, {}, 16 * 64 * 997),
    ROW("channels_last", "as TensorFlow exports", channels_last,
        {"image": (1, 32, 48, 3)}, {"image": 0}, 32 * 48 * 16 * 27),
    ROW("channels_first_no_batch", "axis 0 is colours", channels_first_no_batch,
        {"image": (3, 24, 24)}, {}, 24 * 24 * 16 * 27 + 160),
    ROW("vector", "rank 1", vector, {"x": (64,)}, {}, 64 * 128 + 128 * 10),
    ROW("rows_of_an_image", "rank 2 without a batch", rows_of_an_image, {"image": (28, 28)}, {}, 7840),
    ROW("scalar", "rank 0", scalar, {"t": ()}, {}, 32 * 64),
    ROW("image_and_scalar", "one input has no axis", image_and_scalar,
        {"image": (1, 3, 16, 16), "threshold": ()}, {"image": 0, "threshold": None}, 256 * 8 * 27),
    ROW("image_and_anchors", "a table is an input", image_and_anchors,
        {"image": (1, 3, 32, 32), "anchors": (64, 4)}, {"image": 0, "anchors": None}, 64 * 4 * 48),
    ROW("detection_queries", "learned queries are an input", detection_queries,
        {"image": (1, 3, 32, 32), "queries": (100, 64)}, {"image": 0, "queries": None},
        64 * 64 * 48 + 2 * 100 * 64 * 64),
    ROW("siamese", "two inputs of one batch", siamese,
        {"left": (1, 3, 16, 16), "right": (1, 3, 16, 16)}, {"left": 0, "right": 0}, 2 * 14 * 14 * 8 * 27),
    ROW("words_and_crops", "leading axes 1 and 2, fixed", words_and_crops,
        {"words": (1, 12), "crops": (2, 3, 8, 8)}, {}, 2 * 36 * 16 * 27),
    ROW("coincident_leading", "a table has as many rows as the batch", coincident_leading,
        {"x": (8, 16), "codebook": (8, 16)}, {"x": 0, "codebook": None}, 8 * 8 * 16),
    ROW("normalised_by_inputs", "the mean of colours is an input of leading axis 1", normalised_by_inputs,
        {"image": (1, 3, 16, 16), "mean": (1, 3, 1, 1)}, {"image": 0}, 14 * 14 * 8 * 27),
    ROW("similarity_of_all_pairs", "cost is quadratic in axis 0", similarity_of_all_pairs,
        {"image": (8, 32), "text": (8, 32)}, {}, 8 * 8 * 32),
    ROW("loss_over_batch", "a scalar comes out", loss_over_batch, {"x": (4, 16)}, {}, 4 * 160),
    ROW("cumulative", "axis 0 is time, and outputs and cost follow it", cumulative, {"x": (32, 16)}, {}, 32 * 128),
    ROW("frames_convolved", "axis 0 is time, mixed by a convolution", frames_convolved,
        {"frames": (64, 16)}, {}, 64 * 24 * 48),
    ROW("graph_convolution", "axis 0 is nodes", graph_convolution,
        {"nodes": (34, 16), "adjacency": (34, 34)}, {}, 34 * 16 * 8 + 34 * 34 * 8),
    ROW("graph_of_edges", "indices of nodes in an input of leading axis 2", graph_of_edges,
        {"nodes": (34, 16), "edges": (2, 78)}, {}, 78 * 256),
    ROW("attention_over_axis_0", "tokens without a batch, fixed", attention_over_axis_0,
        {"x": (49, 64)}, {}, 3 * 49 * 64 * 64 + 2 * 49 * 49 * 64),
    ROW("open_sequence", "axis 0 is open, called seq, and said", open_sequence,
        {"x": (30, 64)}, {}, 3 * 30 * 64 * 64 + 2 * 30 * 30 * 64, {"seq": 30}),
    ROW("open_sequence_unsaid", "the same; nobody says how long", open_sequence, {"x": (30, 64)}, {},
        verdict="refused"),
    ROW("open_time", "axis 0 is open and called time; the batch is axis 1, fixed", open_time,
        {"x": (50, 1, 40)}, {"x": 1}, 50 * 4 * 64 * (40 + 64), {"time": 50}),
    ROW("open_time_unsaid", "the same; nobody says how long", open_time, {"x": (50, 1, 40)}, {}, verdict="refused"),
    ROW("batch_in_axis_1", "axis 1 is open and called batch", batch_in_axis_1,
        {"x": (24, 1, 32)}, {"x": 1}, 24 * 32 * 64 + 64 * 10),
    ROW("all_symbolic", "a, b and c; b and c said", all_symbolic,
        {"x": (1, 7, 32)}, {"x": 0}, 7 * 32 * 16, {"b": 7, "c": 32}, verdict="either"),
    ROW("all_symbolic_said", "a, b and c, all said", all_symbolic,
        {"x": (5, 7, 32)}, {}, 5 * 7 * 32 * 16, {"a": 5, "b": 7, "c": 32}),
    ROW("all_symbolic_unsaid", "a, b and c; nobody says how long", all_symbolic, {"x": (1, 1, 32)}, {},
        verdict="refused"),
    ROW("open_batch", "only the batch is symbolic", open_batch, {"image": (1, 3, 16, 16)}, {"image": 0},
        64 * 8 * 27 + 80),
    ROW("nameless_batch", "the batch is open without a name", nameless_batch,
        {"image": (1, 3, 16, 16)}, {"image": 0}, 64 * 8 * 27 + 80),
    ROW("open_height_width", "height and width are symbolic, the batch is 1", open_height_width,
        {"image": (1, 3, 32, 48)}, {"image": 0}, 16 * 24 * 8 * 27 + 80, {"height": 32, "width": 48}),
    ROW("everything_nameless", "all but the colours is open without a name", everything_nameless,
        {"image": (1, 3, 32, 48)}, {"image": 0}, 16 * 24 * 8 * 27 + 80, {"image:2": 32, "image:3": 48}),
    ROW("batch_of_8", "exported for 8", batch_of_8, {"image": (8, 3, 16, 16)}, {"image": 0}, 8 * (64 * 8 * 27 + 80)),
    ROW("exported_reshapes", "exported for 1, constants in Reshape", exported_reshapes,
        {"x": (1, 16, 8, 8)}, {"x": 0}, 64 * 16 * 32),
    ROW("flattened_with_minus_one", "another batch would be one longer sample", flattened_with_minus_one,
        {"x": (1, 16, 8)}, {"x": 0}, 16 * 64),
    ROW("class_token", "a constant of the batch is joined to the input", class_token,
        {"x": (1, 16, 32)}, {"x": 0}, 17 * 32 * 32 + 320),
    ROW("crops_in_the_batch", "the batch inside is ten times that of the input", crops_in_the_batch,
        {"crops": (1, 10, 3, 8, 8)}, {"crops": 0}, 10 * 36 * 8 * 27),
    ROW("nodes_and_edges_open", "leading axes of two symbols, said", nodes_and_edges_open,
        {"features": (34, 16), "source": (78,)}, {}, 34 * 128, {"nodes": 34, "edges": 78}),
    ROW("batch_and_sequence", "two symbols, one said", batch_and_sequence,
        {"ids": (1, 12), "mask": (1, 12)}, {"ids": 0, "mask": 0}, 12 * 32 * 32, {"sequence": 12}),
    ROW("product_of_symbols", "axis 0 is batch times sequence", product_of_symbols,
        {"x": (12, 32)}, {}, 12 * 32 * 16, {"batch*sequence": 12}, verdict="either"),
)  # fmt: skip

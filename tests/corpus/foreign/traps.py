"""Networks that look as if their batch were clear: symbols, outputs and loops that mislead."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from foreign.layouts import CNN
from foreign.network import ForeignNetwork, integers, network


def square_of_one_symbol():
    """A graph of N nodes: its adjacency matrix is N by N."""
    return network(
        """net (float["N",16] nodes, float["N","N"] adjacency) => (float["N",8] y) {
            a = MatMul(nodes, w) b = MatMul(adjacency, a) y = Relu(b)
        }""",
        w=(16, 8),
    )  # fmt: skip


def points_before_batch():
    """Points are called n, and stand before the batch."""
    return network(
        """net (float["n","batch",3] points) => (float["batch",32] y) {
            a = MatMul(points, w) b = Relu(a) y = ReduceMax <axes = [0], keepdims = 0> (b)
        }""",
        w=(3, 32),
    )  # fmt: skip


def points_behind_batch():
    return network(
        """net (float["batch","n",3] points) => (float["batch",32] y) {
            a = MatMul(points, w) b = Relu(a) y = ReduceMax <axes = [1], keepdims = 0> (b)
        }""",
        w=(3, 32),
    )  # fmt: skip


def clips_of_8_frames():
    """Frames stand in the batch axis; every eight of them are one clip."""
    return network(
        """net (float["frames",3,16,16] video) => (float["clips",10] y) {
            a = Conv <strides = [2,2]> (video, w) b = GlobalAveragePool(a) c = Reshape(b, clips)
            d = ReduceMean <axes = [1], keepdims = 0> (c) y = MatMul(d, f)
        }""",
        w=(8, 3, 2, 2), clips=integers(-1, 8, 8), f=(8, 10),
    )  # fmt: skip


def two_unknown_symbols():
    """As tf2onnx writes two inputs of one batch."""
    return network(
        """net (float["unk__1",16] x, float["unk__2",16] z) => (float["unk__3",8] y) {
            a = Add(x, z) y = MatMul(a, w)
        }""",
        w=(16, 8),
    )  # fmt: skip


def one_unknown_symbol():
    return network(CNN % ('"unk__6"', 16, 16, '"unk__6"'), w=(8, 3, 3, 3), f=(8, 10))


def batch_minus_one():
    model = network(CNN % ("?", 16, 16, "?"), w=(8, 3, 3, 3), f=(8, 10))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    return model


def twice_the_batch():
    """Classifier-free guidance: the images of a batch twice, with and without the text."""
    return network(
        """net (float["2*batch",4,8,8] latent, float["batch",16] text) => (float["batch",4,8,8] y) {
            a = Conv <pads = [1,1,1,1]> (latent, w)
            with, without = Split <axis = 0> (a)
            g = MatMul(text, t) b = Reshape(g, image) c = Sub(with, without) y = Mul(c, b)
        }""",
        w=(4, 4, 3, 3), t=(16, 256), image=integers(-1, 4, 8, 8),
    )  # fmt: skip


def transposed_input():
    """Columns are samples, as some control people write."""
    return network("""net (float[16,8] x) => (float[8,10] y) { y = Gemm <transA = 1> (x, w) }""", w=(16, 10))


def transposed_output():
    return network(
        """net (float["N",16] x) => (float[10,"N"] y) { a = MatMul(x, w) y = Transpose <perm = [1,0]> (a) }""",
        w=(16, 10),
    )  # fmt: skip


def squeezed_output():
    return network(
        """net (float[1,3,16,16] image) => (float[10] y) {
            a = Conv(image, w) b = GlobalAveragePool(a) c = Flatten(b) d = Gemm(c, f) y = Squeeze(d, zero)
        }""",
        w=(8, 3, 3, 3), f=(8, 10), zero=integers(0),
    )  # fmt: skip


def flattened_outputs():
    """64 boxes of each image, in one list."""
    return network(
        """net (float["batch",3,32,32] image) => (float["boxes",4] y) {
            a = Conv <strides = [4,4]> (image, w) b = Transpose <perm = [0,2,3,1]> (a) y = Reshape(b, rows)
        }""",
        w=(4, 3, 4, 4), rows=integers(-1, 4),
    )  # fmt: skip


def loop_over_samples():
    return network(
        """net (float["batch",64] x) => (float["batch",32] y) {
            shape = Shape(x) n = Gather(shape, zero)
            y = Loop (n, go) <body = body (int64 i, bool before) => (bool after, float[32] o) {
                after = Identity(before) row = Gather(x, i) o = MatMul(row, w)
            }>
        }""",
        w=(64, 32), go=np.array(True), zero=np.array(0, np.int64),
    )  # fmt: skip


def state_of_the_batch():
    """The initial state is made for the batch of the input, by ConstantOfShape."""
    return network(
        """net (float[20,"batch",24] x) => (float[1,"batch",32] last) {
            shape = Shape(x) n = Slice(shape, one, two) s = Concat <axis = 0> (one, n, width)
            h = ConstantOfShape(s) y, last = GRU <hidden_size = 32> (x, w, r, , , h)
        }""",
        one=integers(1), two=integers(2), width=integers(32), w=(1, 96, 24), r=(1, 96, 32),
    )  # fmt: skip


def bidirectional():
    return network(
        """net (float[20,3,24] x) => (float[20,2,3,32] y) {
            y = LSTM <hidden_size = 32, direction = "bidirectional"> (x, w, r)
        }""",
        w=(2, 128, 24), r=(2, 128, 32),
    )  # fmt: skip


def video():
    return network(
        """net (float["batch",3,8,16,16] clip) => (float["batch",8] y) {
            a = Conv <pads = [1,1,1,1,1,1]> (clip, w) b = GlobalAveragePool(a) y = Flatten(b)
        }""",
        w=(8, 3, 3, 3, 3),
    )  # fmt: skip


def upsampling():
    return network(
        """net (float["batch",8,16,16] x) => (float["batch",4,32,32] y) {
            y = ConvTranspose <strides = [2,2], kernel_shape = [2,2]> (x, w)
        }""",
        w=(8, 4, 2, 2),
    )  # fmt: skip


def dilated_groups():
    return network(
        """net (float["batch",16,200] x) => (float["batch",16,184] y) {
            y = Conv <dilations = [4], group = 4, kernel_shape = [5]> (x, w)
        }""",
        w=(16, 4, 5),
    )  # fmt: skip


def einsum():
    return network(
        """net (float["batch",12,4,16] q, float["batch",12,4,16] k) => (float["batch",4,12,12] y) {
            y = Einsum <equation = "bihd,bjhd->bhij"> (q, k)
        }"""
    )


def stacked_products():
    """A product for each head: the weight has an axis of its own before the matrix."""
    return network("""net (float["batch",4,12,16] x) => (float["batch",4,12,8] y) { y = MatMul(x, w) }""", w=(4, 16, 8))


def attention_operator():
    return network(
        """net (float["batch",12,64] q, float["batch",12,64] k, float["batch",12,64] v) => (float["batch",12,64] y) {
            y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, k, v)
        }""",
        opset=23, ir=11,
    )  # fmt: skip


def spectrum():
    return network(
        """net (float["batch",256,1] wave) => (float["batch",129,2] y) { y = DFT <onesided = 1> (wave, , one) }""",
        opset=20, ir=9, one=np.array(1, np.int64),
    )  # fmt: skip


def forest():
    """A tree of scikit-learn, as skl2onnx writes it: the outputs are no activations of a network."""
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2], nodes_featureids=[3, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0],
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "forest",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 1])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def foreign_operator():
    """An operator that nobody has: it must be refused, and named."""
    model = network("""net (float["batch",16] x) => (float["batch",8] y) { a = MatMul(x, w) y = Relu(a) }""", w=(16, 8))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Mystery", "acme"
    model.opset_import.append(helper.make_opsetid("acme", 1))
    return model


def empty_input():
    return network("""net (float[0,16] x) => (float[0,8] y) { y = MatMul(x, w) }""", w=(16, 8))


def decoder_with_cache():
    """One step of a language model: ids, and the keys and values of what came before."""
    return network(
        """net (int64["batch","sequence"] ids, float["batch",4,"past",8] keys, float["batch",4,"past",8] values)
            => (float["batch","sequence",50] y, float["batch",4,"all",8] newkeys, float["batch",4,"all",8] newvalues) {
            x = Gather(table, ids) p = MatMul(x, mix) q, k, v = Split <axis = 2> (p, thirds)
            qr = Reshape(q, heads) kr = Reshape(k, heads) vr = Reshape(v, heads)
            qt = Transpose <perm = [0,2,1,3]> (qr) kt = Transpose <perm = [0,2,1,3]> (kr)
            vt = Transpose <perm = [0,2,1,3]> (vr)
            newkeys = Concat <axis = 2> (keys, kt) newvalues = Concat <axis = 2> (values, vt)
            kk = Transpose <perm = [0,1,3,2]> (newkeys) s = MatMul(qt, kk) a = Softmax <axis = -1> (s)
            o = MatMul(a, newvalues) ot = Transpose <perm = [0,2,1,3]> (o) oj = Reshape(ot, joined) y = MatMul(oj, out)
        }""",
        table=(50, 32), mix=(32, 96), out=(32, 50),
        thirds=integers(32, 32, 32), heads=integers(0, 0, 4, 8), joined=integers(0, 0, 32),
    )  # fmt: skip


def default_input_of_batch():
    """An input with a default of one row: feeding it for a larger batch is another network, leaving it out is not."""
    model = network(
        """net (float["batch",16] x, float["batch",16] shift) => (float["batch",8] y) {
            a = Add(x, shift) y = MatMul(a, w)
        }""",
        w=(16, 8),
    )  # fmt: skip
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 16), np.float32), "shift"))
    return model


ROW = ForeignNetwork
IMAGE = {"image": (1, 3, 16, 16)}
CNN_MACS = 64 * 8 * 27 + 80
DECODER_MACS = 32 * 96 + 2 * 32 * 17 + 32 * 50
NETWORKS = (
    ROW("square_of_one_symbol", "N by N, said", square_of_one_symbol, {"nodes": (34, 16), "adjacency": (34, 34)}, {},
        34 * 16 * 8 + 34 * 34 * 8, {"N": 34}),
    ROW("square_of_one_symbol_unsaid", "N by N; nobody says how many", square_of_one_symbol,
        {"nodes": (34, 16), "adjacency": (34, 34)}, {}, verdict="refused"),
    ROW("points_before_batch", "axis 0 is called n, axis 1 batch", points_before_batch, {"points": (64, 1, 3)},
        {"points": 1}, 64 * 96, {"n": 64}),
    ROW("points_behind_batch", "axis 0 is called batch, axis 1 n", points_behind_batch, {"points": (1, 64, 3)},
        {"points": 0}, 64 * 96, {"n": 64}),
    ROW("clips_of_8_frames", "axis 0 must be a multiple of 8, and is said", clips_of_8_frames,
        {"video": (16, 3, 16, 16)}, {}, 16 * 64 * 8 * 12 + 2 * 80, {"frames": 16}),
    ROW("clips_of_8_frames_unsaid", "axis 0 must be a multiple of 8; 1 is none", clips_of_8_frames,
        {"video": (8, 3, 16, 16)}, {}, verdict="refused"),
    ROW("two_unknown_symbols", "two symbols for one batch", two_unknown_symbols, {"x": (1, 16), "z": (1, 16)},
        {"x": 0, "z": 0}, 128, verdict="either", names=("x", "z", "unk__1", "unk__2")),
    ROW("one_unknown_symbol", "the batch is called unk__6", one_unknown_symbol, IMAGE, {"image": 0}, CNN_MACS),
    ROW("batch_minus_one", "the batch is -1", batch_minus_one, IMAGE, {"image": 0}, CNN_MACS),
    ROW("twice_the_batch", "an axis of twice the batch", twice_the_batch, {"latent": (2, 4, 8, 8), "text": (1, 16)},
        {}, 2 * 64 * 4 * 36 + 4096, verdict="either", names=("latent", "text", "batch")),
    ROW("transposed_input", "samples are columns", transposed_input, {"x": (16, 8)}, {"x": 1}, 1280),
    ROW("transposed_output", "the output's batch is axis 1", transposed_output, {"x": (1, 16)}, {"x": 0}, 160),
    ROW("squeezed_output", "the batch axis is gone from the output", squeezed_output, IMAGE, {}, 196 * 8 * 27 + 80),
    ROW("flattened_outputs", "64 rows of output for each sample", flattened_outputs, {"image": (1, 3, 32, 32)},
        {"image": 0}, 64 * 4 * 48),
    ROW("loop_over_samples", "as many trips as samples", loop_over_samples, {"x": (1, 64)}, {"x": 0}, 2048),
    ROW("state_of_the_batch", "the initial state follows the input's axis 1", state_of_the_batch, {"x": (20, 1, 24)},
        {"x": 1}, 20 * 96 * 56),
    ROW("bidirectional", "an LSTM in both directions, time first", bidirectional, {"x": (20, 3, 24)}, {"x": 1},
        2 * 20 * 3 * 128 * 56),
    ROW("video", "a convolution in three dimensions", video, {"clip": (1, 3, 8, 16, 16)}, {"clip": 0},
        2048 * 8 * 81),
    ROW("upsampling", "ConvTranspose", upsampling, {"x": (1, 8, 16, 16)}, {"x": 0}, 256 * 8 * 16),
    ROW("dilated_groups", "a dilated convolution of groups over time", dilated_groups, {"x": (1, 16, 200)}, {"x": 0},
        184 * 16 * 20),
    ROW("einsum", "Einsum", einsum, {"q": (1, 12, 4, 16), "k": (1, 12, 4, 16)}, {"q": 0, "k": 0}, 4 * 144 * 16),
    ROW("stacked_products", "a product for each head", stacked_products, {"x": (1, 4, 12, 16)}, {"x": 0},
        4 * 12 * 16 * 8),
    ROW("attention_operator", "the Attention of opset 23", attention_operator,
        {"q": (1, 12, 64), "k": (1, 12, 64), "v": (1, 12, 64)}, {"q": 0, "k": 0, "v": 0}, 2 * 144 * 64),
    ROW("spectrum", "DFT", spectrum, {"wave": (1, 256, 1)}, {"wave": 0}),
    ROW("forest", "trees of ai.onnx.ml", forest, {"x": (1, 8)}, {"x": 0}),
    ROW("foreign_operator", "an operator that nobody has", foreign_operator, {}, verdict="refused",
        costed="measured", names=("Mystery", "acme")),
    ROW("empty_input", "an input of no elements", empty_input, {"x": (0, 16)}, {}, verdict="refused"),
    ROW("decoder_with_cache", "a cache of keys and values", decoder_with_cache,
        {"ids": (1, 1), "keys": (1, 4, 16, 8), "values": (1, 4, 16, 8)}, {"ids": 0, "keys": 0, "values": 0},
        DECODER_MACS, {"sequence": 1, "past": 16}),
    ROW("default_input_of_batch", "an input of the batch has a default of one row", default_input_of_batch,
        {"x": (1, 16)}, {"x": 0}, 128),
)  # fmt: skip

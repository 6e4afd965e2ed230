"""Networks of other element types than float32, and inputs that are no tensors of numbers."""

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from foreign.network import ForeignNetwork, integers, network

RANDOM = np.random.default_rng(7)


def small(shape, dtype=np.float32):
    return (np.random.default_rng(3).standard_normal(shape) * 0.1).astype(dtype)


def whole(shape, dtype, low=-100, high=100):
    return np.random.default_rng(4).integers(low, high, shape).astype(dtype)


def half_precision():
    return network(
        """net (float16["batch",3,16,16] image) => (float16["batch",10] y) {
            a = Conv <pads = [1,1,1,1]> (image, w) b = Relu(a) c = GlobalAveragePool(b) d = Flatten(c)
            y = MatMul(d, f)
        }""",
        w=small((32, 3, 3, 3), np.float16), f=small((32, 10), np.float16),
    )  # fmt: skip


def half_inside():
    """Inputs and outputs in fp32, products in fp16."""
    return network(
        """net (float["batch",64] x) => (float["batch",10] y) {
            a = Cast <to = 10> (x) b = MatMul(a, w) c = Relu(b) d = Cast <to = 1> (c) y = MatMul(d, f)
        }""",
        w=small((64, 128), np.float16), f=small((128, 10)),
    )  # fmt: skip


def bfloat():
    return network(
        """net (float["batch",64] x) => (float["batch",32] y) {
            a = Cast <to = 16> (x) b = Cast <to = 1> (a) v = Cast <to = 1> (w) y = MatMul(b, v)
        }""",
        w=small((64, 32), ml_dtypes.bfloat16),
    )  # fmt: skip


def double():
    return network(
        """net (double["batch",64] x) => (double["batch",32] y) { y = MatMul(x, w) }""", w=small((64, 32), np.float64)
    )


def quantised_with_qdq():
    return network(
        """net (float["batch",3,16,16] image) => (float["batch",10] y) {
            xq = QuantizeLinear(image, s, z) x = DequantizeLinear(xq, s, z)
            w = DequantizeLinear(wq, sw, zw)
            a = Conv <pads = [1,1,1,1]> (x, w) b = Relu(a)
            bq = QuantizeLinear(b, s, z) c = DequantizeLinear(bq, s, z)
            d = GlobalAveragePool(c) e = Flatten(d)
            eq = QuantizeLinear(e, s, z) g = DequantizeLinear(eq, s, z)
            f = DequantizeLinear(fq, sw, zw)
            y = MatMul(g, f)
        }""",
        s=np.array(0.02, np.float32), z=np.array(0, np.uint8), sw=np.array(0.01, np.float32), zw=np.array(0, np.int8),
        wq=whole((16, 3, 3, 3), np.int8), fq=whole((16, 10), np.int8),
    )  # fmt: skip


def quantised_operators():
    return network(
        """net (uint8[1,8,16,16] image) => (uint8[1,16,16,16] y) {
            y = QLinearConv <pads = [1,1,1,1]> (image, s, z, w, sw, zw, s, z)
        }""",
        s=np.array(0.02, np.float32), z=np.array(0, np.uint8), sw=np.array(0.01, np.float32), zw=np.array(0, np.int8),
        w=whole((16, 8, 3, 3), np.int8),
    )  # fmt: skip


def quantised_on_the_fly():
    return network(
        """net (float["batch",64] x) => (float["batch",32] y) {
            q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z) f = Cast <to = 1> (i)
            t = Mul(s, sw) y = Mul(f, t)
        }""",
        w=whole((64, 32), np.int8), sw=np.array(0.01, np.float32),
    )  # fmt: skip


def four_bit_weights():
    model = network(
        """net (float["batch",64] x) => (float["batch",32] y) {
            w = DequantizeLinear <axis = 0, block_size = 32> (wq, scales) y = MatMul(x, w)
        }""",
        opset=21, ir=10, scales=np.full((2, 32), 0.05, np.float32),
    )  # fmt: skip
    model.graph.initializer.append(
        helper.make_tensor("wq", TensorProto.INT4, (64, 32), whole((64 * 32,), np.int8, -8, 8).tolist())
    )
    return model


def packed_by_the_runtime():
    """Four-bit weights as ONNX Runtime's own quantiser writes them."""
    return network(
        """net (float["batch",64] x) => (float["batch",32] y) {
            y = com.microsoft.MatMulNBits <K = 64, N = 32, bits = 4, block_size = 32> (x, w, scales)
        }""",
        w=whole((32, 2, 16), np.uint8, 0, 255), scales=np.full((64,), 0.05, np.float32),
    )  # fmt: skip


def bytes_of_a_camera():
    return network(
        """net (uint8[1,24,32,3] frame) => (float[1,8] y) {
            a = Cast <to = 1> (frame) b = Div(a, top) c = Transpose <perm = [0,3,1,2]> (b)
            d = Conv(c, w) e = GlobalAveragePool(d) y = Flatten(e)
        }""",
        top=np.array(255, np.float32), w=(8, 3, 3, 3),
    )  # fmt: skip


EMBEDDING = """net (%s["batch",12] ids) => (float["batch",16] y) {
    a = Gather(table, ids) b = ReduceMean <axes = [1], keepdims = 0> (a) y = MatMul(b, w)
}"""


def embedding():
    return network(EMBEDDING % "int64", table=(300, 32), w=(32, 16))


def embedding_int32():
    return network(EMBEDDING % "int32", table=(300, 32), w=(32, 16))


def rows_within(name, rows):
    def accept(feeds):
        ids = feeds[name]
        if ids.min() < 0 or ids.max() >= rows:
            return f"{name} reaches {ids.min()} to {ids.max()} in a table of {rows}"
        return "" if ids.size < 12 or ids.max() > 1 else f"{name} is 0 or 1 in a table of {rows} rows"

    return accept


def two_tables():
    """One input looks up two tables, one of them of two rows."""
    return network(
        """net (int64["batch",12] ids, int64["batch",12] types, bool["batch",12] mask) => (float["batch",16] y) {
            a = Gather(table, ids) b = Gather(kinds, types) c = Add(a, b)
            m = Cast <to = 1> (mask) n = Unsqueeze(m, last) d = Mul(c, n)
            e = ReduceMean <axes = [1], keepdims = 0> (d) y = MatMul(e, w)
        }""",
        table=(300, 32), kinds=(2, 32), w=(32, 16), last=integers(-1),
    )  # fmt: skip


def sparse_weights():
    model = network("""net (float["batch",64] x) => (float["batch",32] y) { y = MatMul(x, w) }""")
    values = helper.make_tensor("w", TensorProto.FLOAT, (40,), small(40).tolist())
    places = helper.make_tensor("places", TensorProto.INT64, (40,), list(range(0, 2000, 50)))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, (64, 32)))
    return model


def text():
    return network(
        """net (string[1] words, float[1,4] x) => (string[1] lower, float[1,4] y) {
            lower = StringNormalizer <case_change_action = "LOWER"> (words) y = Relu(x)
        }""",
        opset=13,
    )  # fmt: skip


def sequence_input():
    return network(
        """net (seq(float[?,32]) parts) => (float[n,16] y) {
            a = ConcatFromSequence <axis = 0> (parts) y = MatMul(a, w)
        }""",
        w=(32, 16),
    )  # fmt: skip


def optional_input():
    return network(
        """net (optional(float[1,32]) hint) => (float[1,16] y) { a = OptionalGetElement(hint) y = MatMul(a, w) }""",
        opset=18, w=(32, 16),
    )  # fmt: skip


def all_types_of_indices():
    return network(
        """net (float[1,16,32] x, int32[1,4] places) => (float[1,4,32] y) {
            i = Cast <to = 7> (places) j = Unsqueeze(i, last) k = Expand(j, shape) y = GatherElements <axis = 1> (x, k)
        }""",
        last=integers(-1), shape=integers(1, 4, 32),
    )  # fmt: skip


def random_inside():
    """A sampler: equal inputs do not give equal outputs."""
    return network(
        """net (float["batch",32] x) => (float["batch",16] y) {
            n = RandomNormalLike(x) a = Add(x, n) y = MatMul(a, w)
        }""",
        w=(32, 16),
    )  # fmt: skip


ROW = ForeignNetwork
IMAGE = {"image": (1, 3, 16, 16)}
X = {"x": (1, 64)}
NETWORKS = (
    ROW("half_precision", "fp16", half_precision, IMAGE, {"image": 0}, 256 * 32 * 27 + 320,
        weight_bytes=2 * (864 + 320)),
    ROW("half_inside", "fp32 with products in fp16", half_inside, X, {"x": 0}, 64 * 128 + 1280,
        weight_bytes=2 * 64 * 128 + 4 * 1280),
    ROW("bfloat", "weights and activations in bf16, products in fp32", bfloat, X, {"x": 0}, 2048),
    ROW("double", "fp64", double, X, {"x": 0}, 2048, weight_bytes=8 * 2048),
    ROW("quantised_with_qdq", "int8 by QuantizeLinear and DequantizeLinear", quantised_with_qdq, IMAGE, {"image": 0},
        256 * 16 * 27 + 160, weight_bytes=432 + 160),
    ROW("quantised_operators", "QLinearConv of bytes", quantised_operators, {"image": (1, 8, 16, 16)}, {"image": 0},
        256 * 16 * 72, weight_bytes=1152),
    ROW("quantised_on_the_fly", "DynamicQuantizeLinear and MatMulInteger", quantised_on_the_fly, X, {"x": 0}, 2048,
        weight_bytes=2048),
    ROW("four_bit_weights", "int4 weights in blocks, opset 21", four_bit_weights, X, {"x": 0}, 2048,
        weight_bytes=1024 + 256),
    ROW("packed_by_the_runtime", "MatMulNBits of com.microsoft", packed_by_the_runtime, X, {"x": 0}, 2048,
        weight_bytes=1024 + 256),
    ROW("bytes_of_a_camera", "uint8, channels last", bytes_of_a_camera, {"frame": (1, 24, 32, 3)}, {"frame": 0},
        22 * 30 * 8 * 27),
    ROW("embedding", "int64 indices of a table of 300 rows", embedding, {"ids": (1, 12)}, {"ids": 0}, 512,
        accept=rows_within("ids", 300)),
    ROW("embedding_int32", "int32 indices", embedding_int32, {"ids": (1, 12)}, {"ids": 0}, 512,
        accept=rows_within("ids", 300)),
    ROW("two_tables", "indices of a large and of a small table, and a mask of bool", two_tables,
        {"ids": (1, 12), "types": (1, 12), "mask": (1, 12)}, {"ids": 0, "types": 0, "mask": 0}, 512,
        accept=rows_within("ids", 300)),
    ROW("sparse_weights", "a sparse initializer", sparse_weights, X, {"x": 0}, 2048),
    ROW("text", "an input of strings", text, {}, verdict="refused", costed="either",
        names=("words",)),
    ROW("sequence_input", "an input that is a sequence of tensors", sequence_input, {}, verdict="refused",
        costed="either", names=("parts",)),
    ROW("optional_input", "an input that may be left out", optional_input, {}, verdict="refused", costed="either",
        names=("hint",)),
    ROW("all_types_of_indices", "indices in int32, widened inside", all_types_of_indices,
        {"x": (1, 16, 32), "places": (1, 4)}, {"x": 0, "places": 0}, 0),
    ROW("random_inside", "RandomNormalLike", random_inside, {"x": (1, 32)}, {"x": 0}, 512, repeatable=False),
)  # fmt: skip

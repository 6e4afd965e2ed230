"""Networks with an input that says how large something is: made-up values would measure a network that nobody has."""

import numpy as np

from foreign.elements import rows_within
from foreign.network import ForeignNetwork, integers, network


def positive(name):
    def accept(feeds):
        values = feeds[name]
        return "" if values.min() >= 1 else f"{name} is {values.tolist()}: nothing, or an empty tensor, is computed"

    return accept


def full_lengths(feeds):
    lengths = feeds["lengths"]
    return "" if (lengths == 50).all() else f"sequences of {lengths.tolist()} of 50 steps are run"


def lstm_with_lengths():
    """The lengths of the sequences of a batch: made-up ones of 0 and 1 end the recurrence after a step."""
    return network(
        """net (float[50,4,40] x, int32[4] lengths) => (float[50,1,4,64] y) {
            y = LSTM <hidden_size = 64> (x, w, r, , lengths)
        }""",
        w=(1, 256, 40), r=(1, 256, 64),
    )  # fmt: skip


def best_of_k():
    return network("""net (float["batch",100] x, int64[1] k) => (float["batch",n] y) { y, i = TopK(x, k) }""")


def boxes_at_most():
    return network(
        """net (float[1,100,4] boxes, float[1,5,100] scores, int64[1] most) => (int64[n,3] chosen) {
            chosen = NonMaxSuppression(boxes, scores, most, overlap)
        }""",
        overlap=np.array([0.5], np.float32),
    )  # fmt: skip


def cropped():
    """A crop whose end is an input."""
    return network(
        """net (float[1,3,64,64] image, int64[2] size) => (float[1,8,h,w] y) {
            a = Slice(image, from, size, axes) y = Conv <pads = [1,1,1,1]> (a, w)
        }""",
        **{"from": integers(0, 0)}, axes=integers(2, 3), w=(8, 3, 3, 3),
    )  # fmt: skip


def scaled():
    """The factor of an upsampling as an input: made-up ones between 0 and 1 shrink the image to nothing."""
    return network(
        """net (float[1,3,16,16] image, float[4] scales) => (float[n,8,h,w] y) {
            a = Resize <mode = "nearest"> (image, , scales) y = Conv <pads = [1,1,1,1]> (a, w)
        }""",
        w=(8, 3, 3, 3),
    )  # fmt: skip


def resized():
    return network(
        """net (float[1,3,16,16] image, int64[4] sizes) => (float[n,3,h,w] y) {
            y = Resize <mode = "linear"> (image, , , sizes)
        }"""
    )


def repeated():
    return network(
        """net (float[1,16] x, int64[2] times) => (float[n,m] y) { a = MatMul(x, w) y = Tile(a, times) }""", w=(16, 8)
    )


def reshaped():
    return network("""net (float[1,24] x, int64[2] shape) => (float[a,b] y) { y = Reshape(x, shape) }""")


def noise_of_shape():
    return network(
        """net (int64[3] shape) => (float[a,b,c] y) {
            a = ConstantOfShape <value = float[1] {0.5}> (shape) y = Tanh(a)
        }"""
    )


def quantised_table():
    """The table is stored in int8: the rows stand behind a DequantizeLinear."""
    return network(
        """net (int64["batch",12] ids) => (float["batch",16] y) {
            t = DequantizeLinear(table, s, z) a = Gather(t, ids)
            b = ReduceMean <axes = [1], keepdims = 0> (a) y = MatMul(b, w)
        }""",
        table=np.random.default_rng(4).integers(-100, 100, (300, 32)).astype(np.int8), s=np.array(0.01, np.float32),
        z=np.array(0, np.int8), w=(32, 16),
    )  # fmt: skip


def table_in_function():
    return network(
        """net (int64["batch",12] ids) => (float["batch",12,16] y) { y = acme.Lookup(table, ids) }
        <domain: "acme", opset_import: ["" : 17]>
        Lookup (t, i) => (r) { j = Identity(i) r = Gather(t, j) }""",
        table=(300, 16),
    )  # fmt: skip


def table_in_branch():
    """The lookup stands in a branch, whose table is outside."""
    return network(
        """net (int64["batch",12] ids) => (float["batch",12,16] y) {
            y = If (known) <
                then_branch = yes () => (float["batch",12,16] a) { a = Gather(table, ids) },
                else_branch = no () => (float["batch",12,16] b) { c = Gather(table, ids) b = Relu(c) }
            >
        }""",
        table=(300, 16), known=np.array(True),
    )  # fmt: skip


def shifted_ids():
    """Two kept back for padding: ids are shifted before the lookup."""
    return network(
        """net (int64["batch",12] ids) => (float["batch",12,16] y) { i = Add(ids, two) y = Gather(table, i) }""",
        table=(300, 16), two=integers(2),
    )  # fmt: skip


def pairs_of_indices():
    return network(
        """net (int64["batch",12,2] places) => (float["batch",12,8] y) {
            a = GatherND(grid, places) y = MatMul(a, w)
        }""",
        grid=(20, 30, 16), w=(16, 8),
    )  # fmt: skip


def places_within(feeds):
    places = feeds["places"]
    over = places.min() < 0 or places[..., 0].max() >= 20 or places[..., 1].max() >= 30
    return "a place outside of the grid" if over else ""


ROW = ForeignNetwork
NETWORKS = (
    ROW("lstm_with_lengths", "lengths of sequences are an input", lstm_with_lengths,
        {"x": (50, 4, 40), "lengths": (4,)},
        {"x": 1, "lengths": 0}, 50 * 4 * 256 * 104, accept=full_lengths, verdict="either",
        given={"lengths": [50] * 4}),
    ROW("best_of_k", "k of TopK is an input", best_of_k, {"x": (1, 100), "k": (1,)}, {"x": 0, "k": None},
        verdict="either", accept=positive("k"), given={"k": 5}),
    ROW("boxes_at_most", "how many boxes is an input", boxes_at_most,
        {"boxes": (1, 100, 4), "scores": (1, 5, 100), "most": (1,)}, {}, verdict="either", accept=positive("most"),
        given={"most": 10}),
    ROW("cropped", "the size of a crop is an input", cropped, {"image": (1, 3, 64, 64), "size": (2,)},
        {"image": 0, "size": None}, verdict="either", accept=positive("size"), given={"size": [48, 32]}),
    ROW("scaled", "the factor of a Resize is an input", scaled, {"image": (1, 3, 16, 16), "scales": (4,)},
        {"image": 0, "scales": None}, verdict="either", accept=positive("scales"),
        given={"scales": [1, 1, 2, 2]}),
    ROW("resized", "the target of a Resize is an input", resized, {"image": (1, 3, 16, 16), "sizes": (4,)}, {},
        verdict="either", accept=positive("sizes"), given={"sizes": [1, 3, 32, 32]}),
    ROW("repeated", "how often is an input", repeated, {"x": (1, 16), "times": (2,)}, {"x": 0, "times": None},
        verdict="either", accept=positive("times"), given={"times": [1, 4]}),
    ROW("reshaped", "the shape is an input", reshaped, {}, {}, verdict="refused", costed="either",
        names=("shape",)),
    ROW("noise_of_shape", "the only input is a shape", noise_of_shape, {"shape": (3,)}, {}, verdict="either",
        accept=positive("shape"), given={"shape": [1, 64, 64]}),
    ROW("quantised_table", "an embedding stored in int8", quantised_table, {"ids": (1, 12)}, {"ids": 0}, 512,
        accept=rows_within("ids", 300)),
    ROW("table_in_function", "an embedding in a local function", table_in_function, {"ids": (1, 12)}, {"ids": 0}, 0,
        accept=rows_within("ids", 300)),
    ROW("table_in_branch", "an embedding in a branch", table_in_branch, {"ids": (1, 12)}, {"ids": 0}, 0,
        accept=rows_within("ids", 300)),
    ROW("shifted_ids", "ids are shifted before the lookup", shifted_ids, {"ids": (1, 12)}, {"ids": 0}, 0),
    ROW("pairs_of_indices", "indices by twos, of two axes", pairs_of_indices, {"places": (1, 12, 2)}, {"places": 0},
        12 * 16 * 8, accept=places_within),
)  # fmt: skip

"""Times of layers from real runs of ONNX Runtime and PyTorch, and from traces written out by hand."""

import numpy as np
import onnx
import pytest
from onnx_graphs import model, node

from edgetune.stages.roofline.layers import join
from edgetune.workloads.costs import operator_table
from edgetune.workloads.graph_rows import rows_of_graph
from edgetune.workloads.layer_times import kernel_times, measure, read_trace
from edgetune.workloads.resolve import resolve
from edgetune.workloads.torch_layers import Event, node_times
from edgetune.workloads.workload import LayerSampling, RunOptions

CONV = np.full((2, 2, 1, 1), 0.5, np.float32)


def chain():
    """conv -> relu -> max pool, shapes fixed."""
    return onnx.shape_inference.infer_shapes(
        model(
            [
                node("Conv", "x w", "c", name="conv"),
                node("Relu", "c", "r", name="relu"),
                node("MaxPool", "r", "y", name="pool", kernel_shape=[2, 2], strides=[2, 2]),
            ],
            {"x": (1, 2, 4, 4)},
            values={"w": CONV},
            outputs=["y"],
        )
    )


def residual():
    """Two convolutions, a sum with the input of the second, and a convolution after it."""
    return onnx.shape_inference.infer_shapes(
        model(
            [
                node("Conv", "x w", "a", name="conv1"),
                node("Conv", "a w", "b", name="conv2"),
                node("Add", "b a", "s", name="add"),
                node("Relu", "s", "r", name="relu"),
                node("Conv", "r w", "y", name="conv3"),
            ],
            {"x": (1, 2, 4, 4)},
            values={"w": CONV},
            outputs=["y"],
        )
    )


def kernel(name, op, start_us, duration_us, **sizes):
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": start_us, "dur": duration_us,
            "args": {"op_name": op, **sizes}}  # fmt: skip


def minibatch(start_us, duration_us):
    return {"cat": "Session", "name": "model_run", "ts": start_us, "dur": duration_us}


def joined(nodes, graph):
    """Run one minibatch of one microsecond per kernel and return what each kernel stands for."""
    events = [kernel(n.name, n.op_type, index, 1) for index, n in enumerate(nodes)]
    runs = read_trace([minibatch(0, len(nodes)), *events])
    times, _ = kernel_times(runs, rows_of_graph(graph), nodes)
    return [(time.how, time.rows) for time in times]


def test_times_are_medians_and_the_minibatch_is_their_sum_and_what_lies_between():
    trace = [
        event
        for start, conv_us in ((0, 10), (100, 12), (200, 90))
        for event in (
            minibatch(start, conv_us + 8),
            kernel("conv", "Conv", start + 1, conv_us),
            kernel("relu", "Relu", start + 2 + conv_us, 3),
        )
    ]
    times, minibatch_s = kernel_times(read_trace(trace), rows_of_graph(chain()), [])
    assert [time.seconds for time in times] == pytest.approx([12e-6, 3e-6])
    assert minibatch_s == pytest.approx((12 + 3 + 5) * 1e-6)


def test_kernels_inside_a_kernel_are_part_of_it():
    trace = [minibatch(0, 30), kernel("loop", "Loop", 1, 20), kernel("body", "Add", 5, 4), kernel("end", "Add", 22, 3)]
    (run,) = read_trace(trace)
    assert [found.name for found in run.kernels] == ["loop", "end"]


def test_a_fused_kernel_stands_for_everything_up_to_the_tensor_it_makes():
    fused = [node("FusedConv", "x w", "r", name="fused conv"), node("MaxPool", "r", "y", name="pool")]
    assert joined(fused, chain()) == [("fused", ("conv", "relu")), ("node", ("pool",))]


def test_added_changes_of_layout_are_inserted():
    blocked = [
        node("ReorderInput", "x", "t0", name="ReorderInput"),
        node("Conv", "t0 t9", "t1", name="r_nchwc"),
        node("MaxPool", "t1", "t2", name="y_nchwc"),
        node("ReorderOutput", "t2", "y", name="ReorderOutput"),
    ]
    assert joined(blocked, chain()) == [
        ("inserted", ()),
        ("fused", ("conv", "relu")),
        ("node", ("pool",)),
        ("inserted", ()),
    ]


def test_a_blocked_convolution_takes_the_sum_and_activation_after_it():
    blocked = [
        node("Conv", "x w", "t1", name="a_nchwc"),
        node("Conv", "t1 w _ t1", "t2", name="b_nchwc"),
        node("Conv", "t2 w", "t3", name="y_nchwc"),
        node("ReorderOutput", "t3", "y", name="ReorderOutput"),
    ]
    found = joined(blocked, residual())
    assert found == [("node", ("conv1",)), ("fused", ("conv2", "add", "relu")), ("node", ("conv3",)), ("inserted", ())]


def test_a_kernel_of_no_known_tensor_is_part_of_the_next():
    expanded = [
        node("Conv", "x w", "c", name="conv"),
        node("Something", "c", "inner", name=""),
        node("Other", "inner c", "r", name=""),
        node("MaxPool", "r", "y", name="pool"),
    ]
    found = joined(expanded, chain())
    assert found == [("node", ("conv",)), ("node", ("relu",)), ("node", ("relu",)), ("node", ("pool",))]


def test_kernels_that_the_graph_lacks_are_joined_by_name():
    trace = [
        minibatch(0, 20),
        kernel("r_nchwc", "Conv", 0, 1),
        kernel("pool", "MaxPool", 2, 1),
        kernel("ReorderOutput", "ReorderOutput", 4, 1),
        kernel("engine_0", "Engine", 6, 1),
    ]
    times, _ = kernel_times(read_trace(trace), rows_of_graph(chain()), [])
    found = [(time.how, time.rows) for time in times]
    assert found == [("node", ("relu",)), ("node", ("pool",)), ("inserted", ()), ("unmatched", ())]


def layers_of(reference, task, **how):
    workload = resolve(reference)
    times = measure(workload, task, 1, RunOptions(threads=1), how=LayerSampling(3, 1, **how))
    return join(operator_table(workload, task, 1), times)


@pytest.mark.parametrize("optimisation", ["disabled", "all"])
def test_every_kernel_of_squeezenet_is_explained(optimisation):
    layers = layers_of("zoo:squeezenet", "infer", optimisation=optimisation)
    assert {time.how for time in layers.unexplained} <= {"inserted"}
    assert layers.explained_share + layers.unexplained_share == pytest.approx(1)
    assert layers.unexplained_share - layers.inserted_share - layers.between_share < 1e-6
    assert layers.untimed == ()
    convolutions = [layer for layer in layers.layers if "Conv" in layer.row.op]
    assert len(convolutions) == 26  # each has a layer of its own
    if optimisation == "disabled":
        assert {layer.how for layer in layers.layers} == {"node"}
    if optimisation == "all":
        assert {layer.row.op for layer in convolutions} == {"Conv+Relu"}


def test_training_is_joined_forward_backward_and_optimiser():
    layers = layers_of("zoo:squeezenet", "train")
    assert layers.untimed == ()
    assert 0 < layers.explained_share <= 1
    assert {layer.row.phase for layer in layers.layers} == {"forward", "backward", "optimiser"}
    gradients = next(layer for layer in layers.layers if "features.3.squeeze/weight_gradient" in layer.rows)
    assert gradients.rows == ("features.3.squeeze/input_gradient", "features.3.squeeze/weight_gradient")
    assert gradients.seconds > 0
    assert any("Loss" in time.name for time in layers.unexplained)


def test_an_onnx_file_of_nodes_without_names(tmp_path):
    graph = model(
        [node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("MatMul", "b w", "y")],
        {"x": ("batch", 8)},
        values={"w": np.eye(8, dtype=np.float32)},
        outputs=["y"],
    )
    path = tmp_path / "plain.onnx"
    onnx.save(graph, path)
    inferred = layers_of(str(path), "infer")
    assert [layer.rows for layer in inferred.layers] == [("MatMul_0",), ("Relu_1",), ("MatMul_2",)]
    trained = layers_of(str(path), "train")
    assert trained.untimed == ()


def test_a_gradient_belongs_to_the_last_operation_with_its_number():
    events = [
        Event("edgetune.minibatch", 0, 100, 1, -1, 100),
        Event("edgetune.node:c", 1, 20, 1, -1, 19),
        Event("aten::detach", 2, 3, 1, 7, 1),
        Event("aten::conv2d", 4, 14, 1, 7, 10),
        Event("aten::convolution", 5, 13, 1, 7, 8),
        Event("edgetune.node:r", 21, 30, 1, -1, 9),
        Event("aten::detach", 22, 23, 1, 8, 1),
        Event("edgetune.node:y", 31, 40, 1, -1, 9),
        Event("aten::max_pool2d", 32, 36, 1, 8, 4),
        Event("aten::mean", 41, 43, 1, 9, 2),
        Event("autograd::engine::evaluate_function: MeanBackward0", 50, 51, 2, 9, 1),
        Event("autograd::engine::evaluate_function: MaxPoolBackward0", 52, 57, 2, 8, 5),
        Event("MaxPoolBackward0", 53, 56, 2, 8, 3),
        Event("autograd::engine::evaluate_function: ConvolutionBackward0", 58, 78, 2, 7, 20),
        Event("Optimizer.step#SGD.step", 80, 90, 1, -1, 10),
    ]
    times, minibatch_s = node_times(events, rows_of_graph(chain()))
    assert [(time.phase, time.rows, round(1e6 * time.seconds)) for time in times] == [
        ("forward", ("conv",), 11),
        ("forward", ("relu",), 1),
        ("forward", ("pool",), 4),
        ("backward", (), 1),
        ("backward", ("pool",), 5),
        ("backward", ("conv",), 20),
        ("optimiser", ("w",), 10),
    ]
    assert minibatch_s == pytest.approx(100e-6)

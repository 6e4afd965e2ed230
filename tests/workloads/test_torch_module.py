"""ONNX graphs in PyTorch: the same answers as ONNX Runtime, and weights that train."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import InputError
from edgetune.workloads import zoo
from edgetune.workloads.torch_module import OnnxModule, trainer, with_trained


def graph_of(nodes, inputs, outputs, weights=(), *, functions=()):
    """A model from nodes; inputs and outputs are name to (type, shape)."""
    infos = [[helper.make_tensor_value_info(n, t, s) for n, (t, s) in group.items()] for group in (inputs, outputs)]
    initial = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", *infos, initializer=initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, functions=functions)


def ort_run(model, feed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def torch_run(module, feed):
    with torch.no_grad():
        result = module(*(torch.from_numpy(array) for array in feed.values()))
    return [value.numpy() for value in (result if isinstance(result, tuple) else (result,))]


def feed_for(name, batch, seed=0):
    generator = np.random.default_rng(seed)
    return {
        item.name: generator.integers(0, item.upper, (batch, *item.shape))
        if item.upper
        else generator.standard_normal((batch, *item.shape), dtype=np.float32)
        for item in zoo.NETWORKS[name].inputs
    }


# -- the zoo -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("resnet18", "mobilenet_v3_large", "mobilenet_v2", "squeezenet", "lstm", "yolov8n", "googlenet"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("alexnet", "resnet50", "bert_base", "agenet", "scenenet", "tinyyolo", "emotionnet")
        ),
    ],
)
def test_module_answers_as_onnx_runtime_does_at_any_batch(name):
    model = zoo.with_weights(zoo.weightless(name))
    onnx.checker.check_model(model)
    module = OnnxModule(model).eval()
    for batch in (1, 3):
        feed = feed_for(name, batch)
        for want, got in zip(ort_run(model, feed), torch_run(module, feed), strict=True):
            assert got.shape == want.shape
            assert np.abs(got - want).max() <= 2e-5 * want.std() + 1e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    ("name", "batch", "steps"),
    [
        ("lstm", 4, 4),
        ("mobilenet_v3_large", 2, 4),
        ("resnet18", 2, 3),
        pytest.param("yolov8n", 1, 4, marks=pytest.mark.slow),
        pytest.param("squeezenet", 2, 8, marks=pytest.mark.slow),
        pytest.param("mobilenet_v2", 2, 4, marks=pytest.mark.slow),
        pytest.param("resnet50", 2, 4, marks=pytest.mark.slow),
        pytest.param("alexnet", 2, 8, marks=pytest.mark.slow),
        pytest.param("gendernet", 2, 8, marks=pytest.mark.slow),
        pytest.param("googlenet", 2, 4, marks=pytest.mark.slow),
        pytest.param("tinyyolo", 2, 4, marks=pytest.mark.slow),
        pytest.param("bert_base", 1, 3, marks=pytest.mark.slow),
    ],
)
def test_loss_falls(name, batch, steps):
    step = trainer(zoo.weightless(name), batch).step
    losses = [step() for _ in range(steps)]
    assert all(np.isfinite(losses))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["lstm", "mobilenet_v3_large"])
def test_gradients_reach_every_parameter(name):
    module = OnnxModule(zoo.with_weights(zoo.weightless(name))).train()
    feed = feed_for(name, 2)
    module(*(torch.from_numpy(array) for array in feed.values())).square().sum().backward()
    silent = [key for key, weight in module.named_parameters() if weight.grad is None or not weight.grad.any()]
    # A bias in front of BatchNorm cannot matter, but none of these networks has one.
    assert silent == []
    assert sum(weight.numel() for weight in module.parameters()) == zoo.NETWORKS[name].parameters


def test_state_dict_reads_as_torchvision_names_it():
    keys = set(OnnxModule(zoo.with_weights(zoo.weightless("resnet18"))).state_dict())
    assert {"conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias", "fc.weight"} <= keys
    assert not any("." not in key for key in keys)


def test_batch_norm_follows_the_data_only_while_training():
    model = zoo.with_weights(zoo.weightless("mobilenet_v3_large"))
    module = OnnxModule(model)
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        module.eval()(images)
        assert not module.state_dict()["features.0.1.running_mean"].any()
        module.train()(images)
    state = module.state_dict()
    before = torch.nn.functional.conv2d(images, state["features.0.0.weight"], stride=2, padding=1)
    torch.testing.assert_close(state["features.0.1.running_mean"], 0.01 * before.mean((0, 2, 3)))


# -- handing back ------------------------------------------------------------------------------------------------


def test_a_trained_network_goes_back_into_its_graph():
    model = zoo.with_weights(zoo.weightless("lstm"))
    module = OnnxModule(model).train()
    optimiser = torch.optim.SGD(module.parameters(), lr=1.0)
    feed = feed_for("lstm", 2)
    module(torch.from_numpy(feed["tokens"])).square().sum().backward()
    optimiser.step()
    trained = with_trained(model, module)
    onnx.checker.check_model(trained, full_check=True)
    np.testing.assert_allclose(ort_run(trained, feed)[0], torch_run(module.eval(), feed)[0], atol=1e-5)
    assert np.abs(ort_run(model, feed)[0] - ort_run(trained, feed)[0]).max() > 1e-3
    assert trained.metadata_props == model.metadata_props


def test_inner_values_can_be_asked_for_and_the_rest_is_left_out():
    model = zoo.with_weights(zoo.weightless("yolov8n"))
    whole, backbone = OnnxModule(model), OnnxModule(model, ["model.9.concat"])
    assert sum(p.numel() for p in backbone.parameters()) < sum(p.numel() for p in whole.parameters())
    with pytest.raises(InputError, match="no value 'nothing'"):
        OnnxModule(model, ["nothing"])


# -- users' graphs -----------------------------------------------------------------------------------------------

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def two_layers(last="Softmax", classes=4):
    generator = np.random.default_rng(0)
    weights = {
        "onnx::w.1": generator.standard_normal((5, 8), dtype=np.float32),
        "b": np.zeros(8, np.float32),
        "train": generator.standard_normal((8, classes), dtype=np.float32),
        "half": np.float32(0.5),
        "shape": np.array([-1, 8]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::w.1"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["r"]),
        helper.make_node("Mul", ["r", "half"], ["h"]),
        helper.make_node("MatMul", ["h", "train"], ["o"]),
        helper.make_node(last, ["o"], ["y"]),
    ]
    return graph_of(nodes, {"x": (FLOAT, ["batch", 5])}, {"y": (FLOAT, ["batch", classes])}, weights)


def test_the_trained_parameters_of_a_foreign_graph():
    module = OnnxModule(two_layers())
    assert {tuple(weight.shape) for weight in module.parameters()} == {(5, 8), (8,), (8, 4)}
    assert len(module.state_dict()) == 4  # the scalar is a buffer; names that PyTorch cannot have are changed
    feed = {"x": np.ones((3, 5), np.float32)}
    np.testing.assert_allclose(torch_run(module.eval(), feed)[0], ort_run(two_layers(), feed)[0], atol=1e-6)
    restored = with_trained(two_layers(), module)
    assert ort_run(restored, feed)[0].tolist() == ort_run(two_layers(), feed)[0].tolist()


def test_a_users_classifier_trains_on_labels_and_anything_else_on_a_target():
    step = trainer(two_layers("Identity"), 6).step
    losses = [step() for _ in range(400)]
    assert losses[-1] < 0.9 * losses[0]
    step = trainer(two_layers("Identity", classes=1), 6).step
    regression = [step() for _ in range(400)]
    assert regression[-1] < regression[0]
    assert regression != losses


def test_a_fixed_batch_that_differs_is_changed():
    model = two_layers()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    assert np.isfinite(trainer(model, 4).step())


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("Einsum", ["x"], ["y"], name="sum", equation="ij->j"), r"operator Einsum \(node 'sum'\)"),
        (helper.make_node("Relu", ["x"], ["y"], name="own", domain="com.acme"), r"operator Relu \(node 'own'\)"),
        (helper.make_node("Resize", ["x", "", "s"], ["y"], name="r", mode="cubic"), "mode 'cubic'"),
        (helper.make_node("Cast", ["x"], ["y"], name="c", to=TensorProto.STRING), "element type STRING"),
        (helper.make_node("LRN", ["x"], ["y"], name="norm", size=4), "an even size, 4"),
    ],
)
def test_an_unimplemented_operator_is_named_with_its_node(node, message):
    model = graph_of([node], {"x": (FLOAT, ["n", 3])}, {"y": (FLOAT, None)}, {"s": np.ones(2, np.float32)})
    with pytest.raises(InputError, match=message):
        OnnxModule(model)


def test_model_functions_are_inlined():
    body = [helper.make_node("Mul", ["a", "a"], ["b"])]
    square = helper.make_function("own", "Square", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    model = graph_of(
        [helper.make_node("Square", ["x"], ["y"], domain="own")],
        {"x": (FLOAT, ["n", 3])},
        {"y": (FLOAT, ["n", 3])},
        functions=[square],
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert torch_run(OnnxModule(model), {"x": np.full((1, 3), 3, np.float32)})[0].tolist() == [[9.0, 9.0, 9.0]]

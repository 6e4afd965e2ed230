"""TensorRT engines are built, kept, loaded and run, and what cannot run is refused in two lines.

No GPU and no TensorRT run here: ``fakes.tensorrt`` and ``fakes.cuda_driver`` are fakes of their Python interfaces.
"""

import json
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import InputError
from edgetune.workloads.engines import EngineOptions
from edgetune.workloads.resolve import resolve
from edgetune.workloads.steps import open_step
from edgetune.workloads.tensorrt_engine import inspect
from edgetune.workloads.workload import BatchLimits, RunOptions
from fakes import tensorrt

FLOAT = "FLOAT"
IMAGE = {"x": [[-1, 3], FLOAT]}
LABELS = {"y": [[-1, 2], FLOAT]}
RANGE = [{"x": [[1, 3], [4, 3], [8, 3]]}]


@pytest.fixture(autouse=True)
def fakes(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorrt", tensorrt)
    monkeypatch.setattr(tensorrt, "cuda", tensorrt.orin())
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", tensorrt.cuda)
    monkeypatch.setattr(tensorrt, "MINIBATCH_S", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "edgetune" / "engines" / "tensorrt"


def options(engine="tensorrt", inputs=None, **how):
    return RunOptions(threads=1, inputs=inputs, engine=EngineOptions(engine, **how))


def network(path, *, op="Relu", batch="batch", element=TensorProto.FLOAT):
    weight = numpy_helper.from_array(np.ones((3, 2), np.float32).astype(helper.tensor_dtype_to_np_dtype(element)), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], "multiply"), helper.make_node(op, ["h"], ["y"], "activate")],
        "net",
        [helper.make_tensor_value_info("x", element, [batch, 3])],
        [helper.make_tensor_value_info("y", element, [batch, 2])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return resolve(str(path))


def engine_file(tmp_path, inputs=IMAGE, outputs=LABELS, *, name="net.engine", prefix=b"", **how):
    path = tmp_path / name
    path.write_bytes(prefix + tensorrt.plan(inputs, outputs, **how))
    return resolve(str(path))


def test_an_engine_is_built_from_onnx_once_for_each_batch_and_precision(tmp_path, fakes):
    workload = network(tmp_path / "net.onnx")
    tensorrt.Builder.builds = 0
    first = open_step(workload, "infer", 4, options())
    assert first() is None
    assert first.built.cached is False
    again = open_step(workload, "infer", 4, options())
    again()
    assert again.built.cached
    assert (
        again.columns() == first.columns() == {"build_s": first.built.build_s, "engine_bytes": first.built.engine_bytes}
    )
    assert tensorrt.Builder.builds == 1
    for batch, how in (
        (2, {}),
        (4, {"precision": "fp16"}),
        (4, {"precision": "fp16", "dla_core": 0, "allow_gpu_fallback": True}),
    ):
        assert not open_step(workload, "infer", batch, options(**how)).built.cached
    notes = [json.loads(note.read_text()) for note in fakes.glob("*.json")]
    assert len(notes) == 4
    assert {(note["gpu"], note["tensorrt"]) for note in notes} == {("Orin", "10.3.0")}


def test_another_version_or_gpu_or_a_damaged_file_builds_again(tmp_path, fakes, monkeypatch):
    workload = network(tmp_path / "net.onnx")
    open_step(workload, "infer", 1, options())
    for kept in fakes.glob("*.engine"):
        kept.write_bytes(kept.read_bytes()[:-5])
    assert not open_step(workload, "infer", 1, options()).built.cached
    assert open_step(workload, "infer", 1, options()).built.cached
    monkeypatch.setattr(tensorrt.cuda.works[0].gpu, "name", "NVIDIA H200")
    with pytest.raises(InputError, match="another model of GPU"):  # the fake builds for Orin only
        open_step(workload, "infer", 1, options())
    monkeypatch.setattr(tensorrt.cuda.works[0].gpu, "name", "Orin")
    monkeypatch.setattr(tensorrt, "__version__", "8.6.2")
    assert not open_step(workload, "infer", 1, options()).built.cached


def test_inputs_reach_the_gpu(tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([[1, 2, 3]], np.float32))
    step = open_step(network(tmp_path / "net.onnx"), "infer", 2, options(inputs=str(tmp_path / "in.npz")))
    step()
    memory = tensorrt.cuda.works[0].memory
    contents = [memory.view(*each).tobytes() for each in ((at, np.uint8, size) for at, size in memory.allocations())]
    assert np.array([[1, 2, 3]] * 2, np.float32).tobytes() in contents


def test_precisions_become_flags(tmp_path, fakes):
    workload = network(tmp_path / "net.onnx")
    for precision, flag in (("fp32", b"[]"), ("fp16", b'["FP16"]'), ("bf16", b'["BF16"]')):
        open_step(workload, "infer", 1, options(precision=precision))
        assert any(b'"flags": ' + flag in kept.read_bytes() for kept in fakes.glob("*.engine"))
    half = network(tmp_path / "half.onnx", element=TensorProto.FLOAT16)
    open_step(half, "infer", 1, options())
    assert [b'"FP16"' in kept.read_bytes() for kept in fakes.glob("half-*.engine")] == [True]


@pytest.mark.parametrize(
    ("version", "how", "stored"),
    [
        ("8.6.1", {"precision": "bf16"}, TensorProto.FLOAT),
        ("11.4.0", {"precision": "fp16"}, TensorProto.FLOAT),
        ("11.4.0", {"precision": "fp32"}, TensorProto.FLOAT16),
    ],
)
def test_a_precision_that_a_version_cannot_be_asked_for_is_refused(tmp_path, monkeypatch, version, how, stored):
    tensorrt.be(monkeypatch, version)
    with pytest.raises(InputError, match=f"TensorRT {version} cannot be asked for {how['precision']}"):
        open_step(network(tmp_path / "net.onnx", element=stored), "infer", 1, options(**how))


def test_an_engine_whose_tensors_are_packed_is_refused(tmp_path):
    packed = engine_file(tmp_path, profiles=RANGE, formats={"x": "CHW32"})
    with pytest.raises(InputError, match=r"tensor 'x' of .* is laid out as CHW32, not in rows"):
        open_step(packed, "infer", 1, RunOptions())


def test_int8_needs_scales(tmp_path):
    with pytest.raises(InputError, match="no scales for INT8"):
        open_step(network(tmp_path / "net.onnx"), "infer", 1, options(precision="int8"))


def test_layers_that_the_dla_lacks_are_listed(tmp_path, monkeypatch):
    workload = network(tmp_path / "net.onnx")
    with pytest.raises(InputError, match="1 of 2 layers do not run on the DLA: multiply") as caught:
        open_step(workload, "infer", 1, options(precision="fp16", dla_core=0))
    assert "--allow-gpu-fallback" in caught.value.hint
    allowed = options(precision="fp16", dla_core=0, allow_gpu_fallback=True)
    assert open_step(workload, "infer", 1, allowed).built.note == "1 of 2 layers run on the GPU: multiply"
    assert open_step(workload, "infer", 1, allowed).built.note == "1 of 2 layers run on the GPU: multiply", "kept"
    with pytest.raises(InputError, match="a DLA does not compute in fp32"):
        open_step(workload, "infer", 1, options(dla_core=0))
    with pytest.raises(InputError, match="this machine has 2 DLA cores"):
        open_step(workload, "infer", 1, options(precision="fp16", dla_core=2, allow_gpu_fallback=True))
    monkeypatch.setattr(tensorrt._Config, "can_run_on_DLA", lambda *_: True)  # the builder alone finds out
    monkeypatch.setattr(tensorrt.Builder, "_reason", _switching)
    with pytest.raises(InputError, match="do not run on the DLA: activate"):
        open_step(workload, "infer", 1, options(precision="fp16", dla_core=0))


def _switching(builder, network, config):
    builder.logger.log(
        tensorrt.ILogger.Severity.WARNING,
        "Layer 'activate' (ACTIVATION): Unsupported on DLA. Switching this layer's device type to GPU.",
    )


def test_an_engine_file_runs_within_its_profiles(tmp_path):
    workload = engine_file(tmp_path, profiles=RANGE)
    assert workload.kind == "engine"
    assert inspect(workload, RunOptions()) == BatchLimits(1, 8, 4, inspect(workload, RunOptions()).fix)
    for batch in (1, 8):
        step = open_step(workload, "infer", batch, RunOptions())
        step()
        assert step.columns() == {"build_s": None, "engine_bytes": (tmp_path / "net.engine").stat().st_size}
    with pytest.raises(InputError, match="takes batch 1 to 8, not 9"):
        open_step(workload, "infer", 9, RunOptions())
    with pytest.raises(InputError, match="infers and does not train"):
        open_step(workload, "train", 1, RunOptions())


def test_the_profile_that_takes_the_batch_is_chosen(tmp_path):
    profiles = [{"x": [[1, 3], [1, 3], [1, 3]]}, {"x": [[16, 3], [16, 3], [32, 3]]}]
    workload = engine_file(tmp_path, profiles=profiles)
    assert inspect(workload, RunOptions()).most == 32
    open_step(workload, "infer", 20, RunOptions())()
    with pytest.raises(InputError, match=r"no profile of .* takes x 8x3"):
        open_step(workload, "infer", 8, RunOptions())


def test_every_type_of_input_and_an_output_of_unknown_size(tmp_path):
    inputs = {
        kind: [[4, 2], kind] for kind in ("FLOAT", "HALF", "BF16", "INT8", "INT32", "INT64", "BOOL", "FP8", "UINT8")
    }
    step = open_step(engine_file(tmp_path, inputs, {"boxes": [[4, -1], "INT64"]}), "infer", 4, RunOptions())
    step()
    assert 4096 in tensorrt.memory_bytes().values()
    with pytest.raises(InputError, match="type INT4"):
        open_step(engine_file(tmp_path, {"x": [[4], "INT4"]}, LABELS), "infer", 4, RunOptions())


def test_metadata_before_the_engine_is_read_past(tmp_path):
    metadata = json.dumps({"description": "Ultralytics YOLO11n model", "batch": 1, "dla": "1"}).encode()
    prefix = len(metadata).to_bytes(4, "little") + metadata
    workload = engine_file(tmp_path, profiles=RANGE, prefix=prefix)
    open_step(workload, "infer", 2, RunOptions())()
    with pytest.raises(InputError, match="--dla-core 5: this machine has 2 DLA cores"):
        open_step(workload, "infer", 2, options("tensorrt", dla_core=5))


def test_an_input_that_decides_shapes_is_to_be_given(tmp_path):
    workload = engine_file(tmp_path, {**IMAGE, "size": [[2], "INT32"]}, profiles=RANGE, host=["size"])
    with pytest.raises(InputError, match=r"'size' .* decides shapes"):
        open_step(workload, "infer", 2, RunOptions())
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 3), np.float32), size=np.array([4, 4], np.int32))
    open_step(workload, "infer", 2, RunOptions(inputs=str(tmp_path / "in.npz")))()


def test_a_truncated_engine_and_other_files_are_refused(tmp_path):
    whole = tensorrt.plan(IMAGE, LABELS, profiles=RANGE)
    path = tmp_path / "net.engine"
    for content in (whole[:-3], whole[:6], b"\x08\x07something else"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="cut short, or no engine: Error Code 1"):
            open_step(resolve(str(path)), "infer", 1, RunOptions())
    path.write_bytes(b"GGUF\3\0\0\0" + bytes(64))
    with pytest.raises(InputError, match=r"llama\.cpp"):
        resolve(str(path))

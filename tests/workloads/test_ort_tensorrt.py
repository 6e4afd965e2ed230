"""ONNX Runtime's TensorRT provider: engines are kept, built before anything is timed, and the CPU is refused.

No GPU runs here: ``fakes.ort_tensorrt`` is a fake. The refusal of the CPU is also tested on the real ONNX Runtime.
"""

import warnings

import onnxruntime
import pytest

from edgetune.errors import DeviceError, InputError
from edgetune.workloads import ort_session, ort_tensorrt
from edgetune.workloads.engines import EngineOptions
from edgetune.workloads.resolve import resolve
from edgetune.workloads.steps import open_step
from edgetune.workloads.workload import RunOptions
from fakes.ort_tensorrt import FakeOrt

NETWORK = "zoo:squeezenet"


def options(precision=None):
    return RunOptions(threads=1, engine=EngineOptions("ort-tensorrt", precision))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "edgetune" / "engines" / "ort-tensorrt"


@pytest.fixture
def install(monkeypatch):
    def installed(fake):
        for module in (ort_session, ort_tensorrt):
            monkeypatch.setattr(module, "require_onnxruntime", lambda _: fake)
        return fake

    return installed


def test_an_engine_is_built_once_for_a_network_batch_and_precision(install, cache):
    fake = install(FakeOrt())
    workload = resolve(NETWORK)
    first = open_step(workload, "infer", 2, options())
    assert first()[0].shape[0] == 2
    assert not first.built.cached
    assert first.built.build_s > 0
    assert first.columns() == {"build_s": first.built.build_s, "engine_bytes": first.built.engine_bytes}
    again = open_step(workload, "infer", 2, options())
    assert again.built.cached
    assert again.columns() == first.columns(), "the time of the first building is kept"
    assert "trt_fp16_enable" not in fake.options
    for changed in (open_step(workload, "infer", 1, options()), open_step(workload, "infer", 2, options("fp16"))):
        assert not changed.built.cached
    assert fake.options["trt_fp16_enable"] == "1"
    assert len(list(cache.iterdir())) == 3


def test_an_operator_on_the_cpu_is_an_error(install):
    for fake in (FakeOrt(unsupported=("MaxPool",)), FakeOrt(broken=True)):
        install(fake)
        with pytest.raises(InputError, match="would run operators of zoo:squeezenet on the CPU"):
            open_step(resolve(NETWORK), "infer", 1, options())


def test_the_real_onnxruntime_refuses_an_operator_on_the_cpu(monkeypatch):
    other = next(name for name in onnxruntime.get_available_providers() if name != "CPUExecutionProvider")
    monkeypatch.setattr(ort_tensorrt, "PROVIDER", other)  # one that takes no operator of this network
    monkeypatch.setattr(ort_tensorrt, "_provider_options", lambda *_: {})
    monkeypatch.setattr(ort_session, "require_onnxruntime", lambda _: onnxruntime)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CUDAExecutionProvider is not in this build
        with pytest.raises(InputError, match="would run operators of zoo:squeezenet on the CPU"):
            open_step(resolve(NETWORK), "infer", 1, options())


def test_a_build_without_the_provider_says_what_to_install():
    if "TensorrtExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has TensorRT")
    with pytest.raises(DeviceError, match="no TensorrtExecutionProvider") as caught:
        open_step(resolve(NETWORK), "infer", 1, options())
    assert "NVIDIA's onnxruntime-gpu wheel" in caught.value.hint


def test_an_old_onnxruntime_cannot_refuse_the_cpu(install):
    install(FakeOrt(version="1.15.1"))
    with pytest.raises(DeviceError, match=r"1\.15\.1 cannot refuse the CPU"):
        open_step(resolve(NETWORK), "infer", 1, options())


def test_int8_needs_scales(install):
    install(FakeOrt())
    with pytest.raises(InputError, match="no scales for INT8"):
        open_step(resolve(NETWORK), "infer", 1, options("int8"))


def test_a_cache_that_cannot_be_written_is_two_lines(install, tmp_path, monkeypatch):
    install(FakeOrt())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match="for built engines"):
        open_step(resolve(NETWORK), "infer", 1, options())

"""Prepared folders are read by a light process, which refuses those that are not as they were written."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_graphs import model, node

from edgetune.errors import InputError
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.prepared import check_file, check_runtime, is_prepared, open_prepared, processor_kind
from edgetune.workloads.resolve import resolve


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Two layers, the second of which shares a weight with the first."""
    folder = tmp_path_factory.mktemp("prepared")
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "a v", "b"), node("MatMul", "b w", "y")]
    proto = model(nodes, {"x": [1, 64]}, values={"w": weight, "v": weight.T}, outputs=["y"])
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    return prepare(resolve(str(folder / "net.onnx")), PrepareOptions(), folder / "made")


@pytest.fixture
def folder(original, tmp_path):
    """A copy to be damaged."""
    for name in ("manifest.json", *original.files):
        (tmp_path / name).write_bytes((original.folder / name).read_bytes())
    return tmp_path


def rewrite(folder, change):
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_written_manifest_is_read_back(original, folder):
    prepared = open_prepared(folder)
    assert prepared.layers == original.layers
    assert prepared.files == original.files
    assert [layer.after for layer in prepared.layers] == [(), (0,), (1,)]
    for name in prepared.files:
        assert check_file(prepared, name) == (folder / name).stat().st_mtime_ns
    assert is_prepared(folder)


def test_a_changed_bit_is_found_in_every_file(original, folder):
    prepared = open_prepared(folder)
    for name in original.files:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name} is not what was written") as refused:
            check_file(prepared, name)
        assert "edgetune schedule prepare --fresh" in refused.value.hint


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "sub/file", "", "..", "a\0b"])
def test_a_manifest_names_only_files_of_its_folder(folder, name):
    rewrite(folder, lambda document: document["layers"][0].update(graph=name))
    with pytest.raises(InputError, match="damaged"):
        open_prepared(folder)


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.just([]), st.just({}))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_manifest_with_anything_in_it_is_read_or_refused(original, folder, data):
    document = json.loads((original.folder / "manifest.json").read_text())
    place = document
    while isinstance(place, (dict, list)) and place:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.integers(0, 3)) == 0:
            place[key] = data.draw(ANYTHING)
            break
        place = place[key]
    (folder / "manifest.json").write_text(json.dumps(document))
    with contextlib.suppress(InputError):
        assert open_prepared(folder).layers


def test_layers_of_another_runtime_or_processor_are_refused_where_that_matters(original, folder):
    version, here = original.runtime["onnxruntime"], processor_kind()
    check_runtime(original, version, here)
    with pytest.raises(InputError, match=r"ONNX Runtime .* this is 0\.1"):
        check_runtime(original, "0.1", here)
    with pytest.raises(InputError, match="processor of kind"):
        check_runtime(original, version, "abacus")
    rewrite(folder, lambda document: document["options"].update(optimise="extended"))
    check_runtime(open_prepared(folder), version, "abacus")
    rewrite(folder, lambda document: document["options"].update(optimise="basic"))
    check_runtime(open_prepared(folder), "0.1", "abacus")
    assert Path(original.folder).is_dir()

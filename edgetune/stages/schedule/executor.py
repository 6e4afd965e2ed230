"""Networks on ONNX Runtime: layer by layer with weights fed from where they are mapped, or whole, to compare with.

    session of conv1 (100 KB) <- weights of conv1 (mapped while loaded) + outputs of the layers that it is after
                              -> its own outputs

Layer by layer, sessions are kept without weights and have no arena, no prepacking and one thread: a layer takes what
its tensors take, and gives it back with them. A whole network has one of two forms; a fair comparison is with both:

    default    weights inside the file, ONNX Runtime's own settings: it copies them and packs them again
    external   weights beside the graph, mapped; neither copied nor packed
"""

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.schedule.weights import MappedWeights, drop_cached
from edgetune.workloads.prepared import Prepared, PreparedLayer

Values = Mapping[str, Any]
"""ONNX Runtime's values (``OrtValue``) by the name of the tensor."""


class LoadedLayer:
    """The weights of one layer in memory.

    Args:
        files: Their files, mapped, by name.
        values: Their tensors, by the input of the layer's graph that they are fed to.
    """

    def __init__(self, files: Mapping[str, MappedWeights], values: Values) -> None:
        self.files, self.values = files, dict(values)


class SharedWeights:
    """A file of weights that several layers read: mapped for the first of them, and released after the last."""

    def __init__(self) -> None:
        self._lock, self._mapped, self._users = threading.Lock(), list[MappedWeights](), 0

    def take(self, made: Callable[[], MappedWeights]) -> MappedWeights:
        """Return the mapping for one more layer; ``made`` maps the file."""
        with self._lock:
            if not self._users:
                self._mapped = [made()]
            self._users += 1
            return self._mapped[0]

    def give_back(self) -> bool:
        """Note that a layer does not read it any more; return whether none does."""
        with self._lock:
            self._users -= 1
            return not self._users


class PreparedLayers:
    """A prepared network whose layers are loaded, executed and unloaded, from any thread.

    Making it makes all sessions, half a millisecond each.

    Args:
        prepared: The folder.
        changed_ns: Modification time of each file of weights when its hash was checked.
        drop_cache: Whether what is unloaded leaves the page cache, too; see ``MappedWeights.release``.

    Raises:
        InputError: ONNX Runtime cannot load a layer's graph.
    """

    def __init__(self, prepared: Prepared, changed_ns: Mapping[str, int], *, drop_cache: bool) -> None:
        self.inputs = [tensor.name for tensor in prepared.inputs]
        self.outputs = [tensor.name for tensor in prepared.outputs]
        self.reads = [layer.inputs for layer in prepared.layers]
        self._prepared, self._changed_ns, self._drop_cache = prepared, changed_ns, drop_cache
        counts = Counter(name for layer in prepared.layers for name in {weight.file for weight in layer.weights})
        self._shared = {name: SharedWeights() for name, count in counts.items() if count > 1}
        self._sessions = [open_session(prepared.folder / layer.graph, _layer_options()) for layer in prepared.layers]

    def load(self, layer: int) -> LoadedLayer:
        """Map and populate a layer's weights."""
        import onnxruntime as ort

        weights = self._prepared.layers[layer].weights
        files: dict[str, MappedWeights] = {}
        try:
            for name in dict.fromkeys(weight.file for weight in weights):
                files[name] = self._mapped(name)
            of_numpy = ort.OrtValue.ortvalue_from_numpy  # no copy: it holds the array
            values = {w.input: of_numpy(files[w.file].tensor(w.offset, w.dtype, w.shape)) for w in weights}
        except BaseException:
            self._release(files, drop_cache=self._drop_cache)
            raise
        return LoadedLayer(files, values)

    def _mapped(self, name: str) -> MappedWeights:
        size_bytes, shared = self._prepared.files[name].size_bytes, self._shared.get(name)
        made = partial(MappedWeights, self._prepared.folder / name, size_bytes, self._changed_ns.get(name))
        return made() if shared is None else shared.take(made)

    def _release(self, files: Mapping[str, MappedWeights], *, drop_cache: bool) -> None:
        for name, file in files.items():
            if name not in self._shared or self._shared[name].give_back():
                file.release(drop_cache=drop_cache)

    def execute(self, layer: int, loaded: LoadedLayer | None, values: Values) -> Values:
        """Run one layer's session."""
        described: PreparedLayer = self._prepared.layers[layer]
        fed = {**({} if loaded is None else loaded.values), **values}
        return run(self._sessions[layer], described.outputs, fed)

    def unload(self, loaded: LoadedLayer, *, drop_cache: bool | None = None) -> None:
        """Drop the views and give the memory back; ``drop_cache`` goes before what all unloads do."""
        loaded.values.clear()
        self._release(loaded.files, drop_cache=self._drop_cache if drop_cache is None else drop_cache)


def open_session(path: Path, options: Any) -> Any:
    """Return a session on the CPU.

    Raises:
        InputError: ONNX Runtime cannot load the graph.
    """
    import onnxruntime as ort

    options.log_severity_level = 4  # an error is an exception
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exception types share no base class but Exception
        message = f"ONNX Runtime cannot load {path}, which edgetune schedule prepare made: {one_line(error)}"
        raise InputError(
            message, "the model itself is in order: edgetune schedule prepare --fresh writes it again"
        ) from None


def run(session: Any, outputs: Sequence[str], values: Values) -> Values:
    """Return the outputs of a session, which stay where ONNX Runtime made them.

    Raises:
        InputError: ONNX Runtime fails.
    """
    try:
        made = session.run_with_ort_values(list(outputs), dict(values))
    except Exception as error:
        raise InputError(f"ONNX Runtime failed: {one_line(error)}", "give it inputs that the network takes") from None
    return dict(zip(outputs, made, strict=True))


def one_line(error: BaseException) -> str:
    """Return the message of an error, short enough for a row."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def _layer_options() -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # workers are threads already
    options.add_session_config_entry("session.disable_prepacking", "1")  # weights are packed once loaded, or never
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


Form = Literal["default", "external"]
FORMS: tuple[Form, ...] = get_args(Form)


class WholeNetwork:
    """A network of one layer, like ``PreparedLayers``.

    Args:
        prepared: Its folder.
        form: The form of the network.
        drop_cache: Whether its files leave the page cache when it is unloaded.

    Raises:
        InputError: the folder has no such form.
    """

    def __init__(self, prepared: Prepared, form: Form, *, drop_cache: bool) -> None:
        if form not in prepared.whole:
            raise InputError(
                f"{prepared.folder} has no whole network in the form {form!r}: it would be too large for one file",
                "run the external form",
            )
        self.inputs = [tensor.name for tensor in prepared.inputs]
        self.outputs = [tensor.name for tensor in prepared.outputs]
        self.reads = [self.inputs]
        self._path = prepared.folder / prepared.whole[form]
        self._files = [prepared.folder / name for name in prepared.files if name.startswith("whole")]
        self._form, self._drop_cache = form, drop_cache
        self._libc = ctypes.CDLL(None)

    def load(self, layer: int) -> list[Any]:  # noqa: ARG002 -- there is one
        """Make a session, which reads its weights."""
        return [open_session(self._path, _options(self._form))]

    def execute(self, layer: int, loaded: list[Any], values: Values) -> Values:  # noqa: ARG002
        """Run it."""
        return run(loaded[0], self.outputs, values)

    def unload(self, loaded: list[Any]) -> None:
        """Drop the session and have the C library give its memory back."""
        loaded.clear()
        trim = getattr(self._libc, "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)
        if self._drop_cache:
            for path in self._files:
                drop_cached(path)


def _options(form: Form) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # workers are threads already
    if form == "external":
        options.add_session_config_entry("session.disable_prepacking", "1")
    return options


Runnable = PreparedLayers | WholeNetwork

_EXACT_HEAP = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Activations go back to the system as soon as they are freed, instead of up to 64 MB when the C library sees fit
(mallopt(3)), so that what is held is what the loop knows of. Costs 5 to 8 % of the time of ResNet-18's layers, and
0.6 ms of 2.6 ms of a layer whose output is 3 MB."""
_QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Numpy computes nothing there, and its threads would each take memory."""


def environment_of(form: Literal["layers"] | Form) -> Mapping[str, str]:
    """Return the additional environment variables of a process, by the form of its networks."""
    return {**_QUIET, **(_EXACT_HEAP if form == "layers" else {})}


Arrays = Mapping[str, Any]


def write_sample(folder: Path, arrays: Sequence[Any]) -> None:
    """Write an array for each input of a network, as input-0.npy, input-1.npy, ...

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        for place, array in enumerate(arrays):
            np.save(folder / f"input-{place}.npy", array, allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}", "free space there") from None


def read_sample(folder: Path, count: int) -> list[Any]:
    """Return the arrays that ``write_sample`` wrote, mapped.

    Raises:
        InputError: a file is missing or damaged.
    """
    try:
        return [np.load(folder / f"input-{place}.npy", mmap_mode="r", allow_pickle=False) for place in range(count)]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read input in {folder}: {one_line(error)}", "run the same command again") from None


class Samples:
    """The samples of the networks of a run.

    Args:
        folders: The folder of each network's files.
        prepared: The prepared networks, by name.
    """

    def __init__(self, folders: Mapping[str, Path], prepared: Mapping[str, Prepared]) -> None:
        self._folders, self._prepared = folders, prepared
        self._samples: dict[str, Arrays] = {}

    def sample(self, request: int, network: str) -> Arrays:  # noqa: ARG002 -- all requests of a network have one
        """Return the arrays that a request feeds to its network; called once, by a worker.

        Raises:
            InputError: no sample can be read.
        """
        if network not in self._samples:
            tensors = self._prepared[network].inputs
            arrays = read_sample(self._folders[network], len(tensors))
            self._samples[network] = dict(zip((tensor.name for tensor in tensors), arrays, strict=True))
        return self._samples[network]

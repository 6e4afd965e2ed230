"""From CUDA C to PTX, which elastic forms are made of; what PTX needs on a GPU, and which drivers read it.

x.cu   NVRTC, or nvcc  -->  x.ptx  _Z4vaddPfi is named vadd, scale<float, 16> scale_float_16
x.ptx  nvJitLink       -->  vadd 16 registers, vadd__grid 18          neither needs a GPU

What each kernel needs, as ``ptxas -v`` reports it, and the names of kernels in their symbols.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from edgetune.artifacts.output_file import scratch_folder
from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic.compiler import DEFAULTS, ERROR, REMEDY, CompileOptions, compiler_for, ptx_of
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.kernel import PERSISTENT, TransformResult
from edgetune.stages.elastic.ptx.parse import is_ptx, parse
from edgetune.stages.elastic.ptx.transform import transform_ptx
from edgetune.stages.elastic.sample_launches import instance_symbol

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes cumulative stack size)?(?:.*?(\d+) bytes smem)?")
_LENGTH = re.compile(r"\d+")


def resources_in(log: str) -> dict[str, Resources]:
    """Return the needs of kernels, by symbol, from the report of ``ptxas -v``.

    Source of the wording: NVIDIA, "CUDA Compiler Driver NVCC", section on printing code generation statistics.
    """
    found: dict[str, Resources] = {}
    frames: dict[str, tuple[int, int]] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match[1]
        elif match := _PROPERTIES.search(line):
            function = match[1]
        elif match := _STACK.search(line):
            frames[function] = int(match[1]), int(match[2]) + int(match[3])
        elif match := _USED.search(line):
            registers, cumulative, shared = (int(each or 0) for each in match.groups())
            stack_bytes, spill_bytes = frames.get(entry, (0, 0))
            found[entry] = Resources(registers, shared, max(stack_bytes, cumulative), spill_bytes)
    return found


Forms = Mapping[int | None, Resources]
"""What a kernel and its forms need, by logical threads in a physical one; see ``kernel.PERSISTENT``."""


def forms_of(transformed: TransformResult, needs: Callable[[str], Resources]) -> dict[str, Forms]:
    """Return the forms of each kernel of a file, by the name of the original.

    Args:
        transformed: The file.
        needs: Returns the needs of a kernel or form, by its symbol.
    """
    return {
        each.kernel.name: {
            None: needs(each.kernel.name),
            **{PERSISTENT if one.level == "persistent" else one.per_thread: needs(one.symbol) for one in each.variants},
        }
        for each in transformed.kernels
    }


def _plain_name(symbol: str) -> str:
    """Return the name in a symbol: the last of a scope (Itanium C++ ABI, names are preceded by their lengths)."""
    name, rest = symbol, symbol.removeprefix("_Z").removeprefix("N")
    while rest != symbol and (match := _LENGTH.match(rest)):
        name, rest = rest[match.end() :][: int(match[0])], rest[match.end() + int(match[0]) :]
        if not symbol.startswith("_ZN"):
            break
    return name


_LAUNCHED = re.compile(r"^[ \t]*//[ \t]*launch[ \t]+(\w+[ \t]*<.*?>)(?=[ \t])", re.MULTILINE)
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_TOOLKIT = Path("/usr/local/cuda")
"""Where the toolkit and JetPack have it."""
_WHEELS = "nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl"
_INSTANCE = re.compile(r"(?:void )?(?:\w+::)*(\w+<.*>)\(")
"""A kernel in words, e.g. ``void scale<float, 3>(float*, int)``."""
_LIMIT_S = 600
_NEWEST = {(12, 5): (8, 5), (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8)}
"""Version of PTX that a driver reads, by that of CUDA, where it is not the usual one (NVIDIA, "PTX ISA", release
notes)."""


def transform(
    source: str,
    name: str,
    arch: str,
    *,
    options: CompileOptions = DEFAULTS,
    instances: Sequence[str] = (),
    persistent: bool = False,
) -> TransformResult:
    """Make the kernels of a CUDA C or PTX text elastic.

    Args:
        source: CUDA C, which is compiled, or PTX.
        name, arch, options, instances: As ``compiled``.
        persistent: Whether each kernel gets a persistent form too.

    Raises:
        InputError: it does not compile, or has no kernel.
        DeviceError: NVRTC is missing.
    """
    if is_ptx(name, source):
        return transform_ptx(source, name, persistent=persistent)
    text = compiled(source, name, arch, options=options, instances=instances)
    return transform_ptx(text, name, persistent=persistent, compiled=True)


def compiled(
    source: str, name: str, arch: str, *, options: CompileOptions = DEFAULTS, instances: Sequence[str] = ()
) -> str:
    """Compile CUDA C to PTX whose kernels have the names that the source gives them.

    Args:
        source: CUDA C.
        name: Of the file, for messages.
        arch: Of the oldest GPU that shall run it, e.g. ``sm_87``.
        options: Compiler options.
        instances: Of template kernels, besides those that the file itself launches in comments.

    Raises:
        InputError: it does not compile, where there is nvcc by that either.
        DeviceError: NVRTC is missing.
    """
    compiler_for(arch)
    asked = tuple(dict.fromkeys((*instances, *_LAUNCHED.findall(source))))
    try:
        text, symbols = ptx_of(source, arch, name=name, options=options, instances=asked)
    except InputError as error:  # it may have host code, or need headers of the toolkit
        nvcc = _nvcc()
        if nvcc is None:
            hint = f"{error.hint}; nvcc, which compiles host code too, is not there: pip install {_WHEELS}"
            raise InputError(error.message, hint) from None
        taken = (
            f"\nnamespace {{ void *edgetune_instances[] = {{{', '.join(f'(void *)&{each}' for each in asked)}}}; }}\n"
        )
        text = _by_nvcc(nvcc, source + taken * bool(asked), arch, name, options)
        symbols = _instances([each.name for each in parse(text, name).entries])
    return _plainly_named(text, symbols, name)


def _nvcc() -> str | None:
    """Return the path of nvcc: of CUDA_HOME, of the search path, of the toolkit or JetPack, or of the wheel."""
    homes = [Path(os.environ[each]) for each in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(each)]
    wheels = importlib.util.find_spec("nvidia")
    folders = list(wheels.submodule_search_locations or ()) if wheels else []
    on_path = [Path(found)] if (found := shutil.which("nvcc")) else []
    there = [*(home / "bin/nvcc" for home in homes), *on_path, _TOOLKIT / "bin/nvcc"]
    there += [file for folder in folders for file in sorted(Path(folder).glob("*/bin/nvcc"))]
    return next((str(each) for each in there if os.access(each, os.X_OK)), None)


def _by_nvcc(nvcc: str, source: str, arch: str, name: str, options: CompileOptions) -> str:
    """Return the PTX of a source with host code.

    Raises:
        InputError: nvcc does not compile it, or takes too long.
    """
    words = [f"-arch={arch}", f"-fmad={'true' if options.fmad else 'false'}", "-lineinfo", "-w"]
    words += [f"-I{Path(folder).absolute()}" for folder in options.include]
    with scratch_folder() as folder:
        text = f"#line 1 {json.dumps(name, ensure_ascii=False)}\n{source}"
        (folder / "kernel.cu").write_text(text, "utf-8", "surrogateescape")
        try:
            done = subprocess.run(
                [nvcc, "-ptx", *words, "-o", "kernel.ptx", "kernel.cu"], cwd=folder, capture_output=True, text=True,
                errors="surrogateescape", timeout=_LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise InputError(f"nvcc did not compile {name} within {_LIMIT_S} s", "give it a smaller file") from None
        if done.returncode:
            said = done.stderr + done.stdout
            found = ERROR.search(said)
            first = next((line for line in said.splitlines() if "error" in line), f"exit status {done.returncode}")
            raise InputError("{}, line {}: {}".format(*found.groups()) if found else first, f"by {nvcc} for {arch}")
        return (folder / "kernel.ptx").read_text("utf-8", "surrogateescape")


def _instances(entries: Sequence[str]) -> dict[str, str]:
    """Return the symbols of instances of template kernels by how they are written, where binutils are installed."""
    filt = shutil.which("c++filt")
    if filt is None:
        return {}
    done = subprocess.run([filt], input="\n".join(entries), capture_output=True, text=True, check=False)
    shown = zip(entries, done.stdout.splitlines(), strict=False)
    return {found[1]: symbol for symbol, each in shown if (found := _INSTANCE.match(each))}


def _plainly_named(text: str, symbols: Mapping[str, str], name: str) -> str:
    """Return PTX whose kernels have the names that their source gives them, where no two have the same.

    Args:
        text: PTX.
        symbols: Of instances of template kernels, by the names that were asked for.
        name: Of the file, for messages.
    """
    own = {each.name for each in parse(text, name).entries}.difference(symbols.values())
    plain = {symbol: _plain_name(symbol) for symbol in own}
    often = Counter(plain.values())
    names = {symbol: each for symbol, each in plain.items() if often[each] == 1}
    names |= {symbol: instance_symbol(each) for each, symbol in symbols.items()}
    if not names:
        return text
    words = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.sub(rf"(?<![\w$])(?:{words})(?![\w$])|(?:{words})(?=_param_\d)", lambda found: names[found[0]], text)


def check_version(text: str, cuda: str, name: str) -> None:
    """Check that a driver reads a PTX text.

    Args:
        text: PTX.
        cuda: Version of CUDA that the driver offers, e.g. ``12.6``.
        name: Of the file, for messages.

    Raises:
        InputError: it is newer than the driver.
    """
    found = _VERSION.search(text)
    major, minor = map(int, cuda.split(".")[:2])
    newest = _NEWEST.get((major, minor), (major - 4, minor))
    if found is not None and (int(found[1]), int(found[2])) > newest:
        message = f"{name} is PTX {found[1]}.{found[2]}, and the driver, of CUDA {cuda}, reads {newest[0]}.{newest[1]}"
        wheel = "'edgetune[cuda12]'" if major == 12 else f"'nvidia-cuda-nvrtc=={major}.{minor}.*'"
        hint = f"compile it with the nvcc of the board, or with NVRTC of its CUDA: pip install {wheel}"
        raise InputError(message, hint)


def resources_of(text: str, arch: str, name: str) -> dict[str, Resources]:
    """Return what the kernels of a PTX text need on a GPU, by symbol, as nvJitLink assembles them.

    Args:
        text: PTX, elastic forms included.
        arch: E.g. ``sm_87``.
        name: Of the file, for messages.

    Raises:
        InputError: it does not assemble, or the compiler does not know the architecture.
        DeviceError: NVRTC or nvJitLink is missing.
    """
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError, OSError):  # it looks for the library when it is first called
        message = "the registers of PTX kernels are found by nvJitLink, which is not installed"
        raise DeviceError(message, REMEDY) from None
    compiler_for(arch)  # nvJitLink ends the process where it does not know an architecture
    words, data = [f"-arch={arch}", "-verbose"], text.encode("utf-8", "surrogateescape")
    linker = nvjitlink.create(len(words), words)
    try:
        with suppress(nvjitlink.nvJitLinkError):  # the log says why, and has no report of a kernel
            nvjitlink.add_data(linker, nvjitlink.InputType.PTX, data, len(data), "kernel.ptx")
            nvjitlink.complete(linker)
        logs = {kind: bytearray(getattr(nvjitlink, f"get_{kind}_log_size")(linker)) for kind in ("info", "error")}
        for kind, buffer in logs.items():
            if buffer:
                getattr(nvjitlink, f"get_{kind}_log")(linker, buffer)
    finally:
        nvjitlink.destroy(linker)
    report, failure = (bytes(each).rstrip(b"\0").decode(errors="surrogateescape") for each in logs.values())
    found = resources_in(report)
    if failure or not found:
        first = next((line for line in failure.splitlines() if "error" in line or "fatal" in line), failure[:200])
        raise InputError(f"{name} does not assemble for {arch}: {first}", "is it made for an older architecture?")
    return found

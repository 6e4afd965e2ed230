"""Compiles CUDA C to a program of this machine: g++, the shim's header before the source, a table of kernels behind it.

#line 1 "vadd.cu"                                so that messages have the numbers of the user's lines
__global__ void vadd(float *a, int n) { ... }    as written, but for `extern __shared__ T s[];`
const Entry entries[] = {entry<&vadd>("vadd")};  how the runtime finds it and unpacks its arguments
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic.shim.run import Built, Folder
from edgetune.stages.elastic.shim.variables import device_variables

FLAGS = (
    "-std=gnu++17",
    "-O2",
    "-g1",  # where an instruction comes from
    "-w",
    "-fno-pie",  # so that its address is that in the file
    "-U_FORTIFY_SOURCE",  # a fortified longjmp refuses to go to another stack
    "-ffp-contract=off",  # a*b+c is rounded twice in every form of a kernel, or equal bits could not be asked for
    "-fno-strict-aliasing",  # kernels read memory as other types, which CUDA compilers allow
    "-fwrapv",
    "-fno-finite-loops",  # a loop that never ends is kept, and found
    "-fno-exceptions",
    "-fno-builtin-printf",  # which becomes others: the runtime has its own
    "-fno-ipa-reference-addressable",  # static variables that nothing reads here are results all the same
)
_LINK_FLAGS = ("-no-pie",)
_LIMIT_S = 300
_TABLE = "table of kernels"
_HERE = Path(__file__).parent
_HEADER, _RUNTIME, _OBJECT = "cuda_shim.hpp", ("fibers.cpp", "program.cpp"), "runtime.o"

_ATTRIBUTE = r"\b(?:__align__|alignas|__launch_bounds__|__maxnreg__|__cluster_dims__)\s*\((?:[^()]|\([^()]*\))*\)"
_DYNAMIC = re.compile(
    rf"(?:\b__shared__\s+)?\bextern\b(?P<type>(?:{_ATTRIBUTE}|[^;{{}}()=\"])*?)"
    r"(?P<name>\b\w+)\s*\[\s*\](?P<rest>(?:\s*\[[^\];]*\])*)\s*;"
)
_ALIGNAS = r"alignas\s*\((?:[^()]|\([^()]*\))*\)"
_ALIGNED = re.compile(
    rf"(?P<before>(?:\b(?:static|const|volatile|__\w+__)\s+)+)(?P<align>{_ALIGNAS}(?:\s*{_ALIGNAS})*)"
)
"""Which C++ has in front of all other words of a declaration."""
_ASSEMBLY = re.compile(
    r"\b(?:asm|__asm|__asm__)\s*(?:volatile|__volatile__)?\s*\(\s*(?P<text>(?:\"[^\"\\]*\"\s*)+):"
    r"\s*\"=r\"\s*\((?P<result>\w+)\)\s*(?::(?P<given>[^:;]*))?\)\s*;"
)
_INSTRUCTIONS = {
    "mov.u32 %0, %%laneid": "edgetune_shim::lane_number()",
    "vabsdiff4.u32.u32.u32.add %0, %1, %2, %3": "edgetune_shim::differences_of_bytes({}, {}) + {}",
}
"""Of inline assembly."""
_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_TOKEN = re.compile(r"\bnamespace\b\s*(?P<space>[\w:]*)\s*\{|[{}]|\b__global__\b(?P<declared>[^;{]*)")
_LINE_MARK = re.compile(r'^# \d+ "[^\n]*"([ \d]*)\n', re.MULTILINE)
_ERROR = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.MULTILINE)

_ABSENT = re.compile(r": ((?!/|[^:]*\.\.)[^:]+): No such file")
_ASSEMBLER = re.compile(
    r":(?P<line>\d+):(?:\d+:)? "
    r"(?:Error: |error: .*(?:impossible constraint in .asm|invalid 'asm'|unknown register name))"
)
_ON_A_GPU = "check it on a GPU (--device nvidia:0), or as PTX, which an interpreter runs"
_NAME = "was not declared|has not been declared|does not name a type|is not a member of|no matching function"
_HINTS = (
    ("No such file", "include its folder with -I; of CUDA's own headers the CPU check has only the usual ones"),
    (
        rf".(cu(da|blas|fft|dnn)?[A-Z]\w*). ({_NAME})|<<|thrust",
        "the CPU check has no host API: keep kernels in a file of their own",
    ),
    (_NAME, f"the CPU check lacks it, or the file does not define it: define it there, or {_ON_A_GPU}"),
    ("", f"the CPU check compiles kernels by g++, as C++17: mend it, or {_ON_A_GPU}"),
)
"""What to do about an error of g++, by its text; the last is for all others."""


class NotCompiledError(InputError):
    """g++ refuses a source."""


def build(
    source: str, name: str = "kernel.cu", kernels: Sequence[str] | None = None, include: Sequence[Path] = ()
) -> Built:
    """Compile CUDA C for the CPU.

    Args:
        source: Kernels and what they need; no host code that launches them.
        name: Of the file, for messages.
        kernels: Their symbols; a template as it is launched, e.g. ``scale<4>``. ``None``: all ``__global__`` functions
            that are no templates.
        include: Folders of headers.

    Raises:
        NotCompiledError: g++ refuses the source; the message has the user's own line.
        InputError: it takes too long, or there is no room.
        DeviceError: there is no g++.
    """
    symbols = tuple(kernels) if kernels is not None else kernel_names(source)
    folder = Folder()
    text, program = folder.path / "source.cpp", folder.path / "program"
    text.write_text(_translated(source, Path(name).name, symbols), encoding="utf-8", errors="surrogateescape")
    _translate_headers(source, include, folder.path)
    runtime = _runtime()
    headers = [f"-I{path}" for path in (folder.path / "include", *include, _HERE / "include")]
    files = ["-include", str(_HERE / _HEADER), str(text), str(runtime.path / _OBJECT), "-o", str(program)]
    _compile_without_headers([*FLAGS, *headers, *files, *_LINK_FLAGS], Path(name).name, folder.path / "include")
    expanded = functools.partial(_expanded, text, [*headers, "-imacros", str(_HERE / _HEADER)])
    variables = device_variables(program, _code(source), expanded)
    text.unlink()
    return Built(Path(name).name, program, symbols, folder, variables)


def _expanded(text: Path, arguments: Sequence[str]) -> str:
    """Return a source with headers as the preprocessor leaves it, without those of the system."""
    made = text.with_suffix(".ii")
    _compile(["-E", *FLAGS, *arguments, str(text), "-o", str(made)], text.name)
    parts = _LINE_MARK.split(made.read_text(encoding="utf-8", errors="replace"))
    made.unlink()
    return "".join(part for flags, part in zip(parts[1::2], parts[2::2], strict=True) if "3" not in flags.split())


def kernel_names(source: str) -> tuple[str, ...]:
    """Return the kernels of a source that are no templates, in order."""
    return tuple(_qualified(source))


def _code(source: str) -> str:
    """Return a source without comments, directives and the contents of strings."""
    return _NOT_CODE.sub(lambda found: '""' if found[0][0] in "\"'" else " ", source)


def _qualified(source: str) -> dict[str, str]:
    """Return the kernels of a source that are no templates, each with its namespaces."""
    code = _code(source)
    names: dict[str, str] = {}
    scopes: list[str] = []
    for found in _TOKEN.finditer(code):
        if found[0] == "}":
            scopes = scopes[:-1]
        elif found[0].endswith("{"):
            scopes.append(found["space"] or "")
        else:
            before = re.sub(r'(?:\s|\bextern\b|\bstatic\b|\binline\b|"")*$', "", code[: found.start()])
            declared = re.search(r"(\w+)\s*\(", re.sub(_ATTRIBUTE, " ", found["declared"]))
            if declared and not before.endswith(">"):
                names[declared[1]] = "::".join([*filter(None, scopes), declared[1]])
    return names


def _translated(source: str, name: str, kernels: Sequence[str]) -> str:
    qualified = _qualified(source)
    entries = "".join(
        f"    edgetune_shim::entry<&::{qualified.get(kernel, kernel)}>({json.dumps(kernel, ensure_ascii=False)}),\n"
        for kernel in kernels
    )
    return (
        f"#line 1 {json.dumps(name, ensure_ascii=False)}\n{_adapted(source)}\n"
        f'#line 1 "{_TABLE}"\n'
        f"const edgetune_shim::Entry edgetune_shim::entries[] = {{\n{entries}    {{}}\n}};\n"
        f"const unsigned int edgetune_shim::entry_count = {len(kernels)};\n"
        f"const char *const edgetune_shim::source_name = {json.dumps(name, ensure_ascii=False)};\n"
    )


def _translate_headers(source: str, include: Sequence[Path], folder: Path) -> None:
    """Write headers to where the compiler looks first, if any has declarations that g++ takes in other words only."""
    found = _headers(source, include, {})
    if all(_adapted(text) == text for text in found.values()):
        return
    for wanted, text in found.items():
        copy = folder / "include" / wanted
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_adapted(text), encoding="utf-8", errors="surrogateescape")


def _headers(source: str, include: Sequence[Path], found: dict[str, str]) -> dict[str, str]:
    """Return the headers that a source includes from folders, and theirs, by the name by which they are included."""
    for wanted in _INCLUDE.findall(_COMMENT.sub(" ", source)):
        path = next((each / wanted for each in include if (each / wanted).is_file()), None)
        if path is not None and wanted not in found and ".." not in Path(wanted).parts:
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            found[wanted] = f"#line 1 {json.dumps(str(path), ensure_ascii=False)}\n{text}"
            _headers(text, [path.parent, *include], found)
    return found


def _adapted(text: str) -> str:
    """Return code with the declarations of shared memory that g++ takes, and instructions that the shim has."""
    return _ALIGNED.sub(r"\g<align> \g<before>", _DYNAMIC.sub(_dynamic, _ASSEMBLY.sub(_instruction, text)))


def _instruction(found: re.Match[str]) -> str:
    """Return an instruction as C++, on as many lines as before; as it is where the shim has none of its name."""
    instruction = " ".join("".join(re.findall(r'"([^"]*)"', found["text"])).split()).rstrip("; ")
    made = _INSTRUCTIONS.get(instruction)
    given = re.findall(r'"r"\s*\((\w+)\)', found["given"] or "")
    if made is None or len(given) != made.count("{}"):
        return found[0]
    lines = "\n" * found[0].count("\n")
    return f"{found['result']} = {made.format(*given)};{lines}"


def _dynamic(found: re.Match[str]) -> str:
    """Return dynamic shared memory as a pointer to the one array of the runtime, on as many lines as before."""
    if "__shared__" not in found[0]:
        return found[0]
    of = " ".join(re.sub(rf"{_ATTRIBUTE}|\b__shared__\b", " ", found["type"]).split())
    lines = "\n" * found[0].count("\n")
    pointer = f"({of} (*){found['rest'].strip()})edgetune_shim::dynamic_shared"
    return f"static auto *const {found['name']} = {pointer};{lines}"


@functools.cache
def _runtime() -> Folder:
    """Return the compiled runtime, which is the same for all sources and is made once in a process."""
    folder = Folder()
    files = [str(_HERE / file) for file in _RUNTIME]
    _compile([*FLAGS, "-r", *files, "-o", str(folder.path / _OBJECT)], "the runtime of the CPU shim")
    return folder


def run_compiler(arguments: Sequence[str], name: str) -> str | None:
    """Run g++; return what it wrote where it failed, ``None`` where it did not.

    Args:
        arguments: Of g++.
        name: Of what is compiled, for messages.

    Raises:
        InputError: it takes too long.
        DeviceError: there is no g++.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise DeviceError("the CPU shim needs g++, which is not installed", "install it, e.g. `apt install g++`")
    try:
        done = subprocess.run(
            [compiler, *arguments], capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"g++ did not compile {name} within {_LIMIT_S} s", "give the shim a smaller file") from None
    return None if done.returncode == 0 else done.stderr or f"exit status {done.returncode}"


def _compile_without_headers(arguments: Sequence[str], name: str, folder: Path) -> None:
    """Compile; headers that are nowhere are empty, as kernels may not need what host code beside them does."""
    first: NotCompiledError | None = None
    while True:
        try:
            return _compile(arguments, name)
        except NotCompiledError as error:
            first = first or error
            absent = _ABSENT.search(error.message)
            if absent is None or (folder / absent[1]).exists():
                raise first from None
            (folder / absent[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / absent[1]).touch()


def _compile(arguments: Sequence[str], name: str) -> None:
    written = run_compiler(arguments, name)
    if written is None:
        return
    found = list(_ERROR.finditer(written))
    first = next((error for error in found if error["file"] == name), found[0] if found else None)
    if (wrong := _ASSEMBLER.search(written)) is not None:
        raise NotCompiledError(f"{name}:{wrong['line']}: the CPU cannot run inline assembly of GPUs", _ON_A_GPU)
    if first is None:
        said = written.strip().splitlines()
        missing = next((line for line in said if "undefined reference" in line), None)
        if missing is not None:
            what = missing[missing.index("undefined reference") :]
            hint = "define all that kernels use in one file, and write `extern __shared__` without macros"
            raise NotCompiledError(f"{name}: {what}", hint)
        raise InputError(f"g++ cannot build {name}: {said[-1]}", "see whether g++ works and the disk has room")
    if first["file"] == _TABLE:
        missed = f"{name}: a kernel is missing after compilation: {first['text']}"
        raise NotCompiledError(
            missed, "is it inside an #if whose condition is false? #define what the condition needs at the top"
        )
    hint = next(hint for sign, hint in _HINTS if re.search(sign, first["text"]))
    raise NotCompiledError(f"{first['file']}:{first['line']}: {first['text']}", hint)

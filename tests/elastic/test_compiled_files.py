"""Compiled kernels kept in files: found again by all that they depend on, and nothing else taken for them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.errors import InputError
from edgetune.stages.elastic import compiler
from edgetune.stages.elastic.compiler import MOST_FILES, CompileOptions, file_of, ptx_of, read, write

PLAIN = '#include <stdint.h>\nextern "C" __global__ void k(float *a) { a[threadIdx.x] = a[0] * 2.0f + 1.0f; }\n'
WORDS = ["--gpu-architecture=sm_87"]


@pytest.fixture
def compilings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources that were really compiled."""
    found: list[str] = []
    real = compiler._compiled

    def counted(nvrtc, source, *more):
        found.append(source)
        return real(nvrtc, source, *more)

    monkeypatch.setattr(compiler, "_compiled", counted)
    return found


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.compiled"))


def test_a_kept_kernel_is_not_compiled_again(tmp_path, compilings) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    first = ptx_of(PLAIN, "sm_87", name="k.cu", options=CompileOptions(cache=folder))
    assert len(compilings) == 1
    assert ptx_of(PLAIN, "sm_87", name="k.cu", options=CompileOptions(cache=folder)) == first
    assert len(compilings) == 1
    assert first == ptx_of(PLAIN, "sm_87", name="k.cu"), "and without a folder"
    assert len(compilings) == 2


def test_instances_are_part_of_what_it_is_found_by_and_their_symbols_are_kept(tmp_path, compilings) -> None:
    text = "template <int N> __global__ void k(float *a) { a[0] = N; }\n"
    for instances in (["k<3>"], ["k<3>"], ["k<4>"]):
        made, symbols = ptx_of(text, "sm_87", name="k.cu", options=CompileOptions(cache=tmp_path), instances=instances)
        assert list(symbols) == instances
        assert f".entry {symbols[instances[0]]}(" in made
    assert len(compilings) == 2


@pytest.mark.parametrize(
    ("source", "arch", "name", "options"),
    [
        (PLAIN + " ", "sm_87", "k.cu", CompileOptions()),
        (PLAIN, "sm_90", "k.cu", CompileOptions()),
        (PLAIN, "sm_87", "other.cu", CompileOptions()),
        (PLAIN, "sm_87", "k.cu", CompileOptions(fmad=False)),
        (PLAIN, "sm_87", "k.cu", CompileOptions(define=("N=1",))),
    ],
)
def test_any_difference_is_compiled_anew(tmp_path, source, arch, name, options) -> None:
    ptx_of(PLAIN, "sm_87", name="k.cu", options=CompileOptions(cache=tmp_path))
    made, _ = ptx_of(source, arch, name=name, options=replace(options, cache=tmp_path))
    assert f".target {arch}" in made
    assert len(kept(tmp_path)) == 2


def test_versions_are_part_of_what_it_is_found_by(tmp_path, monkeypatch) -> None:
    files = {file_of(tmp_path, PLAIN, "k.cu", WORDS, version) for version in ("NVRTC 12.9", "NVRTC 13.0")}
    monkeypatch.setattr(compiler, "__version__", "another")
    files.add(file_of(tmp_path, PLAIN, "k.cu", WORDS, "NVRTC 13.0"))
    monkeypatch.setattr(compiler, "STAND_INS", {"math.h": "changed"})
    files.add(file_of(tmp_path, PLAIN, "k.cu", WORDS, "NVRTC 13.0"))
    assert len(files) == 4
    assert None not in files


@pytest.mark.parametrize(
    "text",
    [
        '#include "mine.h"', "#include <cuda_fp16.h>", "#include NAME", '# /* of\nmine */ include "mine.h"',
        '%:include "mine.h"', '??=include "mine.h"', '#inc\\\nlude "mine.h"', '#import "mine.h"',
        "#include_next <math.h>",
        '#include <math.h> /* */\n#include "math.h.mine"', '#if __has_include("mine.h")\n#endif',
    ],
)  # fmt: skip
def test_headers_that_may_change_are_read_each_time(tmp_path, text) -> None:
    assert file_of(tmp_path, f"{text}\n{PLAIN}", "k.cu", WORDS, "NVRTC 13.0") is None


@pytest.mark.parametrize(
    "text", ["", "// does not include the border", '#include <math.h>\n#  include "stdint.h"  // why', "#if 1\n#endif"]
)
def test_headers_that_are_always_the_same_do_not_matter(tmp_path, text) -> None:
    assert file_of(tmp_path, f"{text}\n{PLAIN}", "k.cu", WORDS, "NVRTC 13.0") is not None


def test_headers_of_a_folder_do_not_stand_in_for_those_that_are_given(tmp_path) -> None:
    """On which it rests that a source which includes only those is whole."""
    (tmp_path / "stdint.h").write_text("#error of the folder\n")
    (tmp_path / "cmath").write_text("#error of the folder\n")
    ptx_of(PLAIN, "sm_87", name=str(tmp_path / "k.cu"), options=CompileOptions(include=(str(tmp_path),)))


def test_a_changed_header_is_seen(tmp_path) -> None:
    text = '#include "size.h"\nextern "C" __global__ void k(int *a) { __shared__ int b[SIZE]; b[*a] = 1; *a = b[0]; }'
    for size in (16, 32):
        (tmp_path / "size.h").write_text(f"#define SIZE {size}\n")
        options = CompileOptions(include=(str(tmp_path),), cache=tmp_path / "kept")
        made, _ = ptx_of(text, "sm_87", name="k.cu", options=options)
        assert f"[{4 * size}]" in made


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"", lambda data: b"short", lambda data: data[:-1], lambda data: data + b"\0",
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], lambda data: b"\x80\x04N." * 20,
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_file_is_written_anew(tmp_path, compilings, damage) -> None:
    wanted = ptx_of(PLAIN, "sm_87", name="k.cu", options=CompileOptions(cache=tmp_path))
    (file,) = kept(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert read(file) is None
    compilings.clear()
    assert ptx_of(PLAIN, "sm_87", name="k.cu", options=CompileOptions(cache=tmp_path)) == wanted
    assert compilings
    assert read(file) == wanted


def test_a_failed_write_is_no_error(tmp_path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert ".entry k(" in ptx_of(PLAIN, "sm_87", name="k.cu", options=CompileOptions(cache=tmp_path / "file"))[0]
    file = file_of(tmp_path, PLAIN, "k.cu", WORDS, "NVRTC 13.0")
    assert file is not None
    file.mkdir()
    write(file, "text", {})
    assert read(file) is None


def test_a_failed_compilation_is_not_kept(tmp_path) -> None:
    with pytest.raises(InputError):
        ptx_of(PLAIN + "nonsense", "sm_87", name="k.cu", options=CompileOptions(cache=tmp_path))
    assert kept(tmp_path) == []


def test_only_the_least_recently_used_files_are_removed(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("of somebody")
    (tmp_path / "mine.compiled").write_text("of somebody")
    files = [tmp_path / f"{number:064x}.compiled" for number in range(MOST_FILES)]
    for age, file in enumerate(files):
        write(file, f"text {age}", {})
        os.utime(file, ns=(age * 10**9, age * 10**9))
    assert read(files[0]) == ("text 0", {}), "which makes it the newest"
    write(tmp_path / f"{'f' * 64}.compiled", "text", {})
    assert [file.exists() for file in files[:3]] == [True, False, True]
    assert len(list(tmp_path.iterdir())) == MOST_FILES + 2

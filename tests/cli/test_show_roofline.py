"""``edgetune show`` of rooflines."""

import json
from pathlib import Path

import pytest

_GOLDEN = Path(__file__).parents[1] / "golden" / "roofline-v1.yaml"


def test_peaks_energy_and_where_they_come_from(edgetune):
    ended = edgetune("show", str(_GOLDEN))
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("SIMULATED")
    begin = lines.index("twin:orin-agx, 12 cores, CPU 2201.6 MHz, 3 kernels measured at 2 modes")
    full, low, *sentences = lines[begin + 2 :]
    assert all(sentence.startswith("fp32: ") for sentence in sentences)
    wanted = "1300.5 3199 fp32 14.7 TFLOP/s 164 GB/s 89.42 17.9 W 3.86 +-0.05 141.4 +-2.5 1.2% measured"
    assert " ".join(full.split()) == wanted
    assert " ".join(low.split()) == "726.75 2133 fp32 8.50 TFLOP/s 104 GB/s 81.81 - - - - inferred"


def test_for_machines(edgetune):
    found = json.loads(edgetune("show", str(_GOLDEN), "--json").out)
    assert (found["header"]["kind"], found["roofs"][0]["flop_j"], len(found["runs"])) == ("roofline", 3.86e-12, 3)


@pytest.mark.parametrize("name", ["figure.svg"])
def test_a_roofline_is_drawn(edgetune, tmp_path, name):
    ended = edgetune("show", str(_GOLDEN), "--plot", str(tmp_path / name))
    assert (ended.code, ended.err) == (0, f"wrote {tmp_path / name}\n")
    assert (tmp_path / name).read_text(encoding="utf-8").rstrip().endswith(("</svg>", "</html>"))

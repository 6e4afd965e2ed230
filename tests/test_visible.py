"""Text from outside as a terminal may show it."""

import json
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.yaml_document import dump_yaml
from edgetune.visible import is_visible, one_line, visible, visible_in_json

ORDINARY = [
    "resnet-50 v1.5 (fp16), 3.2 ms ± 1 %",
    "日本語のモデル",
    "модель",
    "नेटवर्क",
    "mạng nơ-ron",
    "שרת",
    "شبكة",
    "µs °C … ×",
    "e\u0301",
    "\U0001f680",
    r"C:\models\x1b.onnx",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_letters_of_every_script_stay(text):
    assert visible(text) == text
    assert is_visible(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;t\x07", r"\x1b]0;t\x07"),
        ("a\r\n\tb\x08\x7f", r"a\r\n\tb\x08\x7f"),
        ("\x9b2J\x85\xa0\xad", r"\u009b2J\u0085\u00a0\u00ad"),
        ("\u202egnp\u2066\u200e", r"\u202egnp\u2066\u200e"),
        ("\u200b\u200d\ufeff\u2060\u3164\ufe0f", r"\u200b\u200d\ufeff\u2060\u3164\ufe0f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\U000e0041\ue000\U0010ffff", r"\U000e0041\ue000\U0010ffff"),
        (b"m-\xff\x9b".decode(errors="surrogateescape"), r"m-\xff\x9b"),
        ("\ud800", r"\ud800"),
    ],
)
def test_invisible_characters_become_escapes(text, shown):
    assert visible(text) == shown
    assert not is_visible(text)


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_that_is_shown_steers_and_showing_it_again_changes_nothing(text):
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    assert one_line(text, 50).isprintable()
    assert len(one_line(text, 50)) <= 53


def test_every_character_is_either_itself_or_an_escape():
    for code in (*range(0x3000), *range(0x3000, sys.maxunicode, 997), *range(0xFE00, 0x10000)):
        letter = chr(code)
        assert visible(letter) == letter or (visible(letter).isascii() and visible(letter).startswith("\\"))


def test_marks_without_end_do_not_paint_over_other_lines():
    shown = visible("e" + "\u0301" * 10_000)
    assert shown.startswith("e" + "\u0301" * 8 + r"\u0301")
    assert "\u0301" * 9 not in shown
    assert len(one_line("e" + "\u0301" * 10_000)) < 1100


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_documents_are_visible_and_mean_the_same(text):
    data = {f"k{text}": [text, {"inner": text}]}
    document = visible_in_json(json.dumps(data, ensure_ascii=False, indent=2))
    assert document.replace("\n", "").isprintable()
    assert json.loads(document) == data
    written = dump_yaml(data)
    assert written.replace("\n", "").isprintable()
    assert yaml.safe_load(written) == data


def test_bytes_that_are_not_utf8_are_text_in_documents():
    name = b"plan-\xfe.yaml".decode(errors="surrogateescape")
    assert json.loads(visible_in_json(json.dumps([name], ensure_ascii=False))) == [r"plan-\xfe.yaml"]
    assert yaml.safe_load(dump_yaml({"file": name})) == {"file": r"plan-\xfe.yaml"}

"""The report in Chromium: what a person does with a mouse, with a keyboard, with a screen reader, and on paper."""

import os
import re
from pathlib import Path

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.workflows.report.report import write_page

pytestmark = pytest.mark.browser


def sweep(page):
    """The section of the sweep."""
    return page.locator("section", has=page.locator("h2", has_text="sweep.parquet"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_checker_of_accessibility_finds_nothing_serious(opened, story, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(story, color_scheme=scheme)
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_pointing_at_a_mark_reads_its_row_and_lights_it(opened, story):
    page = opened(story)
    marks = sweep(page).locator(".point")
    assert marks.count() > 400
    marks.nth(200).dispatch_event("mouseover")  # other marks may lie on it
    words = page.locator("#tip").inner_text()
    assert "minibatch: " in words
    assert "power: " in words
    key = marks.nth(200).get_attribute("data-key")
    assert page.locator(f"tr[data-key='{key}']").first.evaluate("row => row.classList.contains('on')")
    page.keyboard.press("Escape")
    assert page.locator("#tip").inner_text() == ""


def test_a_click_on_a_mark_leads_to_its_row(opened, story):
    page = opened(story)
    mark = sweep(page).locator(".point").nth(10)
    mark.dispatch_event("click")
    row = page.locator(f"tr[data-key='{mark.get_attribute('data-key')}']").last
    assert row.is_visible()


def test_the_keyboard_walks_from_mark_to_mark(opened, story):
    page = opened(story)
    first = sweep(page).locator(".point").first
    first.focus()
    before = page.locator("#tip").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text() not in ("", before)
    assert sweep(page).locator("svg [tabindex='0']").count() == 1


def test_tables_are_sorted_and_filtered(opened, story):
    page = opened(story)
    section = sweep(page)
    section.locator("summary").first.click()
    table = section.locator("table").first
    button = table.locator("th", has_text="minibatch").locator("button")
    column = table.evaluate("t => [...t.rows[0].cells].findIndex(c => c.textContent == 'minibatch')")
    values = f"t => [...t.tBodies[0].rows].map(row => +row.cells[{column}].dataset.value)"
    button.click()
    up = table.evaluate(values)
    assert up == sorted(up)
    button.press("Enter")
    assert table.evaluate(values) == sorted(up, reverse=True)
    assert table.locator("th[aria-sort='descending']").count() == 1
    section.locator("input[type=search]").first.fill("1300.5 3199")
    shown = table.evaluate("t => [...t.tBodies[0].rows].filter(row => !row.hidden).map(row => row.textContent)")
    assert 0 < len(shown) < 441
    assert all("1300.5" in text and "3199" in text for text in shown)


def test_time_is_zoomed_into_and_back(opened, story):
    page = opened(story)
    figure = page.locator("figure.zooms").first
    data = figure.locator(".data").first
    plain = figure.locator("svg").screenshot()
    figure.get_by_label("Zoom in").click()
    assert float(re.search(r"scale\((\S+) 1\)", data.get_attribute("transform"))[1]) == pytest.approx(2)
    assert figure.locator("text.new-tick").count() > 2
    figure.get_by_label("Later").press("Enter")
    assert data.get_attribute("transform").startswith("translate(-")
    figure.get_by_label("Show the whole run").click()
    page.mouse.move(0, 0)
    assert figure.locator("svg").screenshot() == plain


def test_the_command_that_applies_the_plan_is_copied(opened, story):
    page = opened(story, permissions=["clipboard-read", "clipboard-write"])
    page.locator("button.copy").first.click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("edgetune device ")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_but_tables_and_figures_is_wider_than_the_screen(opened, story, width):
    page = opened(story, viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("EDGETUNE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"report-{width}.png", full_page=True)


def test_the_page_is_printed(opened, story):
    printed = opened(story).pdf()
    assert printed.startswith(b"%PDF")
    if folder := os.environ.get("EDGETUNE_SCREENSHOTS"):
        (Path(folder) / "report.pdf").write_bytes(printed)


HOSTILE = [
    "<script>document.title = 'run'</script>",
    "\"'><img src=x onerror=\"document.title='run'\">",
    "a\u202eb\u2066c",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text(opened, tmp_path, name):
    rows = tuple(
        ProfileRow(name, "infer", 1, device=name, gpu_mhz=mhz, minibatch_s=0.1, power_w=9.0) for mhz in (1.0, 2.0)
    )
    table = Profile(Header("profile", 2, "", "", {"workload": {"name": name}}, {"device": name}), rows)
    page = opened(write_page([table], tmp_path / "r.html"))
    assert page.title() != "run"
    assert page.locator("img, section script").count() == 0
    text = page.locator("body").inner_text()
    assert "\u202e" not in text
    assert "\u2066" not in text


@pytest.mark.parametrize("points", [0, 1, 3000])
def test_few_and_many_points(opened, tmp_path, points):
    rows = tuple(
        ProfileRow("net", "infer", 1, device="d", gpu_mhz=float(k + 1), minibatch_s=0.1 + k / 1e4, power_w=20 - k / 200)
        for k in range(points)
    )
    path = io.write(Profile(Header("profile", 2, "", "", {}, {"device": "d"}), rows), tmp_path / "t.parquet")
    page = opened(write_page([io.read_any(str(path), {})], tmp_path / "r.html"))
    assert page.locator("h2").count() == 2

"""A real browser on pages made from real artifacts; run by ``tests/run.sh --browser``."""

import os
import shutil
from pathlib import Path

import pytest

from edgetune.cli.main import run

GOLDEN = Path(__file__).parents[1] / "golden"
JOBS = Path(__file__).parents[2] / "examples" / "memory-jobs.yaml"


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: tests/run.sh --browser")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs Debian's chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class OpenPage:
    """A page in the browser, with all that it logged and asked for.

    Attributes:
        page: Playwright's page.
        complaints: Messages on its console, and errors.
        requests: Addresses that it asked for, without its own.
    """

    def __init__(self, chromium, path, **options):
        self.context = chromium.new_context(**options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(Path(path).as_uri())
        assert self.requests.pop(0) == Path(path).as_uri()

    def finish(self):
        """Close the page, which has neither complained nor asked for anything."""
        self.context.close()
        assert self.complaints == []
        assert self.requests == []


@pytest.fixture
def opened(chromium):
    pages = []

    def open_page(path, **options):
        pages.append(OpenPage(chromium, path, **options))
        return pages[-1].page

    yield open_page
    for page in pages:
        page.finish()


@pytest.fixture(scope="session")
def story(tmp_path_factory):
    """The page of a sweep, a plan, its trace, a run and a timeline, all simulated, and of every golden file."""
    folder = tmp_path_factory.mktemp("story")
    old = Path.cwd()
    os.chdir(folder)
    try:
        twin = ("--device", "twin:orin-agx", "--quiet")
        for words in (
            ("profile", "zoo:resnet18", "--task", "train", "--batch-sizes", "16", "--modes", "grid:441", *twin,
             "-o", "sweep.parquet"),
            ("search", "sweep.parquet", "--power-budget", "30W", "--strategy", "roofline", "-o", "plan.yaml",
             "--trace", "trace.parquet", "--quiet"),
            ("interleave", "plan.yaml", "--infer", "zoo:mobilenet_v2", "--arrivals", "uniform:40", "--latency-budget",
             "300ms", "--duration", "20s", *twin, "-o", "run.parquet"),
            ("schedule", "run", str(JOBS), "--simulate", "--policy", "linear,reuse", "-o", "timeline.parquet",
             "--quiet"),
            ("report", "sweep.parquet", "plan.yaml", "trace.parquet", "run.parquet", "timeline.parquet", str(GOLDEN),
             "-o", "report.html"),
        ):  # fmt: skip
            assert run(words) == 0, words
    finally:
        os.chdir(old)
    return folder / "report.html"

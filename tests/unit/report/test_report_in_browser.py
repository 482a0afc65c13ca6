"""The pages in headless Chromium, opened from disk and used with mouse and keyboard as a reader would."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codesign.arch.presets import load_preset
from codesign.core.goals import Budget
from codesign.evaluation.network import EvaluationOptions
from codesign.evaluation.whole_network import NetworkResult, map_network
from codesign.mappers.registry import create
from codesign.report.compare import compare
from codesign.report.compare_files import write_comparison
from codesign.report.network_page import write_network_page
from codesign.report.sensitivity import analyse, write_sensitivity
from codesign.report.study_page import write_report
from codesign.study.study import Study
from codesign.workloads.load import load_network
from tests.command_line import run
from tests.needed import find_browser

CHROMIUM = find_browser()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome binary on the PATH to open the page in")


class Browser:
    """Headless Chromium, driven by the DevTools protocol over a pipe: JSON messages that end with a zero byte."""

    def __init__(self, profile: Path) -> None:
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        options += [f"--user-data-dir={profile}", "--window-size=1300,1000", "about:blank"]
        # the protocol's pipe is file descriptors 3 (in) and 4 (out) of the browser; copies above them survive the first dup2
        wrapper = (
            "import fcntl, os, sys; r, w = (fcntl.fcntl(int(v), fcntl.F_DUPFD, 10) for v in sys.argv[1:3]); "
            "os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", wrapper, str(read_commands), str(write_answers), str(CHROMIUM), *options],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that arrive meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._answers, 1 << 16)
            assert chunk, "the browser has gone"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path) -> None:
        """Load a page from disk and wait until its scripts have drawn it."""
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        for _ in range(100):
            if self.run("document.body && document.body.dataset.ready") == "yes":
                return
            time.sleep(0.1)
        raise AssertionError(f"{page} is not drawn: {self.complaints()}")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def place(self, selector: str, index: int = 0) -> tuple[float, float]:
        """The middle of an element, scrolled into view."""
        found = f"document.querySelectorAll({json.dumps(selector)})[{index}]"
        assert self.run(f"Boolean({found})"), selector
        self.run(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.run(f"(r => [r.left + r.width / 2, r.top + r.height / 2])({found}.getBoundingClientRect())")
        return box[0], box[1]

    def mouse(self, kind: str, x: float, y: float) -> None:
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def hover(self, selector: str, index: int = 0) -> str:
        """Put the mouse on an element; returns the tooltip's text."""
        x, y = self.place(selector, index)
        self.mouse("mouseMoved", x, y)
        return str(self.run("tip.style.display === 'block' ? tip.innerText : ''"))

    def click(self, selector: str, index: int = 0) -> None:
        x, y = self.place(selector, index)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def drag(self, selector: str, dx: float, dy: float) -> None:
        x, y = self.place(selector)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseMoved", x + dx, y + dy)
        self.mouse("mouseReleased", x + dx, y + dy)

    def type(self, selector: str, text: str) -> None:
        self.click(selector)
        self.run(
            f"(e => e.setSelectionRange(e.value.length, e.value.length))(document.querySelector({json.dumps(selector)}))"
        )
        self.call("Input.insertText", text=text)

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        return list(self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"))

    def complaints(self) -> list[Any]:
        """Exceptions, logged errors, and requests that leave the file."""
        found: list[Any] = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"])
            elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(parameters["entry"])
            elif event.get("method") == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                found += [] if url.startswith(("file:", "data:")) else [url]
        return found

    def close(self) -> None:
        os.close(self._commands)
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._answers)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def page(browser: Browser, study_folder: Path, tmp_path: Path) -> Iterator[Browser]:
    browser.open(write_report(Study.open(study_folder), path=tmp_path / "report.html"))
    yield browser
    assert browser.complaints() == []


def test_the_answer_stands_on_top(page: Browser) -> None:
    answer = page.text("#summary")
    assert answer.startswith("Build this one. Trial ")
    for part in (
        "nearest to the best of every objective at once",
        "Its time is bound",
        "fastest",
        "most efficient",
        "smallest",
        "proven optimal",
    ):
        assert part in answer


def test_a_recommended_design_is_one_click_away(page: Browser) -> None:
    roles = page.texts("#recommended tbody td:first-child b")
    assert "best balance" in roles[0] and "fastest" in " ".join(roles)
    number = page.run("DATA.recommended[1].trial")
    page.click("#recommended tbody tr:nth-child(2) a")
    assert page.text("#chosen-title").startswith(f"Design of trial {number}")
    assert page.text("#jump button.on") == page.run("DATA.recommended[1].roles.join(', ')")


def test_on_a_narrow_screen_nothing_is_wider_than_it(page: Browser) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=400, height=900, deviceScaleFactor=1, mobile=True)
    try:
        assert page.run("document.documentElement.scrollWidth") == 400
        assert page.run("getComputedStyle(document.querySelector('#recommended td')).display") == "block"
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


def test_hovering_a_design_shows_its_parameters(page: Browser) -> None:
    for chart in ("#fronts figure:nth-child(1)", "#fronts .scene"):
        shown = page.hover(f"{chart} .dot")
        assert "trial" in shown and "latency" in shown and "pe rows" in shown and "dataflow" in shown


def test_clicking_a_dot_chooses_the_design_everywhere(page: Browser) -> None:
    number = page.run("onFront.find(t => t.number !== chosen).number")
    page.click(f'#fronts figure:nth-child(2) .dot[data-trial="{number}"]')
    assert page.text("#chosen-title").startswith(f"Design of trial {number}")
    assert page.run("document.querySelector('#table tr.chosen').dataset.trial") == str(number)
    assert page.run("document.querySelectorAll('#drawing rect').length") > 5
    page.click("#jump button")
    assert page.text("#chosen-title").endswith("the recommended one")


def test_the_three_dimensional_front_turns(page: Browser) -> None:
    before = page.run("[...document.querySelectorAll('.scene .dot')].map(d => d.getAttribute('cx')).sort().join()")
    page.drag("#fronts .scene", 120, 30)
    after = page.run("[...document.querySelectorAll('.scene .dot')].map(d => d.getAttribute('cx')).sort().join()")
    assert before != after


def test_the_table_sorts_and_filters(page: Browser) -> None:
    page.run("(w => { w.value = 'all'; w.onchange(); })(document.querySelector('#which'))")
    assert len(page.texts("#table tbody tr")) == 12
    page.click('#table th[data-key="pe_rows"]')
    column = page.run("COLUMNS.indexOf('pe_rows')") + 1
    rows = [int(v) for v in page.texts(f"#table tbody td:nth-child({column})")]
    assert rows == sorted(rows) and len(set(rows)) > 1
    page.click('#table th[data-key="pe_rows"]')
    assert [int(v) for v in page.texts(f"#table tbody td:nth-child({column})")] == sorted(rows, reverse=True)
    page.type("#filter", "pe_rows >= 16 and latency < 20ms")
    kept = page.run("DATA.trials.filter(t => t.point.pe_rows >= 16 && t.metrics.latency_s < 0.02).map(t => t.number)")
    shown = page.run("[...document.querySelectorAll('#table tbody tr')].map(r => Number(r.dataset.trial))")
    assert sorted(shown) == sorted(kept) and 0 < len(kept) < 12
    page.type("#filter", " and speed > 3")
    assert "no column speed" in page.text("#filter-note")
    page.click("#table tbody tr", len(kept))
    assert page.text("#chosen-title").startswith("Design of trial ")


def test_every_design_says_its_cycles_under_all_models(page: Browser) -> None:
    heads = page.texts("#table thead th")
    assert {"analytical cycles", "generated cycles", "simulated cycles"} <= {h.rstrip(" ▲▼*") for h in heads}
    page.run("(w => { w.value = 'valid'; w.onchange(); })(document.querySelector('#which'))")
    column = page.run("COLUMNS.indexOf('generated cycles')") + 1
    shown = page.texts(f"#table tbody td:nth-child({column})")
    assert shown and all(any(c.isdigit() for c in text) for text in shown)
    assert "Cycles: analytical, generated, simulated" in page.text("#work") and "not built" in page.text("#work")


def test_hypervolume_is_shown_against_trials_and_time(page: Browser) -> None:
    by_trials = page.text("#curve")
    page.click('input[value="time"]')
    assert "time since the start" in page.text("#curve") and "time since the start" not in by_trials


def test_selecting_on_an_axis_greys_the_other_designs(page: Browser) -> None:
    grey = (
        "[...document.querySelectorAll('#parallel .design')].filter(d => d.getAttribute('stroke') === '#e9ecf2').length"
    )
    assert page.run(grey) == 0
    page.drag('#parallel rect[data-axis="banks"]', 0, 120)
    assert page.run(grey) > 0
    page.click('#parallel rect[data-axis="banks"]')
    assert page.run(grey) == 0


def test_the_chosen_design_shows_what_bounds_it_and_its_loop_nests(page: Browser) -> None:
    work = page.text("#work")
    for part in ("what bounds it", "of the time", "Roofline", "MACs per byte of DRAM", "Energy of the heaviest layers"):
        assert part in work
    assert "cycles in which each is busy" in page.hover("#work .bar rect:nth-child(2)", 0)
    assert "parallel for" in page.text("#work details[open] pre")
    page.click("#work details:not([open]) summary")
    assert page.run("document.querySelectorAll('#work details[open]').length") == 2
    for part in ("DRAM", "Scratchpad", "Local", "PEs", "one PE", "MAC, 8 bits"):
        assert part in page.text("#drawing")
    assert "leakage" in page.text("#energy") and "MAC units" in page.text("#area")


def test_designs_that_do_not_count_are_shown_by_reason(page: Browser) -> None:
    broken = page.run("DATA.trials.filter(t => !t.valid).length")
    assert broken > 0 and f"{broken} × constraint power_w<=0.6" in page.text("#infeasible")


def test_a_front_of_two_and_of_four_objectives_is_drawn(browser: Browser, study_folder: Path, tmp_path: Path) -> None:
    for objectives, figures in ((["latency_s", "area_mm2"], 1), (["latency_s", "energy_j", "area_mm2", "power_w"], 8)):
        study = Study.open(study_folder)
        study.config["objectives"] = objectives
        browser.open(write_report(study, path=tmp_path / "other.html"))
        assert browser.run("document.querySelectorAll('#fronts svg').length") == figures
        assert browser.complaints() == []


def test_infeasible_designs_show_their_reason_on_hover(browser: Browser, study_folder: Path, tmp_path: Path) -> None:
    study = Study.open(study_folder)
    reason = {"resource": "capacity of level 'Local'", "demand": 3.0, "limit": 2.0, "unit": "bytes", "detail": "conv1"}
    study.trials[2] = replace(study.trials[2], metrics={}, infeasible={"status": "infeasible", **reason})
    browser.open(write_report(study, path=tmp_path / "infeasible.html"))
    assert "1 × capacity of level 'Local'" in browser.text("#infeasible")
    texts = browser.texts("#infeasible svg g")
    shown = browser.hover("#infeasible svg g", next(i for i, text in enumerate(texts) if "capacity" in text))
    assert "trial 2: needs 3 bytes, has 2 (conv1)" in shown
    assert browser.complaints() == []


def test_whole_network_schedules_are_drawn(
    browser: Browser, study_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Study.detail
    schedule = {
        "name": "alexnet", "weight": 1.0, "gap": None, "latency_cycles": 1000, "energy_pj": 5e9, "dram_bytes": 65536,
        "peak_buffer_bytes": 32768, "bound_cycles": 900, "compute_cycles": 800, "channel_cycles": 500, "utilisation": 0.5,
        "lgs": 1, "flgs": 2, "tiles": 3,
    }  # fmt: skip
    monkeypatch.setattr(
        Study, "detail", lambda self, n: {"networks": [schedule], "architecture": full(self, n)["architecture"]}
    )
    browser.open(write_report(Study.open(study_folder), path=tmp_path / "scheduled.html"))
    work = browser.text("#work")
    assert "64 KiB" in work and "1 / 2 / 3" in work and "DRAM channel busy" in work
    assert browser.run("document.querySelector('#energy').parentElement.style.display") == "none"
    assert browser.complaints() == []


def test_a_front_of_systems_shows_simulated_cycles_and_pictures(browser: Browser, tmp_path: Path) -> None:
    space = {"name": "pair", "system": "gemini-72t", "parameters": {"dies": [1, 2]},
             "set": {"width": 2, "height": 2, "dies.x": "dies", "memories.controllers": 2}}  # fmt: skip
    (tmp_path / "space.yaml").write_text(json.dumps({"space": space}))
    done = run("explore", "--network", "squeezenet", "--scheduler", "segments", "--space", tmp_path / "space.yaml", "--trials", "2",
               "--optimizer", "exact", "--timing", "event", "--evaluations", "10", "--out", tmp_path / "run")  # fmt: skip
    assert done.code == 0, done.err
    (first, *_) = json.loads((tmp_path / "run" / "contention.json").read_text())["front"]
    browser.open(tmp_path / "run" / "report.html")
    work = browser.text("#work")
    assert "gap to the bound" in work and "still on the front" in work and "above a bound" in browser.text("body")
    cycles = f"{first['latency_cycles']:.0f}"
    assert cycles in re.sub(r"(?<=\d)\s(?=\d)", "", work)
    assert browser.run("document.querySelector('iframe').src").endswith("-squeezenet.html")
    assert browser.complaints() == []


def test_the_comparison_is_drawn(browser: Browser, study_folders: list[Path], tmp_path: Path) -> None:
    browser.open(write_comparison(compare([Study.open(f) for f in study_folders]), tmp_path / "compare.html"))
    assert " ends highest: median hypervolume " in browser.text("#answer")
    assert "Mann–Whitney" in browser.text("#tests") and " over " in browser.text("#tests tbody")
    assert "quartiles" in browser.hover("#curves circle", 5)
    browser.open(write_comparison(compare([Study.open(study_folders[0])]), tmp_path / "alone.html"))
    assert "needs at least two optimisers" in browser.text("#tests-note")
    assert browser.run("document.getElementById('tests').offsetHeight") == 0
    assert browser.complaints() == []


def test_the_sensitivity_is_drawn(browser: Browser, study_folder: Path, tmp_path: Path) -> None:
    found = analyse(Study.open(study_folder))
    browser.open(write_sensitivity(found, tmp_path)[0])
    assert "What is proven" not in browser.text("body")
    browser.open(write_sensitivity(found, tmp_path, ["Trial 7 is optimal over these factors.", "dram: 0.5 to 2."])[0])
    assert "dram: 0.5 to 2." in browser.text("#proven")
    assert "on the front stay on it" in browser.text("#summary")
    assert "constants DRAM energy × 0.25" in browser.hover("#matrix g", 1)
    assert browser.complaints() == []


@pytest.mark.parametrize("preset", ["soma-edge", "simba", "eyeriss", "gemmini"])
def test_no_text_of_the_drawing_leaves_its_box(browser: Browser, tmp_path: Path, preset: str) -> None:
    """Five memories in a row are narrow; their lines wrap."""
    architecture = load_preset(preset)
    network = load_network("alexnet", bits=architecture.mac.bits, partial_bits=architecture.mac.bits)
    result = map_network(network, architecture, create("random"), EvaluationOptions(budget=Budget(evaluations=5)))
    assert isinstance(result, NetworkResult)
    browser.open(write_network_page(result, tmp_path / "report.html"))
    assert browser.run("[...document.querySelectorAll('#cards b')].filter(b => b.textContent === '–').length") == 0
    outside = browser.run(
        """[...document.querySelectorAll('svg.drawing g')].flatMap(g => {
          const box = g.querySelector('rect'); if (!box) return [];
          const b = box.getBoundingClientRect();
          return [...g.querySelectorAll('text')].filter(t => { const r = t.getBoundingClientRect();
            return r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1; }).map(t => t.textContent);
        })"""
    )
    assert outside == []


def test_a_simulated_schedule_draws_its_timeline(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "schedule.html"
    run("schedule", "--network", "alexnet", "--evaluations", 30, "--seed", 1, "--timing", "event", "--html", page)
    browser.open(page)
    assert "analytical ones. The busiest resource" in browser.text("#events-said")
    assert "DRAM channel" in browser.text("#events-table")
    assert browser.run("document.getElementById('events-view').height > 60")
    assert browser.run("document.querySelectorAll('#events-bars .bar').length") == 4
    assert browser.complaints() == []

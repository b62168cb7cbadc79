"""The page of folders in use: what status finds is drawn, escaped, and nothing else is on it."""

import json
import os
import re
from dataclasses import replace
from datetime import datetime, timezone

import pytest

import lgb_dp
from kept_stores import end_process
from used_folders import HOSTILE, SECRET, used
from veilboost.doctor.findings import Finding
from veilboost.doctor.places import Place, places_of
from veilboost.pages.overview import overview

WHEN = datetime(2026, 1, 2, tzinfo=timezone.utc)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = used(tmp_path)
    yield tmp_path
    del kept
    end_process(tmp_path)


def drawn(places):
    return overview(list(places), lambda address: f"{address} answers", WHEN, ("Stop", "/t/still"))


def test_runs_parties_limits_models_and_the_record_are_on_it(place):
    page = drawn(places_of("."))
    expected = [
        "tree 3 of 40, 9 min left, auc 0.80000",
        'aria-label="auc"',
        ">01000000<",
        ">70<",
        "127.0.0.1:1 answers",
        "2026-01-01 10:20 UTC",
        "acme sent bank 5 kB, 4 kB of them as ciphertexts",
        'aria-label="questions_per_hour of acme: 50% used"',
        'aria-label="max_statistics of acme: 25% used"',
        "364 days left",
        f"{1000:032x}",
        f"kill -INT {os.getpid()}",
        "refusals: 1, the last: &lt;img",
        '<a href="/t/still">Stop</a>',
    ]
    assert [text for text in expected if text not in page] == []
    assert HOSTILE not in page
    assert SECRET not in page
    assert not re.search("<script|<img|https?://(?!www.w3)|style=", page)


def test_a_budget_is_a_staircase(place):
    budget = lgb_dp.Budget.open("year.budget", 1.0, 1e-6)
    for _ in range(3):
        budget.charge(replace(budget.limit, epsilon=0.0, delta=0.0, mu=budget.limit.mu / 2), "model")
    page = drawn(places_of("year.budget"))
    steps = re.search('class="line" d="([^"]*)"', page).group(1)
    assert [float(one) for one in re.findall(r"V([\d.]+)", steps)] == [107.5, 75.0, 42.5, 42.5]
    assert 'class="limit" d="M54.0 10.0H384.0"' in page
    assert "share of the budget&#x27;s μ² that is spent: 0.75" in page


def test_damage_and_broken_runs_are_on_top(place):
    end_process(place)
    (place / "kept" / "party.store").write_bytes(b"damaged")
    page = drawn(places_of("."))
    top = page.partition("</header>")[0].partition("<body>")[2]
    assert "2 of these need a person" in top
    assert "damaged" in top
    assert "go on with it: veilboost train plan.toml" in top
    assert "kill" not in page


def test_a_finding_of_any_texts_is_escaped():
    finding = Finding(HOSTILE, HOSTILE, HOSTILE, (("used", 1.0),), ({HOSTILE: HOSTILE},))
    page = drawn([Place(HOSTILE, HOSTILE, [finding, finding._replace(values=())])])
    assert "<img" not in page
    assert page.count("&lt;img") > 6


def test_findings_of_one_name_are_all_on_it():
    page = drawn([Place("a", "folder", [Finding("state", "store x"), Finding("state", "store y")])])
    assert "store x" in page
    assert "store y" in page


LINE = {"round": 1, "of": 2, "left": "1 s", "metrics": {"auc": 0.5}}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[" * 200_000, "auc 0.50000"),
        (json.dumps({**LINE, "round": 2}).replace('"round": 2', '"round": Infinity'), "auc 0.50000"),
        (json.dumps({**LINE, "round": 2, "metrics": {"auc": "high"}}), "auc 0.50000"),
        (json.dumps({**LINE, "round": 2, "metrics": {"auc": 10**400}}), "auc 0.50000"),
        (json.dumps({**LINE, "round": 10**30, "of": 10**30}), "tree 1 of 2"),
        (json.dumps({**LINE, "left": [HOSTILE] * 100_000}), "&lt;img"),
        (f"{json.dumps({**LINE, 'round': 2})}\n{json.dumps(LINE)}", "tree 1 of 2"),
    ],
)
def test_lines_of_rounds_are_skipped_or_cut_whatever_they_are(place, line, words):
    (place / "checkpoint" / "rounds.jsonl").write_text(f"{json.dumps(LINE)}\n{line}\n")
    page = drawn(places_of("."))
    assert words in page
    assert HOSTILE not in page
    assert len(page) < 40_000


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_not_read(place, make):
    for path in (place / "checkpoint" / "rounds.jsonl", place / "kept" / "record.jsonl"):
        path.unlink()
        make(path)
    page = drawn(places_of("."))
    assert "it is no regular file" in page
    assert "tree 3" not in page


def test_a_record_of_any_length_gives_a_page_that_is_not(place):
    sent = {"time": "x", "to": "bank", "bytes": 1, "ciphertext_bytes": 1}
    lines = [{**sent, "from": f"{k}" * 50_000, "message": f"m{k}"} for k in range(3)]
    lines += [{**sent, "from": f"p{k}", "message": "AskSum"} for k in range(2000)]
    (place / "kept" / "record.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    page = drawn(places_of("."))
    assert "1,703 further rows are not shown" in page
    assert len(page) < 200_000

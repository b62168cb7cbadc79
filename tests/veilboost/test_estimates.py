"""``veilboost estimate``: bytes are those of small runs, and times those of the table of slow links."""

import csv
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import lgb_dp
import xgb_fed
from gbdt_parties.traffic import Traffic
from lgb_dp import federated
from veilboost import command_line as cli
from veilboost import estimates
from veilboost.estimates import Run

LINKS = Path(__file__).parents[2] / "docs" / "experiments" / "data" / "vertical-links.csv"
rng = np.random.default_rng(5)


def bytes_with(traffic, names):
    """All bytes that some parties sent or received."""
    return sum(flow.bytes for (a, b, _), flow in traffic.flows.items() if {a, b} & set(names))


def rows(n_rows, n_columns):
    X = rng.uniform(-1, 1, (n_rows, n_columns))
    return X, (X.sum(axis=1) + rng.normal(size=n_rows) > 0).astype(int)


@pytest.mark.parametrize(
    ("cipher", "columns", "depth"),
    [
        ("okamoto-uchiyama", 4, 3),
        *(
            pytest.param(cipher, *size, marks=pytest.mark.slow)
            for cipher in ("okamoto-uchiyama", "paillier")
            for size in ((4, 5), (12, 3))
        ),
    ],
)
def test_bytes_of_vertical_training(cipher, columns, depth):
    X, y = rows(1000, columns + 2)
    scheme = xgb_fed.Paillier() if cipher == "paillier" else xgb_fed.OkamotoUchiyama()
    model = xgb_fed.VerticalXGBClassifier(2, max_depth=depth, max_bin=16, cipher=scheme)
    model.fit(X[:, columns:], y, parties=[xgb_fed.LocalParty(X[:, :columns], "bank")])
    load = estimates.vertical(Run(1000, columns, depth, 16, cipher=cipher))
    seen = bytes_with(model.traffic_, ["bank"])
    assert 0.8 * (load.once + 2 * load.each) < seen < 1.02 * (load.once + 2 * load.each)
    asked = sum(flow.messages for (_, to, _), flow in model.traffic_.flows.items() if to == "bank")
    assert asked <= load.trips_once + 2 * load.trips_each


@pytest.mark.parametrize(("columns", "depth", "bins"), [(4, 3, 16), (12, 3, 16), (4, 5, 16), (4, 3, 64)])
def test_bytes_of_exact_training(columns, depth, bins):
    X, y = rows(3000, columns)
    model = xgb_fed.HorizontalXGBClassifier(3, max_depth=depth, max_bin=bins)
    model.fit(parties=[(X[k::3], y[k::3]) for k in range(3)])
    load = estimates.exact(Run(3000, columns, depth, bins, 3))
    seen = bytes_with(model.traffic_, ["party1", "party2"])
    assert 0.75 * (load.once + 3 * load.each) < seen < 1.02 * (load.once + 3 * load.each)
    asked = sum(flow.messages for (_, to, _), flow in model.traffic_.flows.items() if to == "party1")
    assert asked <= load.trips_once + 3 * load.trips_each


@pytest.mark.parametrize(("n_rows", "depth", "n_parties"), [(3000, 3, 3), (3000, 6, 4), (30000, 6, 3)])
def test_bytes_of_private_training(n_rows, depth, n_parties):
    X, y = rows(n_rows, 4)
    names = ["ada", "bob", "cyd", "dan"][:n_parties]
    parties = [
        federated.Party(X[k::n_parties], y[k::n_parties], bounds=(-1.0, 1.0), name=name)
        for k, name in enumerate(names)
    ]
    traffic, params = Traffic(), {"objective": "binary", "max_depth": depth}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        callbacks = [lgb_dp.NewtonBoost(8.0, 1e-5)]
        federated.train(params, parties, 20, callbacks=callbacks, traffic=traffic)
    load = estimates.private(Run(n_rows, 4, depth, 255, n_parties))
    seen = bytes_with(traffic, names[1:])
    # The histogram is released only where the noise leaves something to see.
    least = 20 * load.each if n_rows < 30_000 else load.once + 20 * load.each
    assert 0.8 * least < seen < 1.02 * (load.once + 20 * load.each)


@pytest.mark.parametrize("row", list(csv.DictReader(LINKS.read_text().splitlines()))[:8], ids=str)
def test_times_are_within_a_factor_of_two_of_measured_ones(row):
    """Of the set that was measured on an idle machine."""
    share = 0.31 if "GOSS" in row["data, rows of a tree"] else 1.0
    run = Run(45_000, 8, 5, 10, 2, share, "okamoto-uchiyama")
    mbit, latency = re.findall(r"\d+", row["link"]) or ("10000", "0")  # a LAN
    load = estimates.vertical(run)
    assert load.each / 1e6 == pytest.approx(float(row["MB per tree"]), rel=0.1)
    seconds = sum(load.seconds(100, float(mbit), float(latency) / 1000))
    assert 0.5 < seconds / float(row["s for 100 trees"].replace(",", "")) < 2


def test_the_command_prints_a_line_for_each_method(capsys):
    assert cli.main(["estimate", "--rows", "150000", "--columns", "5", "--mbit", "50"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.endswith("100 trees")
    assert [line.split()[0] for line in lines] == ["vertical", "exact", "private"]
    assert cli.main(["estimate", "exact", "--rows", "9", "--columns", "5", "--mbit", "50"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (["--rows", "0"], "--rows 0 must be 1 or more"),
        (["--mbit", "0"], "--mbit 0 must be above 0"),
        (["--mbit", "nan"], "--mbit nan must be above 0"),
        (["--sampled", "2"], "--sampled 2 above 0"),
        (["--parties", "1"], "--parties 1 must be 2"),
        (["--depth", "31"], "--depth 31 must be 1 to 30"),
    ],
)
def test_sizes_that_no_run_has(wrong, text, capsys):
    assert cli.main(["estimate", "--rows", "9", "--columns", "5", "--mbit", "50", *wrong]) == cli.WRONG_USE
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2.0 min"), (7200, "2.0 h"), (2e5, "2.3 days")]
)
def test_durations(seconds, text):
    assert estimates.shown(seconds) == text


def test_help_fits_a_screen(capsys):
    with pytest.raises(SystemExit):
        cli.main(["estimate", "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 30

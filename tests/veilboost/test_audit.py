"""The subcommand `veilboost audit`: generated rows, a file, and a violation's exit code."""

import json

import numpy as np
import pytest

from lgb_dp.mechanisms import noise as mechanisms
from veilboost import audit
from veilboost import command_line as cli

QUICK = ["--runs", "40", "--rounds", "1", "--confidence", "0.999999"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        *(pytest.param(["--objective", name], marks=pytest.mark.slow) for name in ("regression", "tweedie")),
        ["--objective", "multiclass", "--depth", "2"],
        ["--method", "dpboost"],
    ],
)
def test_the_example_prints_claims_beside_bounds(capsys, arguments):
    assert cli.main(["audit", "--example", *QUICK, *arguments]) == cli.OK
    text = capsys.readouterr().out
    assert "no violation found in 40 runs" in text
    assert "claimed            epsilon = 1" in text
    assert ("parametric" in text) == ("dpboost" not in arguments)


def test_a_violation_has_an_exit_code_of_its_own(capsys, monkeypatch):
    honest = mechanisms.rounded_gaussian
    monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda n, s, r: honest(n, s / 8, r))
    assert cli.main(["audit", "--example", "--epsilon", "4", *QUICK]) == audit.VIOLATION_FOUND
    assert "VIOLATED" in capsys.readouterr().out


@pytest.fixture
def rows(tmp_path):
    random = np.random.default_rng(1)
    table = np.column_stack([random.normal(size=(60, 2)).clip(-3, 3), random.integers(0, 2, 60)])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,y", comments="", fmt="%.4f")
    (tmp_path / "bounds.json").write_text(json.dumps({"a": [-3, 3], "b": [-3, 3]}))
    return tmp_path


def test_rows_of_a_file(rows, capsys):
    files = ["--data", str(rows / "rows.csv"), "--label", "y", "--bounds", str(rows / "bounds.json")]
    assert cli.main(["audit", *files, *QUICK]) == cli.OK
    assert "claimed" in capsys.readouterr().out
    assert cli.main(["audit", *files, *QUICK, "--objective", "regression"]) == cli.WRONG_USE
    assert cli.main(["audit", *files, *QUICK, "--epsilon", "-1"]) == cli.WRONG_USE


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"a": 3}', '{"a": [1]}', "{", '{"a": [0, %s]}' % ("9" * 400)]
)
def test_bounds_that_cannot_be_read(rows, content):
    (rows / "bounds.json").write_text(content)
    files = ["--data", str(rows / "rows.csv"), "--label", "y", "--bounds", str(rows / "bounds.json")]
    assert cli.main(["audit", *files, *QUICK]) == cli.WRONG_USE


@pytest.mark.parametrize("number", [-1, 0, 1 << 31, 1 << 63, 10**30, 10**400])
@pytest.mark.parametrize(
    ("option", "name"), [("rounds", "num_boost_round"), ("runs", "n_runs"), ("classes", "--classes")]
)
def test_numbers_that_lightgbm_does_not_hold_are_named(capsys, option, name, number):
    arguments = ["--objective", "multiclass", *QUICK, f"--{option}={number}"]
    assert cli.main(["audit", "--example", *arguments]) == cli.WRONG_USE
    assert f"{name} must be " in capsys.readouterr().err


def test_a_file_or_the_example_is_needed():
    assert cli.main(["audit"]) == cli.WRONG_USE

"""The options of ``serve``: what a passive party agrees to."""

import json

import pytest

from gbdt_commons.sealed import write_sealed
from veilboost import command_line as cli
from veilboost.serving import serve as serving
from xgb_fed.horizontal.service import HorizontalLimits
from xgb_fed.vertical.passive.service import Limits


def arguments(*options):
    required = ["serve", "--data", "x.csv", "--tls", "certs", "--allow", "acme"]
    return cli._parser().parse_args([*required, *options])


def test_limits_are_those_of_the_options():
    options = {
        "--min-rows": 50,
        "--max-rows": 1000,
        "--min-node-rows": 25,
        "--max-bin": 64,
        "--max-depth": 4,
        "--questions-per-hour": 7,
        "--sessions-per-hour": 8,
        "--max-models": 9,
        "--max-memory": 0.5,
        "--max-statistics": 2.5,
        "--max-thresholds": 40,
    }
    given = [str(part) for pair in options.items() for part in pair]
    limits = serving.limits_of(arguments(*given))
    names = ("min_rows", "max_rows", "min_node_rows", "max_bin", "max_depth", "questions_per_hour")
    assert [getattr(limits, name) for name in names] == [50, 1000, 25, 64, 4, 7]
    assert (limits.sessions_per_hour, limits.max_models, limits.max_memory) == (8, 9, 1 << 29)
    assert (limits.max_statistics, limits.max_thresholds) == (2.5, 40)


def test_limits_by_default_are_those_of_the_service():
    limits = serving.limits_of(arguments())
    assert limits == Limits()
    assert limits.min_node_rows == 10


@pytest.mark.parametrize("option", ["--max-bin", "--max-depth", "--min-node-rows", "--max-memory"])
def test_limits_that_admit_nothing_are_refused(option):
    with pytest.raises(ValueError, match=f"{option} 0.* must be at least"):
        serving.limits_of(arguments(option, "0"))


def test_an_operator_resets_the_questions(tmp_path, monkeypatch):
    """After a clock that was ahead has been set right."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["certs", "bank"]) == 0
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    folder = tmp_path / "models" / "for-acme"
    (folder / "models").mkdir(parents=True)
    kept = [folder / "models" / "ab.splits.json", tmp_path / "models" / "categories.json"]
    asked = [folder / "questions.json", folder / "openings.json"]
    for path in kept + asked:
        path.write_text(json.dumps([1e12] * 120))
    write_sealed(kept[1], {})

    class Stopped:
        def __init__(self, *args):
            raise OSError("stopped")

    monkeypatch.setattr(serving, "Server", Stopped)
    options = ["--data", "x.csv", "--tls", "certs/bank", "--allow", "acme"]
    assert cli.main(["serve", *options]) == cli.FAILED
    assert all(path.exists() for path in kept + asked)
    assert cli.main(["serve", *options, "--reset-questions"]) == cli.FAILED
    assert [path.exists() for path in kept + asked] == [True, True, False, False]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--label", "y"], "--label is for horizontal training"),
        (["--min-similar", "4"], "--min-similar is for SimFL"),
        (["--horizontal"], "--horizontal needs --label"),
        (
            ["--horizontal", "--label", "y", "--min-node-rows", "5"],
            "--min-node-rows is for vertical training",
        ),
        (["--horizontal", "--label", "y", "--one-hot", "city"], "--one-hot is for vertical training"),
        (["--horizontal", "--label", "y", "--categorical", "city"], "--categorical is for vertical training"),
        (["--dask", "tls://x", "--categorical", "city"], "--categorical is not supported with --dask"),
        (["--horizontal", "--label", "y", "--min-similar", "0"], "--min-similar 0 must be at least 1"),
        (["--horizontal", "--label", "y", "--max-rows", "0"], "--max-rows 0 must be at least 1"),
        (["--max-statistics", "nan"], "--max-statistics nan must be at least 0"),
    ],
)
def test_options_of_the_other_kind_of_training_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        serving.check_options(arguments(*options))


def test_a_horizontal_partys_limits_by_default_are_those_of_the_service():
    args = arguments("--horizontal", "--label", "y")
    assert serving.horizontal_limits_of(args) == HorizontalLimits()
    assert serving._max_rows(args) == 10_000_000
    given = arguments(
        "--horizontal", "--label", "y", "--max-depth", "4", "--max-models", "7", "--max-rows", "9"
    )
    assert serving.horizontal_limits_of(given) == HorizontalLimits(max_depth=4, max_models=7)
    assert serving._max_rows(given) == 9


def test_a_second_server_does_not_use_the_folder_of_the_first(tmp_path, monkeypatch, capfd):
    """Before, each counted questions and sessions for itself."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["certs", "bank"]) == 0
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    options = ["serve", "--data", "x.csv", "--tls", "certs/bank", "--allow", "acme"]
    answers = []

    class Meanwhile:
        def __init__(self, *args):
            answers.append(cli.main(options))
            raise OSError("stopped")

    monkeypatch.setattr(serving, "Server", Meanwhile)
    assert cli.main(options) == cli.FAILED
    assert len(answers) == 1
    assert "in use by another server" in capfd.readouterr().err

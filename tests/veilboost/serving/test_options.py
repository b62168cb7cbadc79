"""The options of ``serve``: settings of a party, of each kind of training."""

import inspect
from dataclasses import fields, replace

import pytest

from lgb_dp import federated
from veilboost import command_line as cli
from veilboost.plans.entries import default_of, is_needed
from veilboost.plans.plan import METHODS, read_served
from veilboost.serving.options import settings_of
from veilboost.serving.server import limits_of
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.exact.terms import ExactTerms
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.vertical.passive.service import Limits


def arguments(*options):
    """The settings of a passive party."""
    return settings("vertical", *options)


REQUIRED = ("--data", "x.csv", "--tls", "certs", "--allow", "acme")

NEEDED = {
    "vertical": (),
    "exact": ("--label", "y", "--party", "sha256:0"),
    "private": ("--declared", "columns.toml", "--party", "sha256:0"),
    "private-columns": ("--declared", "columns.toml", "--party", "sha256:0"),
    "simfl": ("--label", "y"),
}


def settings(kind, *options):
    args = cli.make_parser().parse_args(["serve", kind, *REQUIRED, *NEEDED[kind], *options])
    return settings_of(args, kind)


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
    limits = limits_of(Limits, arguments(*given))
    names = ("min_rows", "max_rows", "min_node_rows", "max_bin", "max_depth", "questions_per_hour")
    assert [getattr(limits, name) for name in names] == [50, 1000, 25, 64, 4, 7]
    assert (limits.sessions_per_hour, limits.max_models, limits.max_memory) == (8, 9, 1 << 29)
    assert (limits.max_statistics, limits.max_thresholds) == (2.5, 40)


def test_limits_by_default_are_those_of_the_service():
    limits = limits_of(Limits, arguments())
    assert limits == Limits()
    assert limits.min_node_rows == 10


@pytest.mark.parametrize("option", ["--max-bin", "--max-depth", "--min-node-rows", "--max-memory"])
def test_limits_that_admit_nothing_are_refused(option):
    with pytest.raises(ValueError, match=rf"{option}=0.*(at least|0\.001 to)"):
        limits_of(Limits, arguments(option, "0"))


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (
            "vertical",
            ["--label", "y"],
            "--label is an option of veilboost serve exact and veilboost serve simfl",
        ),
        ("vertical", ["--min-similar", "4"], "--min-similar is an option of veilboost serve simfl"),
        ("vertical", ["--party", "sha256:0"], "--party is an option of veilboost serve exact and"),
        ("vertical", ["--budget", "1", "1e-5"], "--budget is an option of veilboost serve private"),
        ("simfl", ["--min-node-rows", "5"], "--min-node-rows is an option of veilboost serve vertical"),
        ("simfl", ["--one-hot", "city"], "--one-hot is an option of veilboost serve vertical"),
        ("simfl", ["--categorical", "city"], "--categorical is an option of veilboost serve vertical"),
        ("simfl", ["--dask", "tcp://x:1"], "--dask is an option of veilboost serve vertical"),
        ("simfl", ["--valid", "v.csv"], "--valid is an option of veilboost serve exact"),
        ("simfl", ["--min-parties", "3"], "--min-parties is an option of veilboost serve exact"),
        ("exact", ["--dask", "tcp://x:1"], "--dask is an option of veilboost serve vertical"),
        ("exact", ["--min-similar", "1"], "--min-similar is an option of veilboost serve simfl"),
        ("exact", ["--budget=1", "1e-5"], "--budget is an option of veilboost serve private"),
        ("private", ["--label", "y"], "--label is an option of veilboost serve exact and"),
        ("private", ["--max-bin", "9"], "--max-bin is an option of veilboost serve vertical and"),
        ("private-columns", ["--label", "y"], "--label is an option of veilboost serve exact and"),
        ("private-columns", ["--colluding", "1"], "--colluding is an option of veilboost serve private"),
        ("vertical", ["--budget", "1", "1e-5"], "serve private and veilboost serve private-columns"),
        ("exact", ["--max-rou", "9"], "unrecognized arguments: --max-rou 9"),
    ],
)
def test_options_of_the_other_kinds_of_training_are_refused(kind, options, text, capsys):
    with pytest.raises(SystemExit) as caught:
        settings(kind, *options)
    assert caught.value.code == cli.WRONG_USE
    shown = capsys.readouterr().err
    assert f"veilboost serve {kind}: error: " in shown
    assert text in shown


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (
            "vertical",
            ["--dask", "tls://x", "--categorical", "city"],
            "--categorical is not supported with --dask",
        ),
        ("simfl", ["--min-similar", "0"], "--min-similar=0 must be at least 1"),
        ("simfl", ["--max-rows", "0"], "--max-rows=0 must be at least 1"),
        ("exact", ["--min-rows-per-node", "0"], "--min-rows-per-node=0 must be at least 1"),
        ("vertical", ["--max-memory", "inf"], "--max-memory=inf must be 0.001 to 1e\\+06"),
        ("private", ["--max-memory", "1e308"], "--max-memory=1e\\+308 must be 0.001 to 1e\\+06"),
        ("vertical", ["--max-statistics", "nan"], "--max-statistics=nan must be at least 0"),
    ],
)
def test_settings_that_are_not_accepted_are_refused(kind, options, text):
    with pytest.raises(ValueError, match=text):
        settings(kind, *options)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in METHODS for name in (*REQUIRED, *NEEDED[kind])[::2]]
)
def test_needed_options_are_named(kind, name, capsys):
    options = [*REQUIRED, *NEEDED[kind]]
    place = options.index(name)
    with pytest.raises(SystemExit) as caught:
        cli.main(["serve", kind, *options[:place], *options[place + 2 :]])
    assert caught.value.code == cli.WRONG_USE
    assert f"the following arguments are required: {name}" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("kind", METHODS)
def test_the_help_of_a_kind_fits_a_screen(kind, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit):
        cli.main(["serve", kind, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 33
    assert max(map(len, lines)) <= width
    shown = " ".join(lines)
    assert all(f"--{f.name.replace('_', '-')} " in shown for f in fields(METHODS[kind].served))


def test_a_horizontal_partys_limits_by_default_are_those_of_the_service():
    assert limits_of(HorizontalLimits, settings("simfl")) == HorizontalLimits()
    assert settings("simfl").max_rows == 10_000_000
    given = settings("simfl", "--max-depth", "4", "--max-models", "7", "--max-rows", "9")
    assert limits_of(HorizontalLimits, given) == HorizontalLimits(max_depth=4, max_models=7)
    assert given.max_rows == 9


def test_defaults_are_those_of_the_libraries():
    """They are written once more in the settings, which are read without loading the libraries."""
    party, terms = defaults_of(HorizontalParty), {f.name: f.default for f in fields(ExactTerms)}
    exact = {f.name: default_of(f) for f in fields(METHODS["exact"].served) if not is_needed(f)}
    simfl = {f.name: default_of(f) for f in fields(METHODS["simfl"].served) if not is_needed(f)}
    private = {f.name: default_of(f) for f in fields(METHODS["private"].served) if not is_needed(f)}
    for name in ("min_similar", "known_features", "max_rows", "max_rounds"):
        assert simfl[name] == party[name]
    for name in ("min_rows_per_node", "max_samples", "min_parties"):
        assert exact[name] == terms[name]
    assert set(exact["cuts"]) == set(terms["cuts"])
    theirs = defaults_of(federated.Party)
    for name in ("min_parties", "colluding", "parties_per_person", "budget"):
        assert private[name] == theirs[name]


def defaults_of(kind):
    return {name: one.default for name, one in inspect.signature(kind).parameters.items()}


def test_a_file_says_the_same_as_the_options(tmp_path):
    (tmp_path / "north.toml").write_text(
        'method = "private"\ndata = "north.csv"\ndeclared = "columns.toml"\ntls = "/certs"\n'
        'allow = ["acme"]\nparty = ["sha256:0"]\nbudget = [1, 1e-5]\nmax_models = 7\n'
    )
    given = settings("private", "--budget", "1", "1e-5", "--max-models", "7")
    expected = replace(
        given,
        data=str(tmp_path / "north.csv"),
        declared=str(tmp_path / "columns.toml"),
        tls="/certs",
        models=str(tmp_path / "models"),
    )
    assert read_served(tmp_path / "north.toml") == ("private", expected)

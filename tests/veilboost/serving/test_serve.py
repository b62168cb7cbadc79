"""The parser of ``serve``: a kind of training, or a file that names one."""

import pytest
import yaml

from veilboost import command_line as cli
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import read_served


@pytest.mark.parametrize("old", [["--horizontal", "--data", "x.csv"], ["--private", "columns.toml"]])
def test_options_before_the_kind_of_training_are_refused(old, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["serve", *old])
    assert caught.value.code == cli.WRONG_USE
    kinds = "vertical,exact,private,private-columns,simfl"
    text = f"{old[0]} comes after the kind of training: veilboost serve {{{kinds}}}"
    assert text in capsys.readouterr().err


LEAST = {"data": "x.csv", "tls": "certs", "allow": ["acme"]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"method": "simfl"}, "label is missing"),
        ({"allow": "acme"}, r"allow='acme' must be list\[str\]"),
        ({"data": {"file": "x.csv"}}, "data=.* must be str"),
        ({"label": "y"}, "unknown entry 'label'"),
        ({"method": "horizontal"}, "method='horizontal' must be one of"),
        ({"max_bin": 1}, "max_bin=1 must be at least 2"),
        ({"max_bin": True}, "max_bin=True must be int"),
        ({"allow_export": 1}, "allow_export=1 must be bool"),
        ({"allow_explanations": "all"}, "allow_explanations='all' must be one of"),
        ({"dask": "tls://x", "categorical": ["city"]}, "categorical is not supported with dask"),
    ],
)
def test_a_file_that_makes_no_settings_is_refused(tmp_path, content, text, capsys):
    path = tmp_path / "bank.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **content}))
    with pytest.raises(PlanError, match=rf"bank\.yaml: {text}"):
        read_served(path)
    assert cli.main(["serve", str(path)]) == cli.WRONG_USE
    assert "bank.yaml: " in capsys.readouterr().err

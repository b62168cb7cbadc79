"""Categorical columns of files: an active party by its plan, a passive one behind its service."""

import numpy as np
import pandas as pd
import pytest

import xgb_fed
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.transport.server import NOBODY
from kept_splits import give_splits
from kept_stores import end_process
from veilboost import command_line as cli
from veilboost.running import run, vertical
from veilboost.serving.options import settings_of
from veilboost.serving.vertical import table_of
from xgb_fed.vertical.passive.service import Limits, PassiveService

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
PLAN = """
tls: certs/acme
data: {file: acme.csv, label: y, categorical: [city], valid: null}
parties: [{name: bank, address: "127.0.0.1:1"}]
training: {rounds: 3}
parameters: {objective: "binary:logistic", max_depth: 3, max_bin: 8, base_score: 0.5}
"""


class Connected:
    """A party that calls its service without a network."""

    def __init__(self, service):
        self.service, self.name = service, "bank"

    def handle(self, request):
        return self.service.handle(Identity("acme", "", NOBODY.expires), (), request)

    def with_rows(self, *_):
        return self


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    city, branch = rng.integers(0, 6, 150), rng.integers(0, 15, 150)
    score = rng.normal(size=6)[city] + rng.normal(size=15)[branch] + rng.normal(size=150) * 0.3
    cities, branches = np.array(list("QWERTY"))[city], np.array([f"branch {k}" for k in range(15)])[branch]
    pd.DataFrame({"y": (score > 0).astype(int), "city": cities}).to_csv("acme.csv", index=False)
    pd.DataFrame({"branch": branches, "b": rng.normal(size=150)}).to_csv("bank.csv", index=False)
    (tmp_path / "plan.yaml").write_text(PLAN.replace(", valid: null", ""))
    return tmp_path


def service():
    arguments = [
        "serve",
        "vertical",
        "--data",
        "bank.csv",
        "--tls",
        "x",
        "--allow",
        "acme",
        "--models",
        "bank",
    ]
    args = cli.make_parser().parse_args([*arguments, "--categorical", "branch"])
    limits = Limits(allow_plain=True, allow_export=True, min_node_rows=2, max_statistics=np.inf)
    end_process("bank")
    return PassiveService(table_of(settings_of(args, "vertical")), "bank", "bank", limits)


def connect_to(monkeypatch, service):
    for module in (run, vertical):
        monkeypatch.setattr(module, "connect", lambda *_: [Connected(service)])


def test_a_plan_with_categories_from_training_to_prediction(folder, monkeypatch, capsys):
    first = service()
    connect_to(monkeypatch, first)
    scheme = property(lambda _: xgb_fed.Plain())
    monkeypatch.setattr("veilboost.plans.vertical.VerticalTraining.scheme", scheme)
    assert cli.main(["train", "plan.yaml"]) == 0
    assert cli.main(["predict", "plan.yaml", "--out", "here.csv"]) == 0
    own, theirs = pd.read_csv("acme.csv"), pd.read_csv("bank.csv")
    own["city"], theirs["branch"] = own["city"].astype("category"), theirs["branch"].astype("category")
    bank = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True, allow_export=True)
    params = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 8, "base_score": 0.5}
    model = xgb_fed.train(
        {**params, "enable_categorical": True},
        xgb_fed.ActiveData(own[["city"]], own["y"]),
        [bank],
        3,
        cipher=xgb_fed.Plain(),
        verbose_eval=False,
    )
    expected = model.predict(own[["city"]], [bank])
    np.testing.assert_allclose(pd.read_csv("here.csv")["prediction"], expected, rtol=1e-5)

    # The bank starts again with a file in which a branch is new, and acme has a new city.
    lines = (folder / "bank.csv").read_text().replace("branch 3,", "a new branch,")
    (folder / "bank.csv").write_text(lines)
    (folder / "acme.csv").write_text((folder / "acme.csv").read_text().replace("Q", "Z"))
    again = service()
    connect_to(monkeypatch, again)
    capsys.readouterr()
    assert cli.main(["predict", "plan.yaml", "--out", "new.csv"]) == 0
    assert "column 'city' has a value that was not seen" in capsys.readouterr().err
    other = theirs["branch"].cat.codes.where(theirs["branch"] != "branch 3", 99).to_numpy()
    branches, b = theirs["branch"], theirs["b"].to_numpy()
    unseen = xgb_fed.LocalParty(np.column_stack([other, b]), "bank", feature_types=["c", "q"])
    give_splits(bank, unseen)
    assert set(branches) != set(pd.read_csv("bank.csv")["branch"])
    cities = own["city"].cat.codes.where(own["city"] != "Q", 99).to_numpy()[:, None]
    expected = model.predict(cities, [unseen])
    np.testing.assert_allclose(pd.read_csv("new.csv")["prediction"], expected, rtol=1e-5)

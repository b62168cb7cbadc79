"""``veilboost serve --dask``: the workers' answers are those of a server that holds the file itself."""

import numpy as np
import pytest

from kept_stores import end_process

pytest.importorskip("distributed")

from dask_party import CIPHERS, N_ACTIVE, PARAMS, X, Y, without_randomness
from dask_training import local_cluster
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.transport.server import NOBODY
from veilboost import command_line as cli
from veilboost.dask import rows_on_cluster
from veilboost.plans.tables import read_table
from veilboost.serving import vertical as serving
from veilboost.serving.options import settings_of
from vertical_training import text_of, train
from xgb_fed.errors import InvalidArgumentError


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def bank(tmp_path):
    """The passive party's file, with a text column."""
    cities = np.where(X[:, N_ACTIVE] > 0, "Paris", "Rome")
    lines = [",".join([*map(str, row), city]) for row, city in zip(X[:, N_ACTIVE + 1 :], cities, strict=True)]
    path = tmp_path / "bank.csv"
    path.write_text("\n".join(["b1,b2,city", *lines]).replace("nan", "") + "\n")
    return path


@pytest.fixture(autouse=True)
def at_exit(monkeypatch):
    """What a server leaves to do at its end is done at the end of the test."""
    closing = []
    monkeypatch.setattr("veilboost.dask.at_exit", closing.append)
    yield
    for close in reversed(closing):
        close()


def serving_options(bank, *more):
    given = ["--data", str(bank), "--tls", "certs", "--allow", "acme", "--name", "bank"]
    given += ["--models", str(bank.parent / "models"), *more]
    return settings_of(cli.make_parser().parse_args(["serve", "vertical", *given]), "vertical")


class Served:
    """A party that calls a service without a network."""

    name = "bank"

    def __init__(self, served):
        end_process(served.models)
        self.service = serving.make_service(served, None).service

    def handle(self, request):
        return self.service.handle(Identity("acme", "", NOBODY.expires), (), request)


def test_a_server_whose_rows_are_on_a_cluster_gives_the_same_model(bank, cluster):
    texts = []
    for more in ([], ["--dask", cluster.scheduler_address]):
        party = Served(serving_options(bank, "--one-hot", "city", *more))
        with without_randomness():
            cipher = CIPHERS["okamoto-uchiyama"]
            party.service.limits = serving.Limits(min_rows=5, allow_weak_key=True, max_statistics=np.inf)
            texts.append(text_of(train(PARAMS, X[:, :N_ACTIVE], Y, [party], 2, cipher=cipher)))
    assert texts[0] == texts[1]


def test_workers_that_read_another_file_are_refused(bank, cluster):
    table = read_table(bank, keep=["b1", "b2"])
    bank.write_text(bank.read_text().replace("b1,b2,city\n", "b1,b2,city\n1,2,Rome\n", 1))
    with pytest.raises(InvalidDataError, match=r"holds.*workers"):
        rows_on_cluster(cluster.scheduler_address, bank, table, keep=["b1", "b2"])


def test_a_scheduler_that_does_not_answer_is_named(bank, monkeypatch):
    monkeypatch.setattr("veilboost.dask.TIMEOUT", 0.2)
    with pytest.raises(InvalidArgumentError, match=r"--dask tcp://127\.0\.0\.1:9: the scheduler"):
        rows_on_cluster("tcp://127.0.0.1:9", bank, read_table(bank, keep=["b1"]), keep=["b1"])

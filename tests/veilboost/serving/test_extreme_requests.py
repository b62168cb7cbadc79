"""No value in a caller's request makes a served party of any kind work, or allocate, without bound."""

import json
import tracemalloc
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import lgb_dp
import xgb_fed
from columns_apart import PARAMS, bank, own_rows
from columns_apart import trained as trained_columns
from exact_training import party as exact_party
from exact_training import train as train_exact
from extreme_requests import LEAVES, Extreme, bounded, ended, places, put
from federated_training import party as private_party
from federated_training import train as train_private
from gbdt_commons.errors import VeilboostError
from gbdt_parties import messages
from gbdt_parties.identity.certificates import TLS, Identity, make_authority, make_certificate
from gbdt_parties.messages import Refusal
from gbdt_parties.secure_sum.messages import NEW_RUN
from lgb_dp.federated.service import FederatedLimits, FederatedService
from lgb_dp.federated.task import FederatedTask, OpenPrivateRun, settings_of
from lgb_dp.vertical import ColumnLimits, ColumnService
from lgb_dp.vertical.task import OpenColumns
from lgb_dp.vertical.train import task_of
from veilboost.plans.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.service import HorizontalService
from xgb_fed.vertical.passive.service import Limits, PassiveService

pytestmark = pytest.mark.filterwarnings("ignore")
MANY = 10**6
BUDGET = (1e6, 1e-3)
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 4)).astype(np.float32)
Y = (X.sum(axis=1) > 0).astype(int)


@pytest.fixture(scope="module", autouse=True)
def traced():
    """Allocations are traced throughout: to begin while threads are at work is not safe."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """Certificates of all, on the allow-lists of all."""
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder / "ca")
    names = ("acme", "ada", "bob", "cyd", "bank")
    allowed = [f"sha256:{make_certificate(folder / name, folder / 'ca', name).fingerprint}" for name in names]
    return lambda name: {"tls": TLS.from_directory(folder / name), "allowed": allowed}


def private(folder, signed):
    party = private_party(0, 2, folder=folder / "party", budget=BUDGET, **signed("ada"))
    limits = FederatedLimits(sessions_per_hour=MANY, max_models=MANY, max_memory=64 << 20)
    other = private_party(1, 2, **signed("bob"))
    yield "ada", FederatedService(party, folder / "served", limits)
    yield lambda caller: train_private(
        [caller, other], 2, trees_per_round=2, structure="random", min_parties=2
    )


def private_columns(folder, signed):
    party = bank(folder=folder / "party", budget=BUDGET, **signed("bank"))
    limits = ColumnLimits(sessions_per_hour=MANY, max_models=MANY, max_memory=64 << 20)
    yield "bank", ColumnService(party, folder / "served", limits)
    yield lambda caller: trained_columns(caller, 2, **signed("acme"))


def exact(folder, signed):
    party = exact_party(0, folder, max_rounds=10**9, **signed("ada"))
    limits = HorizontalLimits(sessions_per_hour=MANY, max_models=MANY, max_memory=64 << 20)
    others = [exact_party(place, **signed(name)) for place, name in ((1, "bob"), (2, "cyd"))]
    yield "ada", HorizontalService(party, folder / "served", limits)
    yield lambda caller: train_exact([caller, *others], 2)


def simfl(folder, signed):
    how = {"categorical_labels": True, "max_rounds": 10**9}
    party = xgb_fed.HorizontalParty(X[:60], Y[:60], "ada", directory=folder / "party", **how)
    limits = HorizontalLimits(
        sessions_per_hour=MANY, questions_per_hour=MANY, max_models=MANY, max_memory=64 << 20
    )
    other = xgb_fed.HorizontalParty(X[60:], Y[60:], "bob", **how)
    params = {"objective": "binary:logistic", "max_depth": 2}
    yield "ada", HorizontalService(party, folder / "served", limits)
    yield lambda caller: xgb_fed.train_simfl(params, [caller, other], 3, verbose_eval=False)


def vertical(folder, signed):
    table = Table(read_columns(X[:40, 2:]), [str(k) for k in range(40)], False, None, [], {})
    limits = Limits(
        **{"min_rows": 1, "allow_weak_key": True, "allow_plain": True, "allow_explanations": "per-feature"},
        **dict.fromkeys(("questions_per_hour", "sessions_per_hour", "max_models"), MANY),
        **{"allow_export": True, "max_statistics": 1e9, "max_thresholds": 1e9, "max_memory": 64 << 20},
    )
    params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8, "base_score": 0.5}
    cipher = xgb_fed.OkamotoUchiyama(512, allow_weak_key=True)

    def converse(caller):
        rows = xgb_fed.ActiveData(X[:40, :2], Y[:40])
        model = xgb_fed.train(params, rows, [caller], 2, cipher=cipher, verbose_eval=False)
        for ask in (model.predict, model.explain):
            ask(X[:40, :2], [caller])
        model.export_booster([caller])

    yield "bank", PassiveService(table, folder, "bank", limits)
    yield converse


KINDS = {one.__name__: one for one in (private, private_columns, exact, simfl, vertical)}


@pytest.mark.parametrize("n_tries", [6, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_request_with_an_extreme_value_is_bounded(tmp_path, signed, kind, n_tries):
    (name, service), converse = KINDS[kind](tmp_path, signed)
    identity = Identity.of(signed("acme")["tls"].certificate)
    honest = Extreme(service, identity, name)
    converse(honest)
    refused = 0
    for seed in range(n_tries):
        # Every second time one of the first requests, which have the settings.
        at = 1 + seed // 2 % (3 if seed % 2 else honest.n_calls)
        caller = Extreme(service, identity, name, at, seed)
        with ended(), suppress(VeilboostError):
            converse(caller)
        assert not any("internal" in reason for reason in caller.reasons), seed
        refused += len(caller.reasons) > 0
    assert refused > n_tries // 3
    service.close()


def of_columns():
    rows = own_rows().construct()
    return OpenColumns, task_of(PARAMS, rows, lgb_dp.NewtonBoost(30.0, 1e-5), 4, 2, "acme", 301)


def of_rows():
    settings = settings_of(lgb_dp.NewtonBoost(5.0, 1e-5))
    return OpenPrivateRun, FederatedTask({"objective": "binary", "max_depth": 2}, settings, 4, 5, 1, 2, 1)


@pytest.mark.parametrize("n_tries", [20, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "made"), [(private, of_rows), (private_columns, of_columns)])
def test_every_value_of_a_private_task_is_bounded(tmp_path, signed, kind, made, n_tries):
    (_, service), _ = kind(tmp_path, signed)
    opening, task = made()
    identity = Identity.of(signed("acme")["tls"].certificate)
    values = json.loads(task.to_json())
    cases = [(at, value) for at in places(values) for value in LEAVES]
    cases += [((*at[:-1], "max_depth"), value) for at in (("params", ""),) for value in LEAVES]
    values["params"].setdefault("num_threads", 1)
    picked = np.random.default_rng(1).permutation(len(cases))[:n_tries].tolist()
    picked += range(len(cases) - len(LEAVES), len(cases))
    for number, place in enumerate(picked):
        at, value = cases[place]
        request = opening(number.to_bytes(16, "little"), json.dumps(put(values, at, value)), NEW_RUN)
        sent = messages.write(number.to_bytes(16, "big"), 0, request)
        with ended(), bounded(sent):
            answer = messages.read(service.handle(identity, (), sent)).message
        assert not (isinstance(answer, Refusal) and "internal" in answer.reason), (at, str(value)[:50])
    service.close()


def test_a_number_out_of_range_is_refused_where_it_is_read():
    request = messages.write(bytes(16), 0, OpenColumns(bytes(16), "{}", NEW_RUN))
    assert messages.read(request).message.n_known == NEW_RUN
    for n_known in (-2, 2**31, 2**63 - 1):
        wrong = messages.write(bytes(16), 0, replace(messages.read(request).message, n_known=n_known))
        with pytest.raises(messages.ProtocolError, match=r"n_known of OpenColumns.*-1 to 2147"):
            messages.read(wrong)

"""A horizontal party behind a service: what is counted over all coordinators, and what is each one's own."""

import json
import os
from contextlib import nullcontext

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyRefusedError
from gbdt_parties.identity.alignment_messages import MaskIds
from gbdt_parties.run.party_run import ANSWERED
from gbdt_parties.traffic import Traffic
from kept_stores import end_process
from made_up_coordinator import LOGISTIC, Caller, Coordinator, made_up_tree, victim
from served_parties import Local
from xgb_fed import HorizontalParty, train_simfl
from xgb_fed.horizontal.common.messages import HorizontalOpened, Introduce, OpenHorizontal, RowShape
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.service import HorizontalService
from xgb_fed.horizontal.simfl.messages import FinishBoosting, ResumeBoosting, StartBoosting
from xgb_fed.horizontal.simfl.party import SimFLSide
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.passive.service import PassiveService
from xgb_fed.vertical.protocol.messages import OpenModel

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((120, 5)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
PARAMS = {"objective": "binary:logistic", "max_depth": 2}


def north(folder, **limits):
    end_process(folder)
    party = HorizontalParty(X[:60], Y[:60], "north", categorical_labels=True, directory=folder)
    return HorizontalService(party, folder, HorizontalLimits(**limits))


def south():
    return HorizontalParty(X[60:], Y[60:], "south", categorical_labels=True)


def trained(service, other, caller="acme", params=PARAMS):
    return train_simfl(params, [Local(service, caller, name="north"), other], 3, verbose_eval=False)


def test_services_name_all_requests_of_their_handlers(tmp_path):
    assert set(HorizontalService.requests) == {*SimFLSide.requests, *ANSWERED}
    assert set(PassiveService.requests) == set(PassiveParty.requests)


def test_coordinators_have_folders_of_their_own_and_one_party(tmp_path):
    service, other = north(tmp_path), south()
    models = [trained(service, other, caller) for caller in ("acme", "rival")]
    for caller, model in zip(("acme", "rival"), models, strict=True):
        (path,) = (tmp_path / f"for-{caller}" / "models").glob("*.json")
        assert path.read_bytes() == model.as_json()
    # Both runs hashed by one seed: nothing new was told to the second.
    assert len(service.party.simfl.disclosures.told.hashes) == 1
    # Hashes for a third, other parties would be too many, whoever asks, and after a restart.
    with pytest.raises(PartyRefusedError, match=r"hashes.*away"):
        trained(north(tmp_path), south(), "third")


@pytest.mark.parametrize(
    ("limits", "params", "reason"),
    [
        ({"max_depth": 3}, {"max_depth": 4}, "max_depth=4; this party accepts.*3"),
        ({"max_bin": 16}, {"max_bin": 17}, "max_bin=17; this party accepts.*16"),
        ({"max_models": 0}, {}, "keeps at most 0 models"),
        ({"sessions_per_hour": 0}, {}, "0 sessions.*hour"),
        ({"max_memory": 2000}, {}, "would take 0 MiB"),
        ({"max_round_bytes": 100}, {}, "bytes.*accepts 100"),
    ],
)
def test_limits(tmp_path, limits, params, reason):
    with pytest.raises(PartyRefusedError, match=reason):
        trained(north(tmp_path, **limits), south(), params={**PARAMS, **params})


def test_sums_for_an_alleged_builder_are_reserved(tmp_path):
    """Before, one request of 60 bytes took 823 MiB that no allowance knew of."""
    service = HorizontalService(victim(directory=tmp_path), tmp_path, HorizontalLimits(max_memory=16 << 20))
    rows = 1_000_000
    coordinator = Coordinator(Caller(service, "acme"), params={**LOGISTIC, "max_bin": 4}, rows=rows)
    coordinator.hash_table(n_hashes=1)
    coordinator.start([np.zeros(rows, dtype=np.int32)])
    with pytest.raises(PartyRefusedError, match=r"sums.*take 45 MiB"):
        coordinator.sums()


def test_growing_trees_is_reserved(tmp_path):
    """Before, XGBoost's histograms of deep trees took gigabytes that no allowance knew of."""
    party = HorizontalParty(np.zeros((600, 200)), np.arange(600) % 2, "wide", categorical_labels=True)
    service = HorizontalService(party, tmp_path, HorizontalLimits(max_memory=64 << 20))
    for max_depth, refused in ((10, True), (4, False)):
        channel = Channel(Caller(service, "acme"), os.urandom(16), Traffic(), "coordinator")
        channel.ask(Introduce(False), RowShape)
        settings = json.dumps({**LOGISTIC, "max_depth": max_depth, "max_bin": 256})
        opening = OpenHorizontal(settings, "[0, 1]", 0, np.array([600, 600]), 1, 10)
        expected = pytest.raises(PartyRefusedError, match=r"histograms.*take 471 MiB")
        with expected if refused else nullcontext():
            channel.ask(opening, HorizontalOpened)


def test_the_journal_is_reserved_while_it_is_written(tmp_path):
    """Before, rows similar to those of many alleged parties were copied twice beyond the allowance."""
    service = HorizontalService(victim(directory=tmp_path), tmp_path, HorizontalLimits(max_memory=3 << 20))
    n_others = 250
    coordinator = Coordinator(Caller(service, "acme"), n_others, {**LOGISTIC, "max_bin": 4}, rows=1)
    coordinator.hash_table(n_hashes=1)
    with pytest.raises(PartyRefusedError, match=r"journal.*training"):
        coordinator.start([np.zeros(1, dtype=np.int32)] * n_others)


def test_the_model_is_reserved_with_the_trees_that_it_is_made_of(tmp_path):
    """Before, the end of a run took 34 times what was reserved for its trees."""
    service = HorizontalService(victim(directory=tmp_path), tmp_path, HorizontalLimits(max_memory=4 << 20))
    coordinator = Coordinator(
        Caller(service, "acme"), params={**LOGISTIC, "max_depth": 10, "max_bin": 2}, turns=(200, 200)
    ).started()
    tree = made_up_tree(10)
    n_fitting = (4 << 20) // (32 * len(tree))
    more = iter(range(n_fitting + 2))
    with pytest.raises(PartyRefusedError, match="trees so far"):
        coordinator.add_all(tree, more)
    assert 0.8 * n_fitting < next(more) <= n_fitting + 1


def test_requests_of_another_method_are_refused_and_not_waited_for(tmp_path):
    party = Local(north(tmp_path), name="north")
    empty = np.zeros(0, dtype=np.int32)
    for message, reason in [
        (OpenModel(bytes(16), 1, empty), "OpenModel is of another method of training"),
        (MaskIds(), "are not aligned"),
    ]:
        answer = messages.read(party.handle(messages.write(bytes(16), 0, message))).message
        assert isinstance(answer, messages.Refusal)
        assert reason in answer.reason
    vertical = PassiveService.__new__(PassiveService)
    assert not {Introduce, OpenHorizontal} & {*vertical.opening, *vertical.requests}


def test_resumed_runs_leave_no_more_models_than_agreed(tmp_path):
    service = HorizontalService(victim(directory=tmp_path), tmp_path, HorizontalLimits(max_models=1))
    runs = []
    for _ in range(2):
        coordinator = Coordinator(Caller(service, "acme"), turns=(10**6, 100))
        coordinator.ask(StartBoosting(np.array([0.5])), messages.Done)
        coordinator.add(made_up_tree(1))
        runs.append(coordinator.channel.session)

    def finished(run):
        channel = Channel(Caller(service, "acme"), os.urandom(16), Traffic(), "coordinator")
        channel.ask(Introduce(False), RowShape)
        channel.ask(ResumeBoosting(run, 1, 100), messages.Done)
        channel.ask(FinishBoosting(-1), messages.Done)

    for _ in range(2):  # the answer may have been lost
        finished(runs[0])
    with pytest.raises(PartyRefusedError, match=r"keeps.*1 models"):
        finished(runs[1])


def test_the_number_of_a_run_is_not_given_to_another_one(tmp_path):
    """Before, after a restart, another run took the place of the one in the journal."""

    def service():
        end_process(tmp_path)
        return HorizontalService(victim(directory=tmp_path), tmp_path, HorizontalLimits())

    coordinator = Coordinator(Caller(service(), "acme")).started()
    channel = Channel(Caller(service(), "acme"), coordinator.channel.session, Traffic(), "coordinator")
    channel.ask(Introduce(False), RowShape)
    opening = OpenHorizontal(json.dumps(LOGISTIC), "[0, 1]", 1, np.array([300, 300]), 10**6, 100)
    channel.ask(opening, HorizontalOpened)
    with pytest.raises(PartyRefusedError, match="another training run"):
        channel.ask(StartBoosting(np.array([0.9])), messages.Done)

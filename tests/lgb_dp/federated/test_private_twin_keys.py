"""Private training with a coordinator that takes part under a key made of another party's."""

import json

import pytest

import lgb_dp
from disturbed import Between
from federated_training import BINARY, DELTA, NAMES, parties, party, train
from gbdt_parties.run.log import THIS_PROCESS, runs_of
from gbdt_parties.secure_sum.messages import NEW_RUN
from lgb_dp.federated.service import FederatedService
from lgb_dp.federated.task import FederatedTask, OpenPrivateRun, settings_of, statement
from twin_keys import OTHER_FORMATS, RUN, Attack, TwinKeys, refuses_keys_of_another_release

TASK = FederatedTask({**BINARY}, settings_of(lgb_dp.NewtonBoost(5.0, DELTA)), 4, 5, 1, 3, 1).to_json()


def service(place, folder, certificates, known):
    settings = {"tls": certificates, "allowed": known, "budget": (100.0, DELTA)}
    member = party(place, folder=folder / NAMES[place], **settings)
    return FederatedService(member, folder / NAMES[place] / "served")


def agreed(description):
    return "", statement(TASK, json.loads(description))


class TestTwinKeys(TwinKeys):
    attack = Attack(NAMES[:3], parties, service, OpenPrivateRun(RUN, TASK, NEW_RUN), agreed)


@pytest.mark.parametrize(
    "other", [pytest.param(one, marks=[pytest.mark.slow] * (k > 0)) for k, one in enumerate(OTHER_FORMATS)]
)
def test_a_twin_key_of_a_run_that_another_release_has_kept_is_refused_by_name(tmp_path, other):
    refuses_keys_of_another_release(
        lambda place: party(place, folder=tmp_path / NAMES[place]),
        lambda members: train(members, min_parties=3, checkpoint=tmp_path / "progress"),
        Between,
        lambda member: runs_of(member.ledger.store, THIS_PROCESS),
        OTHER_FORMATS[other],
    )

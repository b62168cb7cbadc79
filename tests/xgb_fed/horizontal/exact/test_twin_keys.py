"""Exact training with a coordinator that takes part under a key made of another party's."""

import pytest

from disturbed import Between
from exact_training import NAMES, PARAMS, X, parties, party, train
from gbdt_parties.secure_sum.messages import NEW_RUN
from twin_keys import OTHER_FORMATS, RUN, Attack, TwinKeys, refuses_keys_of_another_release
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.exact.exchange import OpenExactRun, request_of
from xgb_fed.horizontal.exact.task import ExactTask
from xgb_fed.horizontal.service import HorizontalService

TASK = ExactTask(PARAMS, 2, X.shape[1], [], [0, 1], "grid", 10, 3, None, 0)


def service(place, folder, certificates, known):
    others = [fingerprint for k, fingerprint in enumerate(known) if k != place]
    member = party(place, folder, tls=certificates, allowed=others)
    return HorizontalService(member, folder / NAMES[place], HorizontalLimits())


def agreed(description):
    return TASK.to_json(), TASK.statement


class TestTwinKeys(TwinKeys):
    attack = Attack(NAMES, parties, service, OpenExactRun(RUN, request_of(True), NEW_RUN), agreed)


@pytest.mark.parametrize("other", OTHER_FORMATS)
def test_a_twin_key_of_a_run_that_another_release_has_kept_is_refused_by_name(tmp_path, other):
    refuses_keys_of_another_release(
        lambda place: party(place, tmp_path),
        lambda members: train(members, checkpoint=tmp_path / "progress"),
        Between,
        lambda member: member.kept.store.part("exact"),
        OTHER_FORMATS[other],
    )

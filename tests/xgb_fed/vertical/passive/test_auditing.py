"""An auditor repeats a served passive party's side of a run: counts, sums and sides, to the byte."""

from contextlib import closing

import numpy as np
import pytest

import xgb_fed
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import InvalidDataError, PartyArgumentError, PartyUnavailableError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.run.log import RUNS, RunLog
from gbdt_parties.run.record import EXCHANGES
from gbdt_parties.transport.service import STORE_FILE, part_of
from kept_stores import end_process
from served_parties import Local
from veilboost.plans.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.service import ROLE, KeptSplits, Limits, PassiveService, replay

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")

PARAMS = dict(objective="binary:logistic", max_depth=2, max_bin=8, base_score=0.5)
OPEN = Limits(min_rows=1, min_node_rows=2, allow_plain=True, allow_weak_key=True, max_statistics=np.inf)
CIPHERS = {
    "plain": xgb_fed.Plain(),
    "paillier": xgb_fed.Paillier(512, allow_weak_key=True),
    "okamoto-uchiyama": xgb_fed.OkamotoUchiyama(768, allow_weak_key=True),
}
random = np.random.default_rng(2)
X = random.normal(size=(60, 4)).astype(np.float32)
Y = (X.sum(axis=1) + random.normal(size=60) > 0).astype(float)
IDS = [f"customer-{k:03d}" for k in range(60)]
COMMON = Alignment(tuple(IDS[5:55]))


ALL = np.arange(60)[::-1]


def table_of(x=X, rows=ALL):
    return Table(read_columns(x[rows, 2:]), [IDS[k] for k in rows], True, None, [], {})


def served(folder, table=None, auditable=True):
    """The party behind its service; a process of its own."""
    end_process(folder)
    service = PassiveService(table or table_of(), folder / "bank", "bank", OPEN, auditable)
    rows = folder / "bank" / "for-acme" / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    COMMON.save(rows / f"{COMMON.digest.hex()}.ids")
    return Local(service, row_sets=[COMMON.digest])


def trained(party, cipher="plain", rounds=3, **how):
    rows = COMMON.positions(IDS)
    data = xgb_fed.ActiveData(X[rows, :2], Y[rows])
    return xgb_fed.train(PARAMS, data, [party], rounds, cipher=CIPHERS[cipher], verbose_eval=False, **how)


def repeated(folder, table=None, **how):
    end_process(folder)
    return replay(folder / "bank", table or table_of(), min_node_rows=2, **how)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_every_byte_of_a_whole_run_is_repeated(tmp_path, cipher):
    model = trained(served(tmp_path), cipher)
    sent = sum(flow.bytes for (sender, *_), flow in model.traffic.flows.items() if sender == "bank")
    report = repeated(tmp_path)
    assert report.difference is None
    assert report.has_ended
    assert (report.rounds, report.connections, report.bytes) == (3, 1, sent)


def test_a_run_that_was_taken_up_in_another_process_is_repeated(tmp_path):
    class Lost(Local):
        n_asked = 0

        def handle(self, request):
            self.n_asked += 1
            if self.n_asked == 14:
                raise PartyUnavailableError("lost")
            return super().handle(request)

    first = served(tmp_path)
    with pytest.raises(PartyUnavailableError):
        trained(Lost(first.service, row_sets=first.row_sets), "paillier", checkpoint=tmp_path / "progress")
    trained(served(tmp_path), "paillier", checkpoint=tmp_path / "progress")
    report = repeated(tmp_path)
    assert report.difference is None
    assert report.has_ended
    assert report.connections == 2


def test_a_party_with_other_rows_than_it_shows_is_found(tmp_path):
    """Two rows change places in one column: what it has said of its bins is the same."""
    changed = X.copy()
    changed[[10, 40], 2] = changed[[40, 10], 2]
    trained(served(tmp_path, table_of(changed)), "paillier")
    report = repeated(tmp_path)
    assert report.difference.startswith("SplitStatistics, sent with request")
    assert not report.has_ended
    assert repeated(tmp_path, table_of(changed)).agrees


def test_a_byte_of_the_record_that_was_flipped_is_found(tmp_path):
    model = trained(served(tmp_path))
    end_process(tmp_path)
    with closing(StoreFile(tmp_path / "bank" / STORE_FILE, ROLE)) as store:
        record = RunLog(part_of(store, "acme"), model.model_id).store
        entries = list(record.entries(EXCHANGES, ""))
        record.delete(EXCHANGES, "", 5)
        for number, entry in enumerate(entries[5:]):
            record.append(EXCHANGES, "", bytes([entry[0] ^ 1]) + entry[1:] if number == 0 else entry)
    assert "request 5" in repeated(tmp_path).difference


def test_messages_go_with_the_model_and_are_kept_only_if_it_is_asked_for(tmp_path):
    model = trained(served(tmp_path))
    assert repeated(tmp_path, run=model.model_id.hex()).agrees
    with pytest.raises(InvalidDataError, match="not all rows"):
        repeated(tmp_path, table_of(rows=np.arange(20)))
    end_process(tmp_path)
    with closing(StoreFile(tmp_path / "bank" / STORE_FILE, ROLE)) as store:
        part = part_of(store, "acme")
        del KeptSplits(part)[model.model_id]
        assert not part.keys(RUNS)
        assert not RunLog(part, model.model_id).store.keys(EXCHANGES)
    trained(served(tmp_path, auditable=False))
    with pytest.raises(PartyArgumentError, match="auditable=True"):
        repeated(tmp_path)

"""Sequential and parallel baselines of DPBoost."""

import lgb_dp
from reports_of_models import X, Y
from small_training import dataset, train


def test_para_composes_in_parallel():
    report = train(dataset(X, Y), lgb_dp.ParallelBoost(1.0), n_rounds=5).privacy
    assert report.epsilon == 1.0
    assert {row["disjoint_sets_of_rows"] for row in report.ledger} == {5}

"""A ranker of rows whose columns lie apart."""

import numpy as np
import pytest
import xgboost

from estimator_objectives import QID, RELEVANCE, SMALL, X, party
from xgb_fed import Plain, VerticalXGBRanker

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")


def test_ranker(tmp_path):
    bank = party(eval_sets=[X[:, 3:]])
    model = VerticalXGBRanker(**SMALL, cipher=Plain(), eval_metric="ndcg@5", lambdarank_num_pair_per_sample=4)
    model.fit(
        X[:, :3],
        RELEVANCE,
        qid=QID,
        parties=[bank],
        sample_weight=np.arange(1, 13),
        eval_set=[(X[:, :3], RELEVANCE)],
        eval_qid=[QID],
    )
    data = xgboost.QuantileDMatrix(X, max_bin=16)
    data.set_info(label=RELEVANCE, qid=QID, weight=np.arange(1, 13))
    params = {"objective": "rank:ndcg", "lambdarank_num_pair_per_sample": 4, "max_depth": 3, "nthread": 1}
    theirs = xgboost.train({**params, "max_bin": 16, "eval_metric": "ndcg@5"}, data, 3)
    np.testing.assert_allclose(
        model.predict(X[:, :3]), theirs.predict(xgboost.DMatrix(X)), rtol=1e-5, atol=1e-6
    )
    plain = xgboost.DMatrix(X, label=RELEVANCE, qid=QID)
    expected = float(theirs.eval(plain).split(":")[-1])
    assert model.evals_result()["validation_0"]["ndcg@5"][-1] == pytest.approx(expected, rel=1e-5)
    model.save_model(tmp_path)
    again = VerticalXGBRanker()
    again.load_model(tmp_path, [bank])
    np.testing.assert_array_equal(again.predict(X[:, :3]), model.predict(X[:, :3]))

import lightgbm

import lgb_dp
from spark_training import BUDGET, NewtonBoostInRounds, binary_data


def test_rounds_hold_rows_out_of_a_dataset_too():
    data = lgb_dp.Dataset(*binary_data(), bounds=(-3, 3))
    trainer = NewtonBoostInRounds(*BUDGET, trees_per_round=3, validation_fraction=0.3)
    parameters = {"objective": "binary", "verbosity": -1}
    booster = lightgbm.train(parameters, data, 6, callbacks=[trainer])
    assert booster.evaluation.auc.high > 0.8

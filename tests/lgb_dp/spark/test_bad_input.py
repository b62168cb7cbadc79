"""What is wrong with a data frame or a declaration is a named error before a budget is touched."""

import pandas as pd
import pytest

import lgb_dp
from spark_training import FRAME, NAMES, PUBLIC, Y, classifier, in_parts

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")
ODD = FRAME.assign(
    text="x", person=range(len(Y)), lists=[[1.0, 2.0]] * len(Y), many=FRAME["label"].where(Y > 0, 7.25)
)
ODD["gap"] = FRAME["label"].where(Y > 0)

REFUSED = [
    ({"featuresCol": ["a", "nothing"]}, {}, "featuresCol='nothing'"),
    ({"featuresCol": ["a", "label"]}, {}, "labelCol='label' is named twice"),
    ({"featuresCol": "a"}, {}, "featuresCol='a'"),
    ({"featuresCol": ["a", "lists"]}, {}, "lists"),
    ({"featuresCol": ["a", "text"]}, {}, "text"),
    ({"featuresCol": "lists"}, {"bounds": (0, 1)}, "bounds"),
    ({"featuresCol": "lists"}, {"bounds": ([0] * 3, [1] * 3)}, "arrays of 3 numbers"),
    ({"labelCol": "gap", "label_overflow": "raise"}, {}, "partition 0: label"),
    ({"labelCol": "many", "label_overflow": "raise"}, {"classes": None}, "partition 0: label"),
    ({"labelCol": ["label", "gap"]}, {}, r"labelCol=\['label', 'gap'\]"),
    ({"labelCol": ["label"]}, {}, r"labelCol=\['label'\]"),
    ({"weightCol": "label"}, {}, "weightCol='label' is named twice"),
    ({"weightCol": "gap"}, {}, "weight_bound=None"),
    ({"groupsCol": "gap"}, {"rows_per_group": 1}, "groupsCol='gap'"),
    ({}, {"rows_per_group": 1}, "groupsCol=None"),
    ({}, {"bounds": None}, "bounds and categories must"),
    ({}, {"sample_weight": [1.0]}, "weightCol"),
    ({"timeout": 0}, {}, "timeout"),
    ({"trees_per_round": 0}, {}, "trees_per_round"),
    ({"method": "dpboost"}, {}, "method='dpboost'"),
    ({"validation_fraction": 1.0}, {}, "validation_fraction"),
]


@pytest.mark.parametrize(("settings", "given", "match"), REFUSED)
def test_what_is_not_accepted_is_named(spark, settings, given, match):
    budget = lgb_dp.Budget(50.0, 1e-3)
    with pytest.raises(lgb_dp.PrivateTrainingError, match=match) as caught:
        classifier(**{"random_state": None, **settings}).fit(
            in_parts(spark, 1, ODD), **{**PUBLIC, **given}, budget=budget
        )
    assert "7.25" not in str(caught.value)
    assert not budget.report().ledger


def test_other_tables_and_frames_without_rows_are_refused(spark):
    with pytest.raises(lgb_dp.ArgumentTypeError, match=r"pyspark\.sql\.DataFrame"):
        classifier().fit(FRAME, **PUBLIC)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="no rows"):
        classifier().fit(in_parts(spark, 1).where("a > 9"), **PUBLIC)


def test_a_missing_person_is_refused(spark):
    persons = pd.Series([*range(1, len(Y)), None], dtype="Int64")
    df = in_parts(spark, 1, FRAME.assign(person=persons))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="groupsCol"):
        classifier(groupsCol="person").fit(df, rows_per_group=1, **PUBLIC)


def test_predictions_do_not_replace_a_column(spark):
    model = classifier(predictionCol="e", n_estimators=1).fit(in_parts(spark, 1), **PUBLIC)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="'e'"):
        model.transform(in_parts(spark, 1))
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"featuresCol='c\.d'"):
        model.transform(in_parts(spark, 1).select("a", "b", "e"))
    assert list(model.feature_names_in_) == NAMES

"""Methods that refuse another library's keywords by name; every `fit` of ours and of the host libraries."""

import inspect
import pickle

import lightgbm
import pytest
import xgboost

import lgb_dp
import lgb_dp.dask
import lgb_dp.federated
import lgb_dp.vertical
import xgb_fed
from gbdt_commons.public.foreign_keywords import refuses_keywords

PRIVATE = [
    lgb_dp.DPLGBMClassifier,
    lgb_dp.DPLGBMRegressor,
    lgb_dp.dask.DaskDPLGBMClassifier,
    lgb_dp.dask.DaskDPLGBMRegressor,
    lgb_dp.federated.FederatedDPLGBMClassifier,
    lgb_dp.federated.FederatedDPLGBMRegressor,
    lgb_dp.vertical.VerticalDPLGBMClassifier,
    lgb_dp.vertical.VerticalDPLGBMRegressor,
]
FEDERATED = [
    xgb_fed.VerticalXGBClassifier,
    xgb_fed.VerticalXGBRegressor,
    xgb_fed.VerticalXGBRanker,
    xgb_fed.HorizontalXGBClassifier,
    xgb_fed.HorizontalXGBRegressor,
]
HOSTS = [
    lightgbm.LGBMClassifier,
    lightgbm.LGBMRegressor,
    lightgbm.LGBMRanker,
    xgboost.XGBClassifier,
    xgboost.XGBRegressor,
    xgboost.XGBRanker,
]
OLD = {"early_stopping_rounds", "verbose", "eval_metric", "callbacks", "class_weight", "base_margin"}
"""Keywords of earlier releases of the host libraries, and of their constructors."""


def keywords_of_hosts():
    named = set[str]().union(*(inspect.signature(host.fit).parameters for host in HOSTS))
    return sorted((named | OLD) - {"self", "X"})


class Method:
    @refuses_keywords({"old": "pass new", "new": "it is accepted"}, KeyError)
    def call(self, first, *, new=None):
        """Do something."""
        return first, new


def test_a_foreign_keyword_is_named_with_the_way_out():
    with pytest.raises(KeyError, match=r"old.*argument"):
        Method().call(1, old=2)


@pytest.mark.parametrize("default", [None, "auto"])
def test_another_librarys_default_asks_for_nothing(default):
    assert Method().call(1, new=2, old=default) == (1, 2)


def test_a_keyword_of_the_method_is_accepted_whatever_the_table_says():
    assert Method().call(1, new=3) == (1, 3)


def test_a_name_that_no_library_has_is_the_error_of_python():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nwe'"):
        Method().call(1, nwe=2)


@pytest.mark.parametrize("kind", [*PRIVATE, *FEDERATED], ids=lambda kind: kind.__name__)
def test_more_arguments_by_position_than_there_are_get_the_way_out(kind):
    """Other libraries' third is `sample_weight`; their second, `y`, comes with the rows of each party."""
    names = [
        one.name
        for one in inspect.signature(kind.fit).parameters.values()
        if one.kind is one.POSITIONAL_OR_KEYWORD
    ][1:]
    way_out = "pass the others by name" if "y" in names else r"pass parties=\[\(X, y\), \.\.\.\]"
    text = f"fit takes {' and '.join(names)} by position, got {len(names) + 1} arguments: {way_out}"
    with pytest.raises(ValueError, match=text):
        kind().fit(*[[1.0]] * (len(names) + 1))


def test_the_method_looks_as_it_was_written():
    assert list(inspect.signature(Method().call).parameters) == ["first", "new"]
    assert Method.call.__doc__ == "Do something."
    assert pickle.loads(pickle.dumps(Method.call)) is Method.call


@pytest.mark.parametrize("kind", [*PRIVATE, *FEDERATED], ids=lambda kind: kind.__name__)
def test_every_keyword_of_the_host_libraries_is_accepted_or_refused_by_name(kind):
    accepted = inspect.signature(kind.fit).parameters
    foreign = [name for name in keywords_of_hosts() if name not in accepted]
    error = lgb_dp.UnsupportedParameterError if kind in PRIVATE else xgb_fed.UnsupportedParameterError
    assert foreign
    for name in foreign:
        with pytest.raises(error, match=f"^{name}.*argument of fit: [a-z]") as caught:
            kind().fit(**{name: [1.0]})
        assert len(str(caught.value)) < 160


@pytest.mark.parametrize("kind", [*PRIVATE, *FEDERATED], ids=lambda kind: kind.__name__)
def test_the_way_out_is_an_argument_that_there_is(kind):
    """`pass NAME` of a refusal names an argument of `fit`, of the constructor, or of a party."""
    accepted = inspect.signature(kind.fit).parameters
    of_parties = inspect.signature(lgb_dp.Dataset).parameters
    for name in keywords_of_hosts():
        if name in accepted:
            continue
        with pytest.raises(ValueError, match=name) as caught:
            kind().fit(**{name: [1.0]})
        words = str(caught.value).partition(": ")[2].replace("=", " ").replace(",", " ").split()
        if words[0] == "pass" and words[1].isidentifier() and words[1] not in {"tables", "data", "triples"}:
            assert words[1] in {*accepted, *inspect.signature(kind).parameters, *of_parties}, (name, words)

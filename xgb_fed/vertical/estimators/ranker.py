"""A scikit-learn estimator that ranks rows of queries, over columns of several parties."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.public.inherited_parameters import inherits_parameters
from gbdt_parties.channel import Party
from xgb_fed.boosting.objectives import RANKING
from xgb_fed.errors import CorruptDataError, InvalidArgumentError, UnsupportedParameterError
from xgb_fed.estimators.conventions import checked_target
from xgb_fed.estimators.habits import RANKED, refuses_habits
from xgb_fed.vertical.estimators.base import VerticalFitArguments, VerticalXGBModel
from xgb_fed.vertical.model.model import VerticalModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


@inherits_parameters()
class VerticalXGBRanker(VerticalXGBModel):
    """XGBoost ranker over columns that several organisations hold of the same rows.

    One party, the active one, has the relevance and the query of every row and calls `fit`; the others answer
    with encrypted sums and learn of neither.

    Parameters
    ----------
    objective : {"rank:ndcg", "rank:map", "rank:pairwise"}, optional
        "rank:ndcg" by default.  Parameters such as `lambdarank_pair_method` are XGBoost's.
    cipher : Scheme, optional
        ``Paillier(2048)`` by default; ``OkamotoUchiyama()`` is faster.
    tree_mode, trees_per_party, active_depth, multi_output, goss, rows_by_index, client
        As in `VerticalXGBRegressor`.

    See Also
    --------
    train : The same as a function.

    Examples
    --------
    >>> import numpy as np
    >>> from xgb_fed import LocalParty, OkamotoUchiyama, VerticalXGBRanker
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> relevance, qid = np.digitize(X.sum(axis=1), [-1, 1]), np.repeat(np.arange(6), 10)
    >>> shop = LocalParty(X[:, 2:], "shop")
    >>> model = VerticalXGBRanker(n_estimators=2, max_depth=2, max_bin=8, cipher=OkamotoUchiyama())
    >>> model = model.fit(X[:, :2], relevance, qid=qid, parties=[shop])
    >>> model.predict(X[:, :2]).shape
    (60,)
    """

    @refuses_habits(RANKED, given=VerticalFitArguments)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        eval_qid: Sequence[Any] | None = None,
        **given: Unpack[VerticalFitArguments],
    ) -> VerticalXGBRanker:
        """Train with the passive parties.

        Parameters
        ----------
        X : matrix of shape (n_rows, n_features), or None
            The active party's columns.
        y : array-like of shape (n_rows,)
            Relevance: whole numbers from 0 for "rank:ndcg", 0 or 1 for "rank:map".
        qid : array-like of int of shape (n_rows,)
            The query of every row, not descending.
        parties, eval_set, verbose, checkpoint, patience, xgb_model
            As in `VerticalXGBClassifier.fit`.
        sample_weight : array-like of shape (n_queries,), optional
            Weight of every query.
        base_margin : array-like of shape (n_rows,), optional
            Margins before the first tree.
        eval_qid : sequence of array-like of int, optional
            Queries of each evaluation set.
        sample_weight_eval_set : sequence of array-like, optional
            Weights of the queries of each evaluation set.

        Returns
        -------
        self

        Raises
        ------
        InvalidArgumentError, UnsupportedParameterError
            For parameters that cannot be trained with; the text names them.
        InvalidDataError
            For rows, relevance or queries that cannot be trained on.
        """
        sets = self._begin(given)
        objective = self.objective or "rank:ndcg"
        if not isinstance(objective, str) or objective not in RANKING:
            raise UnsupportedParameterError(
                f"objective={objective!r} must be one of {', '.join(RANKING)} for a ranker"
            )
        queries = list(eval_qid or ())
        if len(queries) != len(sets):
            raise InvalidArgumentError(f"eval_qid has {len(queries)} entries, eval_set has {len(sets)}")
        y = checked_target(y, type(self).__name__)
        self._fit(X, y, given, sets, objective, None, [{"qid": one} for one in queries], qid=qid)
        return self

    def predict(
        self,
        X: Any,
        parties: Sequence[Party] | None = None,
        *,
        output_margin: bool = False,
        base_margin: Any = None,
        iteration_range: tuple[int, int] | None = None,
    ) -> NDArray[np.float32]:
        """Predict scores, by which the rows of a query are ranked.

        Parameters
        ----------
        X, parties, output_margin, base_margin, iteration_range
            As in `VerticalXGBRegressor.predict`; margins are scores.

        Returns
        -------
        ndarray of float32, shape (n_rows,)
        """
        return self._predict(
            X, parties, iteration_range, output_margin=output_margin, base_margin=base_margin
        )

    def _check_loaded(self, model: VerticalModel, directory: Path) -> None:
        if model.objective.name not in RANKING:
            raise CorruptDataError(f"{directory} does not hold a ranker")

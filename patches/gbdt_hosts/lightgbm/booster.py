"""A `lightgbm.Booster` whose trees are grown by other code, and how a live booster becomes one.

`lightgbm.train` hands its callbacks the live booster before each iteration.
`take_over` changes that object's class, so that ``update`` and the evaluation
calls go to a `TreeGrower`.  Everything else stays LightGBM's: the attribute
``_handle``, which every native call reads, becomes a property that loads the
trees grown so far into a native model first.  No module of LightGBM is patched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

import lightgbm
import numpy as np
from lightgbm.basic import _LIB, LightGBMError  # type: ignore[attr-defined]
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.locks import OwnLock
from gbdt_hosts.lightgbm.initial import InitialModel
from gbdt_hosts.lightgbm.metrics import Evaluator
from gbdt_hosts.lightgbm.params import main_names
from gbdt_hosts.lightgbm.predicting import FastPredictor, fast_predictor, takes
from gbdt_hosts.lightgbm.text import (
    Header,
    Tree,
    guarantee_line,
    header_digest,
    model_text,
    tree_block,
    tree_blocks,
    tree_digest,
    without_tree_sizes,
)

if TYPE_CHECKING:
    from lightgbm.basic import EvalResult, _LGBM_CustomObjectiveFunction, _LGBM_LabelType, _LGBM_WeightType

    from gbdt_hosts.lightgbm.metrics import CustomMetrics


MIN_FAST_ROWS = 64
"""Rows of a call below which LightGBM's own prediction takes no longer than ours."""

MIN_ROWS_TO_PREPARE = 10_000
"""Rows, of all such calls together, that LightGBM predicts in about the time that reading the model takes."""


_OF_TRAINING: Final = (
    "_grower",
    "_evaluation",
    "_behind",
    "_blocks",
    "_initial_blocks",
    "_evaluators",
    "_fast",
)
"""Attributes that a finished booster has not."""

_LOCKS: WeakKeyDictionary[PrivateBooster, OwnLock] = WeakKeyDictionary()
"""Apart from the boosters: a finished one has the attributes of LightGBM's own."""


class TreeGrower(Protocol):
    """Grower of the trees of a booster that was taken over."""

    header: Header

    def parameters(self) -> Mapping[str, str]:
        """Public settings for the model file."""

    def guarantee(self) -> Mapping[str, Any]:
        """The privacy guarantee, in types that JSON has."""

    def grow(self) -> None:
        """Grow the trees of the next iteration, one per class."""

    def trees_from(self, iteration: int) -> Sequence[Tree]:
        """Trees of the iterations from the given one on."""

    def undo(self) -> None:
        """Forget the last iteration (what it cost stays spent)."""

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change a parameter between iterations, or raise."""


class Evaluation(Protocol):
    """Data sets on which a booster that was taken over is evaluated."""

    def stopped_early(self) -> None:
        """Note that the number of trees was chosen by evaluation."""

    def add_valid(self, data: lightgbm.Dataset) -> None:
        """Follow the scores of another data set."""

    def raw_score(self, data: lightgbm.Dataset) -> NDArray[np.float64]:
        """Current raw scores of the training data or of a followed data set."""

    def metric_params(self) -> Mapping[str, Any]:
        """Objective and metrics for `evaluate`."""

    def label_and_weight(self, data: lightgbm.Dataset) -> tuple[_LGBM_LabelType, _LGBM_WeightType | None]:
        """Labels and weights of a data set, for `evaluate`."""


def grown_text(grower: TreeGrower, blocks: Sequence[str] | None = None) -> str:
    """The text of a model with its guarantee, of its trees as text, which by default are all grown ones."""
    if blocks is None:
        blocks = [tree_block(tree) for tree in grower.trees_from(0)]
    digests = {
        "header": header_digest(model_text(grower.header, [], {})),
        "trees": [tree_digest(block) for block in blocks],
    }
    line = guarantee_line({**grower.guarantee(), **digests})
    return model_text(grower.header, blocks, {**grower.parameters(), **line})


class _NativeModel(ctypes.c_void_p):
    """The handle of a native model, which is freed with the last reference to the handle.

    A thread that predicts holds one, so that another thread may load more trees meanwhile.
    """

    is_owner = False
    """Whether a booster has it: until then, an interrupt must not free what another handle points to."""

    def __del__(self) -> None:
        if self.is_owner and self.value is not None:
            _LIB.LGBM_BoosterFree(self)


def _text_in(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LightGBMError(f"{path} is not the text of a model") from None


class PrivateBooster(lightgbm.Booster):
    """A LightGBM booster whose trees are grown by a `TreeGrower`, then native like any other.

    Threads may share it: calls that change it, or that read what others change, wait for each other.
    """

    _grower: TreeGrower | None = None
    _evaluation: Evaluation
    _initial_blocks: list[str]
    _blocks: list[str]
    _evaluators: dict[int, Evaluator]
    _behind: TreeGrower | None = None
    """Grower whose latest trees the native model lacks."""
    _fast: FastPredictor | None
    _n_rows_predicted: int = 0

    def __init__(
        self,
        params: dict[str, Any] | None = None,
        train_set: lightgbm.Dataset | None = None,
        model_file: str | Path | None = None,
        model_str: str | None = None,
    ) -> None:
        path = None if model_file is None else Path(model_file)
        if train_set is None and path is not None and path.is_file():
            model_file, model_str = None, _text_in(path)
        super().__init__(params, train_set, model_file, model_str)

    @property
    def _lock(self) -> OwnLock:
        return _LOCKS.get(self) or _LOCKS.setdefault(self, OwnLock())

    @property
    def _handle(self) -> ctypes.c_void_p:
        if self._behind is not None:
            self._load_native()
        return cast("ctypes.c_void_p", self.__dict__.get("_handle"))

    @_handle.setter
    def _handle(self, handle: ctypes.c_void_p | None) -> None:
        if handle is None:
            self.__dict__["_handle"] = None
        else:
            self._adopt(_NativeModel(handle.value), {})

    def _adopt(self, native: _NativeModel, changes: Mapping[str, Any], forgotten: Sequence[str] = ()) -> None:
        """Take a native model that is there, with changed attributes, in place of the one before, at once."""
        kept = {name: value for name, value in vars(self).items() if name not in forgotten}
        self.__dict__ = {**kept, **changes, "_handle": native}
        native.is_owner = True

    @property
    def best_iteration(self) -> int:
        """Number of trees that early stopping chose, if positive."""
        return int(self.__dict__["best_iteration"])

    @best_iteration.setter
    def best_iteration(self, iteration: int) -> None:
        self.__dict__["best_iteration"] = iteration
        if iteration > 0 and self._grower is not None:
            with self._lock.held():
                self._growing()
                self._evaluation.stopped_early()

    def _load_native(self) -> None:
        """Make the native model hold the trees grown so far."""
        with self._lock.held():
            if self._behind is None:
                return  # another thread was faster
            native, _ = _loaded(self._text(self._behind))
            self._adopt(native, {}, ("_behind",))

    def _text(self, grower: TreeGrower) -> str:
        n_done = len(self._blocks) // grower.header.n_trees_per_iteration
        self._blocks += [tree_block(tree) for tree in grower.trees_from(n_done)]
        return grown_text(grower, self._initial_blocks + self._blocks)

    def _growing(self) -> TreeGrower:
        """Grower of the trees; questions to it may change them, or the guarantee in the text."""
        if self._grower is None:
            raise LightGBMError("This booster is not in training: use lightgbm.train with a private callback")
        self._behind = self._grower
        self._forget_fast()
        return self._grower

    def update(
        self, train_set: lightgbm.Dataset | None = None, fobj: _LGBM_CustomObjectiveFunction | None = None
    ) -> bool:
        """Grow the trees of one iteration; gives False, since a private tree always has splits.

        `train_set` is None or the one that is trained on, `fobj` None: the sensitivity of an objective of
        one's own is unknown. Raises LightGBMError if the booster is not in training, or another argument is
        given.
        """
        with self._lock.held(), silent_arithmetic():
            grower = self._growing()
            if fobj is not None:
                raise LightGBMError("A custom objective has no known sensitivity; use a built-in one")
            if train_set is not None and train_set is not self.train_set:
                raise LightGBMError("The training data of a private booster cannot be replaced")
            grower.grow()
        return False

    def rollback_one_iter(self) -> PrivateBooster:
        """Remove the trees of the last iteration; what they cost stays spent."""
        with self._lock.held(), silent_arithmetic():
            grower = self._growing()
            self._blocks.clear()
            grower.undo()
        return self

    def reset_parameter(self, params: dict[str, Any]) -> PrivateBooster:
        """Change the learning rate, by any of its names, between iterations.

        Raises LightGBMError if the booster is not in training, UnsupportedParameterError for any other
        parameter.
        """
        with self._lock.held():
            self._growing().reset_parameter(params)
            self.params.update(params)
        return self

    def add_valid(self, data: lightgbm.Dataset, name: str) -> PrivateBooster:
        """Add named validation data that refers to the Dataset; metrics on private rows are reported."""
        with self._lock.held(), silent_arithmetic():
            self._growing()
            self._evaluation.add_valid(data)
            self.valid_sets.append(data)
            self.name_valid_sets.append(name)
        return self

    def eval(self, data: lightgbm.Dataset, name: str, feval: CustomMetrics = None) -> list[EvalResult]:
        """Evaluate on a data set, which is followed from then on; `feval` is as for LightGBM.

        Gives names of the data and of the metric, its value, and whether higher is better.
        """
        with self._lock.held(), silent_arithmetic():
            self._growing()
            evaluation = self._evaluation
            if data is not self.train_set and not any(data is valid for valid in self.valid_sets):
                self.add_valid(data, name)
            score = evaluation.raw_score(data)
            evaluator = self._evaluators.get(id(data))
            if evaluator is None:
                evaluator = Evaluator(evaluation.metric_params(), data, *evaluation.label_and_weight(data))
                self._evaluators[id(data)] = evaluator
            return evaluator.evaluate(score, name, feval)

    def eval_train(self, feval: CustomMetrics = None) -> list[EvalResult]:
        """Evaluate on the training data."""
        return self.eval(self.train_set, self._train_data_name, feval)

    def eval_valid(self, feval: CustomMetrics = None) -> list[EvalResult]:
        """Evaluate on the validation data."""
        named = zip(self.valid_sets, self.name_valid_sets, strict=True)
        return [result for data, name in named for result in self.eval(data, name, feval)]

    def model_to_string(self, *args: Any, **kwargs: Any) -> str:
        """The model as text, as of `lightgbm.Booster`, which asks for its length first and then for it."""
        with self._lock.held():
            return str(super().model_to_string(*args, **kwargs))

    def dump_model(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The model as a dictionary, as of `lightgbm.Booster`."""
        with self._lock.held():
            return dict(super().dump_model(*args, **kwargs))

    def predict(
        self,
        data: Any,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        raw_score: bool = False,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        data_has_header: bool = False,
        validate_features: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Predict as `lightgbm.Booster.predict` does, and faster where there are many rows."""
        if num_iteration is None:
            num_iteration = self.best_iteration if start_iteration <= 0 else -1
        is_known = [main_names().get(name) == "num_threads" for name in kwargs] in ([], [True])
        fast = self._fast_predictor(data) if is_known and not (pred_leaf or pred_contrib) else None
        if fast is not None:
            n_threads = max(0, int(next(iter(kwargs.values()), None) or 0))
            return fast.predict(data, start_iteration, num_iteration, raw_score, n_threads)
        return super().predict(
            data,
            start_iteration,
            num_iteration,
            raw_score,
            pred_leaf,
            pred_contrib,
            data_has_header,
            validate_features,
            **kwargs,
        )

    def _fast_predictor(self, data: Any) -> FastPredictor | None:
        """Predictor of these rows, None where LightGBM predicts them."""
        if not takes(data, self.num_feature()) or data.shape[0] < MIN_FAST_ROWS:
            return None
        with self._lock.held():
            if "_fast" not in self.__dict__:
                self._n_rows_predicted += int(data.shape[0])
                if self._n_rows_predicted < MIN_ROWS_TO_PREPARE:
                    return None
                self._fast = fast_predictor(self.model_to_string(num_iteration=-1))
            return self._fast

    def _forget_fast(self) -> None:
        """Note that the trees may change."""
        self.__dict__.pop("_fast", None)

    def model_from_string(self, model_str: str) -> PrivateBooster:
        """Load a model; training, if any, is over."""
        with self._lock.held():
            # The whole model first: an interrupt leaves the trees that were grown and paid for.
            native, facts = _loaded(without_tree_sizes(model_str))
            self._free_buffer()
            self._adopt(native, facts, _OF_TRAINING)
        return self

    def set_leaf_output(self, tree_id: int, leaf_id: int, value: float) -> PrivateBooster:
        """Set a leaf's value, which voids the guarantee; not while in training."""
        with self._lock.held():
            self._refuse_in_training("set_leaf_output")
            super().set_leaf_output(tree_id, leaf_id, value)
            self._forget_fast()
        return self

    def shuffle_models(self, start_iteration: int = 0, end_iteration: int = -1) -> PrivateBooster:
        """Shuffle the trees; not while in training."""
        with self._lock.held():
            self._refuse_in_training("shuffle_models")
            super().shuffle_models(start_iteration, end_iteration)
            self._forget_fast()
        return self

    def _refuse_in_training(self, name: str) -> None:
        if self._grower is not None:
            raise LightGBMError(f"{name} is not possible while a private booster is in training")

    def __getstate__(self) -> dict[str, Any]:
        with self._lock.held():
            state = super().__getstate__()
        for key in (*_OF_TRAINING, "_n_rows_predicted"):
            state.pop(key, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._handle = self.__dict__["_handle"]

    def __deepcopy__(self, *_: Any, **__: Any) -> PrivateBooster:
        return type(self)(model_str=self.model_to_string(num_iteration=-1))

    def __del__(self) -> None:
        self.__dict__.pop("_behind", None)
        self._handle = None  # no predictor may still have it when it is freed
        super().__del__()


def _loaded(text: str) -> tuple[_NativeModel, dict[str, Any]]:
    """A native model and what LightGBM's boosters note of it, taken from a booster of its own."""
    loaded: Any = lightgbm.Booster(model_str=text)
    native = _NativeModel(loaded._handle.value)
    loaded._handle = None
    return native, {name: vars(loaded)[name] for name in ("pandas_categorical", "_Booster__num_class")}


@contextmanager
def claimed(booster: lightgbm.Booster) -> Iterator[None]:
    """Let one thread take a live booster over; of two that both release numbers, one would be reported.

    Raises a LightGBMError if another thread does, or has.
    """
    claim = object()
    try:
        if vars(booster).setdefault("_claim", claim) is not claim or isinstance(booster, PrivateBooster):
            raise LightGBMError("Another thread makes this booster private: call its callbacks in one thread")
        yield
    finally:
        if vars(booster).get("_claim") is claim:
            del booster.__dict__["_claim"]


def take_over(
    booster: lightgbm.Booster,
    grower: TreeGrower,
    evaluation: Evaluation,
    params: Mapping[str, Any],
    initial: InitialModel | None,
    booster_class: type[PrivateBooster] = PrivateBooster,
) -> None:
    """Let `grower` grow the trees of a live booster that has grown none yet.

    The booster, made from a `StandInDataset`, is changed in place: it becomes one of `booster_class`, and
    `params`, the user's, take the place of the stand-in's.
    """
    of_training = {
        "params": dict(params),
        "_grower": grower,
        "_evaluation": evaluation,
        "_initial_blocks": [] if initial is None else tree_blocks(initial.text),
        "_blocks": [],
        "_evaluators": {},
        "_behind": grower,
    }
    native = _NativeModel(vars(booster)["_handle"].value)
    booster.__class__ = booster_class
    cast("PrivateBooster", booster)._adopt(native, of_training)

"""Work of scikit-learn around the `fit` of a private estimator, as seen in the calling frames.

A search fits the estimator once per setting and fold, a calibrator reads the labels again, a scaler learns
from the rows before the estimator sees them: epsilon covers none of it.  Scikit-learn clones estimators and
leaves no other trace in them, so the callers are asked.

A worker of joblib, thread or process, does not show the object that started it.  It does show the function
that the object sent there: scikit-learn's are in its own modules, and one that is written inside a method of
another package's estimator is known by its code.  A plain function of another package's module is not found.
Other threads' frames are not read: CPython 3.11 may free a frame meanwhile, which ends the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures

from lgb_dp.data.provenance import Provenance

_HARMLESS_PACKAGES = frozenset({"base", "compose", "frozen", "pipeline", "utils", "exceptions"})
"""Of scikit-learn: what they add to one fit, if anything, the rules for their classes say."""
_CONTAINERS: Mapping[type, str] = {
    Pipeline: "steps",
    FeatureUnion: "transformer_list",
    ColumnTransformer: "transformers",
}
"""Containers of other transformers, with the attribute that holds them."""
_DENSITY_NOTE = (
    "a ColumnTransformer keeps whether the rows are dense enough for a dense matrix, which depends on all of "
    "them: give the model away without the pipeline, or set sparse_threshold to 0 or 1"
)
_UNKNOWN_CALLER = (
    "the fit was called by {}, about which nothing is known; what else it reads or fits is not covered by "
    "epsilon"
)
_FIT_ONCE = frozenset({"FixedThresholdClassifier", "FrozenEstimator"})
"""Of the other packages: classes that fit one estimator, once, and learn nothing themselves."""


def surroundings(model: BaseEstimator) -> Provenance:
    """Work of the callers of a running `fit` that its guarantee does not cover."""
    several: dict[str, str] = {}
    leaks: list[str] = []
    notes: list[str] = []
    inside = {inner: name for code, name in _foreign_codes() for inner in _codes_inside(code)}
    for frame in _frames_from(sys._getframe(1)):
        module = str(frame.f_globals.get("__name__", ""))
        owner = frame.f_locals.get("self")
        if not isinstance(owner, BaseEstimator):
            package = _sklearn_package(module)
            if package and package not in _HARMLESS_PACKAGES:
                several.setdefault(package, f"sklearn.{package}")
                if not frame.f_code.co_name.startswith("_"):
                    several[package] = frame.f_code.co_name
            elif frame.f_code in inside:
                notes.append(_UNKNOWN_CALLER.format(inside[frame.f_code]))
            continue
        kind = _known_class(owner)
        name = type(owner).__name__
        if kind is None or (_is_foreign(type(owner).__module__) and _is_foreign(module)):
            notes.append(_UNKNOWN_CALLER.format(name))
        if kind is None or kind.__module__.startswith("lgb_dp.") or kind.__name__ in _FIT_ONCE:
            continue
        elif hasattr(owner, "steps"):
            leaks += _preprocessing_leak(name, (step for _, step in owner.steps[:-1]))
            notes += [_DENSITY_NOTE] if any(_looks_at_density(step) for _, step in owner.steps[:-1]) else []
        elif kind.__name__ == "TransformedTargetRegressor":
            leaks += _preprocessing_leak(name, [owner.transformer])
        else:
            several[str(_sklearn_package(kind.__module__))] = name
    for wrapper in several.values():
        leaks.append(
            f"{wrapper} fits several models or reads the labels itself, and epsilon covers one fit only; "
            "lgb_dp.DPRandomizedSearchCV is a search, and lgb_dp.folds a cross-validation, under one budget"
        )
    return Provenance(tuple(dict.fromkeys(leaks)), tuple(dict.fromkeys(notes)))


def _frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _foreign_codes() -> Iterator[tuple[CodeType, str]]:
    """Code of all methods of other packages' estimators, with the names of their classes."""
    kinds = [BaseEstimator]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        for member in vars(kind).values() if _is_foreign(kind.__module__) else ():
            code = getattr(getattr(member, "__func__", member), "__code__", None)
            if isinstance(code, CodeType):
                yield code, kind.__name__


def _codes_inside(code: CodeType) -> Iterator[CodeType]:
    """The code of functions that a function's own text defines, and that of theirs."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes_inside(inner)


def _sklearn_package(module: str) -> str | None:
    """The part of scikit-learn that a module belongs to, such as "model_selection"."""
    root, _, rest = module.partition(".")
    return rest.partition(".")[0] if root == "sklearn" and rest else None


def _is_foreign(module: str) -> bool:
    """Whether a class, or the code of a method, is neither ours nor scikit-learn's."""
    return module.partition(".")[0] not in ("lgb_dp", "sklearn")


def _known_class(owner: BaseEstimator) -> type | None:
    """The first of an object's classes that is ours, or is one of scikit-learn's that does something."""
    for kind in type(owner).__mro__:
        if kind.__module__.startswith("lgb_dp."):
            return kind
        package = _sklearn_package(kind.__module__)
        if package and package not in ("base", "utils"):
            return kind
    return None


def _preprocessing_leak(name: str, steps: Iterable[Any]) -> list[str]:
    fitted = sorted({type(step).__name__ for step in steps if learns_from_rows(step)})
    if not fitted:
        return []
    return [
        f"{', '.join(fitted)} in {name} learned from the private rows before the estimator saw them; public "
        "bounds make scaling needless, and missing values and categories need no encoding"
    ]


def _looks_at_density(transformer: Any) -> bool:
    """Whether the share of zeros in all rows decides if the output is a sparse matrix, which is then kept."""
    if type(transformer) in _CONTAINERS:
        steps = getattr(transformer, _CONTAINERS[type(transformer)])
        if type(transformer) is ColumnTransformer and 0 < transformer.sparse_threshold < 1:
            return not all(_is_dense(step[1]) for step in steps)
        return any(_looks_at_density(step[1]) for step in steps)
    return False


def _is_dense(transformer: Any) -> bool:
    """Whether a dense input of a part is known to give a dense output."""
    if isinstance(transformer, str):  # "passthrough", "drop"
        return True
    if type(transformer) in (OneHotEncoder, OrdinalEncoder):
        return not transformer.get_params().get("sparse_output")
    return type(transformer) in (Normalizer, PolynomialFeatures)


def _has_public_output(transformer: Any) -> bool:
    """Whether it is one of scikit-learn's whose `fit` reads rows only to check them, as its settings are."""
    if type(transformer) in (OneHotEncoder, OrdinalEncoder):
        settings = transformer.get_params()
        declared = not isinstance(settings["categories"], str)
        return declared and settings["min_frequency"] is None and settings["max_categories"] is None
    return type(transformer) is PolynomialFeatures


def learns_from_rows(transformer: Any) -> bool:
    """Whether a transformer's `fit` learns from rows, by its parts' scikit-learn tags; unknown ones do."""
    if transformer is None or isinstance(transformer, str):  # "passthrough", "drop"
        return False
    kind = type(transformer)
    if (kind.__name__ in _FIT_ONCE and not _is_foreign(kind.__module__)) or _has_public_output(transformer):
        return False
    if kind in _CONTAINERS:
        steps = getattr(transformer, _CONTAINERS[kind])
        chosen = [step[2] for step in steps] if kind is ColumnTransformer else []
        if any(callable(columns) and type(columns) is not make_column_selector for columns in chosen):
            return True  # a function of all rows
        inner = [step[1] for step in steps]
        return any(map(learns_from_rows, [*inner, getattr(transformer, "remainder", None)]))
    if not _describes_its_fit(kind):
        return True
    if hasattr(BaseEstimator, "__sklearn_tags__"):
        return bool(transformer.__sklearn_tags__().requires_fit)
    tags = transformer._get_tags()  # scikit-learn before 1.6
    return bool(tags["requires_fit"]) and not tags["stateless"]


def _describes_its_fit(kind: type) -> bool:
    """Whether the class that has the tags also has the `fit`: tags say nothing about a heir's."""

    def place(*names: str) -> int:
        owners = (k for k, base in enumerate(kind.__mro__) if not vars(base).keys().isdisjoint(names))
        return next(owners, len(kind.__mro__))

    of_tags = place("__sklearn_tags__", "_more_tags")
    return of_tags < len(kind.__mro__) and of_tags <= place("fit", "fit_transform", "partial_fit")

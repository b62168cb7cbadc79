"""The statement about a private model: all that its file says, for readers who did not train it."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Literal

import lightgbm

from gbdt_commons._version import __version__
from gbdt_commons.quoting import quoted
from gbdt_commons.statements.registry import fault_of, fields_to_fill, record_of, today
from gbdt_commons.statements.statement import Rows, Statement
from gbdt_hosts.lightgbm import header_lines, settings_in, tree_blocks
from gbdt_hosts.lightgbm.text import block_fields
from lgb_dp.accounting.attack_curve import Curve, attack_curve, chance_of_telling, true_positive_rate
from lgb_dp.accounting.cost import pair_text, printed
from lgb_dp.accounting.ledger import ledger_rows
from lgb_dp.accounting.plotting import budget_shares
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import content_of, evaluation_of, is_shortened, report_in, text_in
from lgb_dp.boosting.training import RELEASED_METADATA
from lgb_dp.data.model_columns import columns_of_model
from lgb_dp.data.tables import TIMES
from lgb_dp.errors import AlteredModelError, InvalidArgumentError
from lgb_dp.evaluation.model import ModelEvaluation

_PARTIES = (
    " Against the parties themselves it holds as the notes say: for so many of them as may pool what they "
    "know."
)
_WEAK = 0.95
"""Chance of telling above which a guarantee is no reason to publish: 19 of 20 attackers are right."""

QUALITY = "Quality on held-out rows"
"""Heading of the evaluation's table."""

_COLUMNS = "Columns, public bounds and categories"
_PUBLIC = "Public bounds and categories of the columns"
_FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1)
_NOT_COVERED = (
    "Not covered: what follows from the population that the rows stand for and would be learned without the "
    "{unit}, too; other results from the same rows that the ledger does not list; the rows themselves, "
    "wherever they are kept; and side channels, such as the time that training takes. The bounds, categories "
    "and parameters below count as public: that they were chosen without looking at the rows is a statement "
    "of those who trained the model."
)
_PAID = (
    " That does not hold for bounds and thresholds that the ledger pays for: they were released from the "
    "rows, under the guarantee."
)
_PAID_COLUMNS = "Columns, released or public bounds, and categories"
_LEAVES: Rows = (
    {
        "from": "each party",
        "to": "coordinator",
        "what": "sums over its rows and its share of the noise, under masks that cancel in the sum over all "
        "parties",
    },
    {
        "from": "coordinator",
        "to": "each party",
        "what": "the masked vectors of the others, who takes part, and the noised sums that follow",
    },
    {"from": "each party", "to": "holders of the model", "what": "the model, which follows from noised sums"},
)


def statement(model: Any, *, fill: Mapping[str, str] | None = None) -> Statement:
    """The guarantee of a private model, as a page, as JSON, and as a record for OpenDP's registry.

    It says no more about the rows than the model itself does.

    Parameters
    ----------
    model : path, str, lightgbm.Booster or fitted estimator
        A model file, the text of one, or a booster, as for `privacy_of`.
    fill : mapping of str to str, optional
        Fields of the registry's record that no model says: "name", "data_curators", "intended_use",
        "data_product_region", "description", "justification" and others.

    Returns
    -------
    Statement
        Its verdict is "void" if something has voided the guarantee, or the trees or the features are not
        those that the guarantee describes.

    Raises
    ------
    ArgumentTypeError
        If `model` is none of these.
    InvalidArgumentError
        If `fill` names another field, or holds something else than texts.
    NoGuaranteeError
        If the model carries no guarantee: it was not trained by `lgb_dp`.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import lightgbm, lgb_dp
    >>> data = lgb_dp.Dataset([[0.1], [0.2], [0.9]], [0, 0, 1], bounds=(0, 1))
    >>> params = {"objective": "binary", "verbosity": -1}
    >>> booster = lightgbm.train(params, data, 2, callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])
    >>> page = lgb_dp.statement(booster, fill={"name": "Claims"}).to_html()
    """
    fill = {} if fill is None else dict(fill)
    if fault := fault_of(fill):
        raise InvalidArgumentError(fault)
    model = getattr(model, "booster_", model)
    content = content_of(model)
    text = text_in(content)
    columns = _schema(text)
    facts = _facts_of_model(text, hashlib.sha256(content).hexdigest())
    try:
        report, evaluation = report_in(text), None if is_shortened(model) else evaluation_of(text)
    except AlteredModelError as error:
        return _altered(str(error), columns, facts, fill)
    return _stated(report, columns, facts, fill, evaluation)


def _stated(
    report: PrivacyReport,
    columns: Rows,
    facts: Mapping[str, object],
    fill: Mapping[str, str],
    evaluation: ModelEvaluation | None = None,
) -> Statement:
    """The statement about a model whose trees are those of its report."""
    curve, unit = attack_curve(report), report.unit.noun
    if not report.private:  # bounds and categories may be the rows' own
        columns = tuple({"column": row["column"], "kind": row["kind"]} for row in columns)
    heading = (_PAID_COLUMNS if _has_paid(report) else _COLUMNS) if report.private else "Columns"
    tables = {"Releases": tuple(ledger_rows(report.ledger)), heading: columns}
    if evaluation is not None:
        figures = evaluation.all_figures().items()
        quality = tuple({"figure": name, "value (95% interval)": str(one)} for name, one in figures)
        tables = {QUALITY: quality, **tables}
    if report.unit.parties:
        tables = {"What leaves whom": _LEAVES, **tables}
    return Statement(
        title=_title(facts),
        verdict=_verdict(report, curve),
        headline=_headline(report, unit, curve) if report.private else "",
        words=_words(report, unit, curve) if report.private else (_VOID,),
        reasons=report.reasons,
        notes=report.notes,
        guarantee=_guarantee(report, unit, curve) if report.private else {},
        unit=unit,
        attack_curve=tuple(map(tuple, curve.tolist())) if report.private else (),
        attacker=tuple(_attacker(curve)) if report.private else (),
        shares=tuple(_shares(report)),
        tables=tables,
        model=facts,
        about=fill,
        to_fill_in=tuple(fields_to_fill(fill)),
        registry=record_of(_known(report, unit, curve, columns), fill, today()),
    )


_VOID = (
    "Nothing limits what an attacker learns about single rows from this model. Treat the model as you treat "
    "the rows that it was trained on."
)


def _altered(error: str, columns: Rows, facts: Mapping[str, object], fill: Mapping[str, str]) -> Statement:
    """The statement about a model other than its report's; nothing of the report is repeated."""
    report = PrivacyReport(math.inf, 0.0, False, (error,), (), ())
    return _stated(report, columns, facts, fill)


def _title(facts: Mapping[str, object]) -> str:
    return f"LightGBM model of {facts['trees']} trees, objective {facts['objective']}"


def _verdict(report: PrivacyReport, curve: Curve) -> Literal["guarantee", "weak", "void"]:
    if not report.private:
        return "void"
    return "weak" if chance_of_telling(curve) > _WEAK else "guarantee"


def _headline(report: PrivacyReport, unit: str, curve: Curve) -> str:
    is_weak = _verdict(report, curve) == "weak"
    begin = "The guarantee of this model limits hardly anything" if is_weak else "This model is private"
    return (
        f"{begin}: {pair_text(report.epsilon, report.delta)} per {unit}. An "
        f"attacker who must tell whether a {unit} was among the data is right at most "
        f"{_at_most(chance_of_telling(curve))} of the time, where guessing is right 50% of the time."
    )


def _words(report: PrivacyReport, unit: str, curve: Curve) -> tuple[str, ...]:
    whole = f"all rows of one {unit}" if unit == "person" else "one row"
    factor = math.exp(report.epsilon) if report.epsilon < 700.0 else math.inf
    up_to = f", up to a probability of {printed(report.delta, 3)}" if report.delta else ""
    return (
        f"Whether {whole} took part changes the probability of every outcome of training by a factor of "
        f"e^epsilon = {printed(factor, 4)} at most{up_to} ({report.neighbouring}). This holds against every "
        "holder of the model, with any knowledge and any computing power, and for everything that is ever "
        "derived from it." + (_PARTIES if report.unit.parties else ""),
        f"An attacker who accepts to be wrong about 1% of those who did not take part finds at most "
        f"{_at_most(true_positive_rate(curve, 0.01))} of those who did.",
        _NOT_COVERED.format(unit=unit) + (_PAID if _has_paid(report) else ""),
    )


def _has_paid(report: PrivacyReport) -> bool:
    """Whether bounds or thresholds were released from the rows."""
    return any(row["release"] == RELEASED_METADATA for row in report.ledger)


def _guarantee(report: PrivacyReport, unit: str, curve: Curve) -> dict[str, object]:
    facts: dict[str, object] = {"epsilon": report.epsilon, "delta": report.delta}
    if report.cost.mu:
        facts["mu of Gaussian releases on all rows"] = report.cost.mu
    facts |= {
        "unit": unit,
        "neighbouring relation": report.neighbouring,
        "epsilon, replacing one": report.replace_one[0],
        "delta, replacing one": report.replace_one[1],
        "an attacker is right at most": _at_most(chance_of_telling(curve)),
    }
    if report.spent != (report.epsilon, report.delta):
        facts["epsilon spent (information)"], facts["delta spent (information)"] = report.spent
    return facts


def _shares(report: PrivacyReport) -> Iterator[tuple[str, str, float]]:
    """Shares of the budget, and of how much."""
    cost = report.cost
    wholes = {
        "ε": f"ε = {printed(cost.epsilon, 3)}, δ = {printed(cost.delta, 3)}" if cost.epsilon else "ε",
        "μ²": f"μ² = {printed(cost.mu * cost.mu, 3)}" if cost.mu else "μ²",
    }
    for name, kind, share in budget_shares(report):
        yield name, wholes[kind], share


def _attacker(curve: Curve) -> list[Mapping[str, object]]:
    return [
        {"false positive rate": f"{fpr:.1%}", "true positive rate at most": _at_most(rate)}
        for fpr, rate in ((fpr, true_positive_rate(curve, fpr)) for fpr in _FALSE_ALARMS)
    ]


def _at_most(share: float) -> str:
    """A share in percent, rounded up."""
    return f"{min(math.ceil(share * 1000) / 10, 100.0):.1f}%"


def _schema(text: str) -> Rows:
    """Columns with what is public of them."""
    try:
        columns = columns_of_model(text)
    except AlteredModelError:
        return ()
    header = header_lines(text)
    names = columns.names or header.get("feature_names", "").split()
    rows = []
    for feature, info in enumerate(header.get("feature_infos", "").split()):
        name = names[feature] if feature < len(names) else f"column {feature}"
        known = columns.categories.get(feature, columns.codes.get(feature))
        if known is None and ":" in info and not info.startswith("["):
            known = tuple(info.split(":"))
        bounds = re.fullmatch(r"\[([^:\]]+):([^:\]]+)\]", info)
        if known is not None:
            kind, public = "categories", ", ".join(quoted(str(value)) for value in known)
        elif bounds:
            kind = columns.times.get(feature, "number")
            public = " to ".join(_bound(bound, kind) for bound in bounds.groups())
        else:
            kind, public = "number", "not used"
        rows.append({"column": quoted(name), "kind": kind, "bounds or categories": quoted(public, 5000)})
    return tuple(rows)


def _bound(text: str, kind: str) -> str:
    """A bound of a column: of datetimes, which the model has in seconds since 1970 (UTC), as a datetime."""
    try:
        if kind == "datetime":
            return datetime.fromtimestamp(float(text), timezone.utc).isoformat(" ").removesuffix("+00:00")
    except (ValueError, OverflowError, OSError):
        pass  # a time that no calendar has
    return f"{text} seconds" if kind in TIMES else text


def _facts_of_model(text: str, digest: str) -> dict[str, object]:
    header, settings = header_lines(text), settings_in(text)
    trees = [block_fields(block) for block in tree_blocks(text)]
    splits, values, counts = (
        [word for tree in trees for word in tree.get(name, "").split()]
        for name in ("split_feature", "leaf_value", "leaf_count")
    )
    # Of sums that were noised; trainers that release no counts write zeros.
    known = [int(word) for word in counts if re.fullmatch("[0-9]{1,18}", word) and int(word)]
    return {
        "SHA-256": digest,
        "objective": quoted(header.get("objective", "unknown")),
        "trees": len(trees),
        "splits": len(splits),
        "leaf values": len(values),
        **({"smallest count of a leaf, noised": min(known)} if known else {}),
        "columns": len(header.get("feature_names", "").split()),
        **{quoted(key): quoted(value) for key, value in settings.items() if key != "objective"},
        "statement written by": f"veilboost {__version__}, LightGBM {lightgbm.__version__} "
        f"on {today()} (UTC)",
    }


def _known(report: PrivacyReport, unit: str, curve: Curve, columns: Rows) -> dict[str, object]:
    """The fields of the registry's record that the model says."""
    if report.private:
        parameters: dict[str, object] = {"epsilon": report.epsilon}
        if report.delta:
            parameters["delta"] = report.delta
        variant = "Approximate DP" if report.delta else "Pure DP"
        public = "Categories of the columns" if _has_paid(report) else _PUBLIC
        unprotected = f"{public}, parameters and the number of trees. "
        details = _details(report, unit, curve)
    else:
        parameters, variant, unit = {}, "Custom", "none"
        unprotected = "All: the guarantee is void because " + "; ".join(report.reasons) + ". "
        details = "None: the guarantee is void. This record must not be submitted."
    distributed = report.unit.parties is not None
    mechanisms = sorted({str(row["mechanism"]) for row in report.ledger} - {"composed"})
    return {
        "data_product_type": "Machine learning model",
        "variant_name": variant,
        "data_domain": _domain(columns) if report.private else "Not stated: the guarantee is void.",
        "unprotected_quantities": unprotected + " ".join(f"{note}." for note in report.notes),
        "privacy_unit": unit.capitalize(),
        "privacy_unit_details": f"Adjacent data sets: {report.neighbouring}."
        if report.private
        else "None: the guarantee is void.",
        "privacy_parameters": parameters,
        "privacy_parameters_details": details,
        "model_name": "Federated" if distributed else "Central",
        "model_name_details": _FEDERATED if distributed else _CENTRAL,
        "actors": _FEDERATED_ACTORS if distributed else _ACTORS,
        "release_type": "One release",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
        "access_type_details": "The model is published as it is; the rows are not asked again.",
        "post_processing": "Leaf values and, with NewtonBoost, later splits and step sizes follow from the "
        "releases and cost nothing.",
        "composition": "Sequential over the releases of the ledger; of releases on disjoint rows, the most "
        "expensive counts. Gaussian releases compose by the squares of mu (Gaussian DP), others by sums of "
        "epsilon and delta. "
        + ("Earlier results on the same rows are paid from one budget." if report.budget else ""),
        "mechanisms": f"{', '.join(mechanisms) or 'None'}; implemented by veilboost, whose noise is drawn "
        "exactly, as integers added to integer sums, from the operating system's randomness, so that "
        "floating-point attacks do not apply. Times of computation are not protected.",
        "notes": "Written by the command veilboost statement from the model's file.",
    }


def _domain(columns: Rows) -> str:
    described = (f"{row['column']} ({row['kind']}: {row['bounds or categories']})" for row in columns)
    return f"Tables with these columns, values outside of the bounds being clipped: {'; '.join(described)}."


_CENTRAL = "The rows are in one place; noise is added before anything leaves the training process."
_FEDERATED = (
    "Rows stay with several parties. Only masked sums leave them, to which every party has added a share of "
    "the noise."
)
_ACTORS = (
    "The organisation that trains sees the rows and is trusted with them. Holders of the model, and of "
    "anything derived from it, need not be trusted."
)
_FEDERATED_ACTORS = (
    "Each party sees its own rows only. The coordinator and the other parties see the noised sums. Parties "
    "that pool their knowledge are covered up to the number that the notes name. Holders of the model need "
    "not be trusted."
)


def _details(report: PrivacyReport, unit: str, curve: Curve) -> str:
    mu = report.cost.mu
    of_all_rows = f"Gaussian releases on all rows: mu = {printed(mu, 6)} of Gaussian DP; " if mu else ""
    return (
        f"{of_all_rows}replacing one {unit}: {pair_text(*report.replace_one)}. An attacker tells whether a "
        f"{unit} was among the data with a probability of at most {_at_most(chance_of_telling(curve))} at "
        "even odds."
    )

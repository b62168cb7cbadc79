"""The card of a model: what it is for whom, how private, how good, and who sent what to whom in training."""

from __future__ import annotations

import json
import math
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from inspect import getdoc
from os.path import relpath
from pathlib import Path
from urllib.parse import quote

import numpy as np

from gbdt_commons.files import SIGNATURES
from gbdt_commons.html_tables import html_list
from gbdt_commons.quoting import quoted
from gbdt_commons.statements.page import html_bars, html_facts, html_page, html_words
from gbdt_commons.statements.registry import OPEN_FIELDS
from gbdt_commons.statements.statement import Rows, Statement, bar_svg, curve_svg
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.messages import KINDS
from lgb_dp.boosting.booster import evaluation_of
from lgb_dp.errors import PrivateTrainingError
from lgb_dp.evaluation.evaluation import PrivateEvaluation
from lgb_dp.explaining.bootstrap import Bootstrap
from lgb_dp.explaining.effects import Z, effects
from lgb_dp.explaining.importances import NOT_DISTINGUISHABLE, importances
from lgb_dp.statements import QUALITY
from veilboost.inspection import signed_end
from veilboost.model_statements import LEAVES, TRAFFIC, file_of, native_model
from veilboost.pages.drawings import chart, flows_of, marked_bar, traffic
from veilboost.pages.markup import PAGE_STYLE, Markup, command, joined, section, table, tag
from xgb_fed.vertical.model.model import MODEL_FILE, VerticalModel

MOST = 15
"""Columns that are shown by importance."""

_ABOUT = ("name", "intended_use")
_UNSIGNED = "Unsigned: everything here is as its file says, and a forger can have written that."
_CLEAR = (
    "“Ciphertexts” are bytes that only the holder of a key reads. All others count as in clear: counts, "
    "names, settings and, with rows apart, sums under masks, of which only the sum over all parties opens. "
    "Between machines all of it travels inside TLS, which third parties do not read."
)
_ALONE = "The model's file tells of no parties. --record draws the traffic of a run between parties."
_UNMEASURED = {
    "none": "The model's file has no figures of its quality; the log of its training run has.",
    "void": "The report, which is void, has no figures of the model's quality that may be repeated.",
}
_HOLD_OUT = (
    "The model says nothing of its quality. Training with validation_fraction=0.1 measures it on held-out "
    "rows, within the same guarantee."
)
_REFITS, _LEADING, _MOST_WORK = 8, 6, 5e7
"""Repeated runs, effects that are drawn, and rows times trees and columns of a run: a minute or two."""

_NOISE = (
    "Shares of the total gain, with the floor (red line) that noise alone stays below in 95 of 100 models; "
    "effects on raw scores, with 95% bands, of the first columns above it. They follow from runs on made-up "
    "rows, by released numbers alone."
)
_GAINS = (
    "Shares of the total gain of all splits. They say what the model uses, not what causes the outcome. "
    "Splits of another party count together: its columns are not known here."
)


def card_of(model: str, statement: Statement, link: str | None = None) -> str:
    """The card of a model's file or folder, as a page that needs nothing beside itself.

    Its facts are those of the model's statement, and `link` is the address of that one's own page.
    """
    path, tables = file_of(Path(model)), dict(statement.tables)
    quality, leaves, sent = (tables.pop(name, ()) for name in (QUALITY, LEAVES, TRAFFIC))
    drawing = traffic(flows_of(sent or leaves))
    parts = [
        statement.html_verdict("Model card"),
        section("What it is, and for whom", Markup(html_facts(_about(statement.about)))),
        section(
            "The guarantee in words",
            *(Markup(f"<p>{html_words(text)}</p>") for text in statement.words),
            tag("p", _signed(path)),
        ),
        section("How good is it?", *_quality(path, statement, table(quality))),
        section("What the model uses", *_uses(path, statement.verdict)),
        section(
            "Who sent what to whom",
            drawing,
            table(leaves),
            *([tag("p", _CLEAR), _counted(sent)] if sent else [] if leaves else [tag("p", _ALONE)]),
        ),
        *(section(title, table(rows)) for title, rows in tables.items()),
        section("The guarantee in numbers", Markup(html_facts(statement.guarantee))),
        Markup(statement.html_attack()),
        section("Limits", Markup(html_list(statement.notes))),
        section("The model", Markup(html_facts(statement.model))),
        section("Statement", _statement(model, link)),
    ]
    return html_page(f"Model card: {statement.title}", parts, PAGE_STYLE)


def link_to(statement: str, out: Path, digest: object) -> str:
    """The address of a statement's page from a card's folder; an error unless it is of the same model."""
    page = Path(statement)
    try:
        facts = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))["model"]
        is_same = page.exists() and facts["SHA-256"] == digest
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        is_same = False
    if not is_same:
        raise InvalidDataError(
            f"--statement {statement} must be the page of this model's statement, with its JSON beside it: "
            "write it by veilboost statement"
        )
    return quote(Path(relpath(page, out.parent)).as_posix())


def _about(given: Mapping[str, str]) -> dict[str, str]:
    hints = {name: f"not said (--fill {name}=…): {OPEN_FIELDS[name]}" for name in _ABOUT}
    return {name.replace("_", " "): text for name, text in (hints | dict(given)).items()}


def _signed(path: Path) -> str:
    signatures = path.with_suffix(SIGNATURES)
    if path.suffix not in (".json", ".txt") or not signatures.exists():
        return _UNSIGNED
    end = signed_end(signatures)[0]
    return f"Signed by {len(end.signers)} of {len(end.roster.names)} parties; veilboost inspect names them."


def _quality(path: Path, statement: Statement, figures: Markup) -> Iterator[Markup]:
    if not figures:
        yield tag("p", _UNMEASURED.get(statement.verdict, _HOLD_OUT))
        return
    yield figures
    evaluation = evaluation_of(path)
    if isinstance(evaluation, PrivateEvaluation):
        points = [(float(x), float(y)) for x, y in zip(*evaluation.roc(), strict=True)]
        yield tag("figure", Markup(curve_svg(points, "ROC curve on held-out rows")))


def _uses(path: Path, verdict: str) -> Iterator[Markup]:
    """The columns of a model by their gains; of private ones, beside the gains of noise."""
    gains = defaultdict[str, float](float)
    if path.name == MODEL_FILE:
        model = VerticalModel.load(path.parent)
        for name, gain in model.importances("total_gain").items():
            own = name in model.splits.names
            gains[name if own else f"{name.rpartition(': split ')[0]} (all its columns)"] += gain
    elif (content := path.read_bytes())[:1] == b"{":
        native, names = native_model(path, content)
        for tree in native.trees:
            splits = zip(tree["left_children"], tree["split_indices"], tree["loss_changes"], strict=True)
            for left, feature, gain in splits:
                if left >= 0:
                    gains[names[feature]] += gain
    elif verdict in ("guarantee", "weak"):
        yield from _beside_noise(path)
    if 0 < (whole := sum(gains.values())) < math.inf and min(gains.values()) >= 0:
        most = sorted(gains, key=gains.__getitem__, reverse=True)[:MOST]
        shares = [(quoted(name), gains[name] / whole) for name in most]
        yield Markup(html_bars([(name, bar_svg(share, "epsilon"), f"{share:.1%}") for name, share in shares]))
        yield tag("p", _GAINS)


def _beside_noise(path: Path) -> Iterator[Markup]:
    """Importances of a private model with their floor, and effects of leading columns with bands."""
    try:
        run, booster = (bootstrap := Bootstrap(path)).run, bootstrap.booster
        if run.n_rows * (booster.num_trees() + booster.num_feature()) > _MOST_WORK:
            raise PrivateTrainingError("repeating its run takes long; lgb_dp.plot_effects(model) draws them")
        found = importances(path, n=_REFITS, random_state=0)
        most = np.argsort(-found.gain, kind="stable")[:MOST].tolist()
        leading = [f for f in most if found.stands_out[f]][: max(_LEADING // bootstrap.n_outputs, 1)]
        drawn = effects(path, leading, n=_REFITS, random_state=0) if leading else {}
    except (PrivateTrainingError, ArithmeticError, ValueError) as error:  # it may be somebody else's model
        yield tag("p", f"Importances and effects are not shown: {error}.")
        return
    gain, floor = (np.nan_to_num(one, posinf=0.0).clip(0.0) for one in (found.gain, found.floor))
    whole, bars = float(gain.sum()) or 1.0, []
    for f in most:
        bar = marked_bar(gain[f] / whole, floor[f] / whole, "used" if found.stands_out[f] else "noise")
        words = f"{gain[f] / whole:.1%}" + f", {NOT_DISTINGUISHABLE}" * (not found.stands_out[f])
        bars.append((quoted(found.features[f]), bar, words))
    yield from (Markup(html_bars(bars)), tag("p", _NOISE))
    for name, one in drawn.items():
        for k in range(bootstrap.n_outputs):
            yield tag(
                "h3", title := f"Effect of {quoted(name)}" + f" on class {k}" * (bootstrap.n_outputs > 1)
            )
            numbers = one.effect[:, k].tolist(), (Z * one.std[:, k]).tolist()
            if one.labels:
                rows = zip(one.labels, *numbers, strict=True)
                yield table({"value": v, "effect": f"{e:+.3f} ± {r:.3f}"} for v, e, r in rows)
            else:
                ends, points = one.values[[0, -1]], list(zip(one.values.tolist(), *numbers, strict=True))
                yield chart(f"{title}, with its band", points, (f"{ends[0]:.4g}", f"{ends[1]:.4g}"))


def _counted(sent: Rows) -> Markup:
    """The sums of a record, with each kind of message in words."""
    told = {cls.__name__: (getdoc(cls) or "").partition("\n")[0] for cls in KINDS.values()}
    shown = ("from", "to", "count", "bytes", "ciphertext_bytes", "message")
    rows = (
        {name: row[name] for name in shown} | {"in words": told.get(str(row["message"]), "")} for row in sent
    )
    return tag("details", tag("summary", "Each kind of message in the record"), table(rows))


def _statement(model: str, link: str | None) -> Markup:
    if link is not None:
        return tag("p", tag("a", "The full statement", href=link), ", with the registry's record beside it.")
    said = tag("p", "The full statement for data protection officers and registries is written by:")
    return joined([said, command(f"veilboost statement {shlex.quote(model)}")])

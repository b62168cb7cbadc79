"""Exact horizontal training by the command: the coordinator's part."""

from __future__ import annotations

import logging
import warnings
from contextlib import ExitStack

from gbdt_parties.channel import Party
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.identity.record import write_traffic
from gbdt_parties.traffic import Traffic
from veilboost.model_folders import check_free
from veilboost.plans.plan import ExactPlan
from veilboost.plans.tables import Table, read_table
from veilboost.running.connections import connect
from veilboost.running.simfl import MODEL_FILE, OBJECTIVES, write_model
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.errors import FewPartiesWarning
from xgb_fed.horizontal.exact.checkpoint import ExactCheckpoint
from xgb_fed.horizontal.exact.terms import ExactTerms
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.train_exact import train_exact

logger = logging.getLogger(__name__)


def train(plan: ExactPlan, overwrite: bool) -> None:
    """Coordinate an exact training run, and write the model."""
    directory, training = plan.path(plan.training.model), plan.training
    check_free(directory / MODEL_FILE, overwrite)
    checkpoint, traffic = plan.path(training.checkpoint), Traffic()
    with ExitStack() as stack, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FewPartiesWarning)
        own = [] if plan.data.file is None else [_own_party(plan, plan.data.file, stack)]
        parties: list[Party] = [*own, *connect(plan, training.timeout, stack)]
        try:
            model = train_exact(
                {"objective": OBJECTIVES[plan.data.labels], **plan.parameters},
                parties,
                training.rounds,
                cuts=training.cuts,
                min_rows_per_node=training.min_rows_per_node,
                min_parties=training.min_parties,
                early_stopping_rounds=training.early_stopping_rounds,
                verbose_eval=False,
                traffic=traffic,
                checkpoint=checkpoint,
                patience=training.patience,
            )
        finally:
            write_traffic(plan.path(training.record), traffic)
            for one in warned:
                logger.warning("%s", one.message)
    # Once more: somebody else's may be there by now.
    check_free(directory / MODEL_FILE, overwrite)
    write_model(directory, model)
    ExactCheckpoint(checkpoint).clear()
    print(f"{model.booster.num_boosted_rounds()} rounds with {len(parties)} parties: {directory}")


def _own_party(plan: ExactPlan, file: str, stack: ExitStack) -> HorizontalParty:
    """The coordinator's own rows, as a party in this process; its demands are those of the plan."""
    data, training, tls = plan.data, plan.training, TLS.from_directory(plan.path(plan.tls))
    table, held_out = _table(plan, file), []
    if data.valid is not None:
        valid = _table(plan, data.valid)
        held_out = [(valid.columns, valid.label)]
    party = HorizontalParty(
        table.columns,
        table.label,
        Identity.of(tls.certificate).name,
        categorical_labels=data.labels == "classes",
        max_rows=data.max_rows,
        max_rounds=data.max_rounds,
        directory=plan.path(data.state),
        exact=ExactTerms(
            min_rows_per_node=training.min_rows_per_node,
            min_parties=training.min_parties,
            cuts=[training.cuts],
            max_bin=MAX_BINS,
            held_out=held_out,
            tls=tls,
            allowed=data.allowed,
            max_samples=data.max_samples,
        ),
    )
    stack.callback(party.close)
    return party


def _table(plan: ExactPlan, file: str) -> Table:
    data = plan.data
    return read_table(plan.path(file), id_column=data.id, label=data.label, drop=data.drop)

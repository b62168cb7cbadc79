"""Private horizontal training by the command: the coordinator's part, and predictions by the model."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from contextlib import ExitStack

from gbdt_commons.files import make_folder, write_atomically
from gbdt_parties.channel import Party
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.identity.record import write_traffic
from gbdt_parties.traffic import Traffic
from lgb_dp import DPBooster, NewtonBoost, federated
from lgb_dp.federated.checkpoint import Checkpoint
from veilboost.model_folders import check_free
from veilboost.plans.declared import read_declared
from veilboost.plans.plan import PlanError, PrivatePlan
from veilboost.running.connections import connect
from veilboost.running.predictions import write_predictions

logger = logging.getLogger(__name__)
MODEL_FILE = "model.txt"
"""In the model's folder: LightGBM's model, with the guarantee inside."""


def train(plan: PrivatePlan, overwrite: bool) -> None:
    """Coordinate a private training run, and write the model."""
    directory, training = plan.path(plan.training.model), plan.training
    check_free(directory / MODEL_FILE, overwrite)
    checkpoint, traffic = plan.path(training.checkpoint), Traffic()
    with ExitStack() as stack, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", federated.FewPartiesWarning)
        own = [] if plan.data.file is None else [_own_party(plan, plan.data.file, stack)]
        parties: list[Party] = [*own, *connect(plan, training.timeout, stack)]
        try:
            booster = federated.train(
                plan.parameters,
                parties,
                training.rounds,
                callbacks=[NewtonBoost(training.epsilon, training.delta)],
                min_parties=training.min_parties,
                colluding=training.colluding,
                max_attempts=training.max_attempts,
                parties_per_person=training.parties_per_person,
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
    make_folder(directory)
    write_atomically(directory / MODEL_FILE, booster.model_to_string(num_iteration=-1))
    Checkpoint(checkpoint).clear()
    report = booster.privacy
    print(
        f"{booster.num_trees()} trees with {len(parties)} parties: {directory}; epsilon = "
        f"{report.epsilon:.6g}, delta = {report.delta:.3g} ({report.neighbouring})"
    )


def _own_party(plan: PrivatePlan, file: str, stack: ExitStack) -> federated.Party:
    """The coordinator's own rows, as a party in this process."""
    data, tls = plan.data, TLS.from_directory(plan.path(plan.tls))
    assert data.declared is not None
    declared = read_declared(plan.path(data.declared))
    rows = declared.table_of(plan.path(file))
    budget = None
    if data.budget_epsilon is not None and data.budget_delta is not None:
        budget = (data.budget_epsilon, data.budget_delta)
    party = federated.Party(
        rows.features,
        rows.label,
        name=Identity.of(tls.certificate).name,
        folder=plan.path(data.state),
        budget=budget,
        min_parties=data.min_parties,
        colluding=data.colluding,
        tls=tls,
        allowed=data.allowed,
        **declared.arguments(),
        **rows.own,
    )
    stack.callback(party.close)
    return party


def predict(plan: PrivatePlan, args: argparse.Namespace) -> None:
    """Predict rows of a file by the model; no other party is asked."""
    model, data = plan.path(plan.training.model) / MODEL_FILE, plan.data
    if not model.exists():
        raise FileNotFoundError(f"{model.parent} holds no model; train first")
    if data.declared is None:
        raise PlanError("the plan has no data.declared, which says how columns are read")
    file = args.data or (None if data.file is None else plan.path(data.file))
    if file is None:
        raise PlanError("--data is missing, and the plan has no data.file")
    rows = read_declared(plan.path(data.declared)).table_of(file, id_column=data.id, labelled=False)
    predictions = DPBooster(model_file=model).predict(rows.features)
    write_predictions(args.out, rows.ids, predictions)
    text = f"{len(rows.ids)} of {len(rows.ids)} rows predicted"
    print(
        text if args.out == "-" else f"{text}: {args.out}", file=sys.stderr if args.out == "-" else sys.stdout
    )

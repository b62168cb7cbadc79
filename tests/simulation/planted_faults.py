"""Faults that are planted in the code, each of which the simulation must find: one function for each."""

import hashlib
import os
from dataclasses import replace
from itertools import count
from unittest.mock import patch

import numpy as np

from gbdt_commons import store_connection
from gbdt_commons.key_stream import KeyStream
from gbdt_commons.store_connection import HeldFile
from gbdt_parties.run import coordinator
from gbdt_parties.run.flights.connection import Connected
from gbdt_parties.run.flights.kept import Kept
from gbdt_parties.run.log import ANSWERS, RunLog
from gbdt_parties.run.progress import Progress
from gbdt_parties.secure_sum import contributions
from lgb_dp.federated import run as private_run
from lgb_dp.federated.ledger import PartyLedger
from lgb_dp.federated.run import PrivateSubject
from xgb_fed.horizontal.common.party_state import PartyState
from xgb_fed.horizontal.exact.run import ExactSubject
from xgb_fed.horizontal.simfl.journal import RunJournal
from xgb_fed.vertical.passive.disclosed_statistics import DisclosedStatistics
from xgb_fed.vertical.passive.journal import SplitsJournal
from xgb_fed.vertical.training.checkpoint import VerticalJournal

NUMBERS = count()
FAULTS = {}
"""By name, the mode that has the fault, and a context in which it is there."""


def planted(mode, owner, name):
    """Register a function as the fault that takes the place of an attribute, which it is given first."""

    def register(function):
        sound = getattr(owner, name)

        def faulty(*args, **how):
            return function(sound, *args, **how)

        FAULTS[function.__name__] = mode, lambda: patch.object(owner, name, faulty)
        return function

    return register


def answered(log, number, asked):
    """An answer that was given before, if there is one."""
    digest = hashlib.sha256(asked).digest()
    return next((one for one in log.store.entries(ANSWERS, "") if one.number == number), None), digest


# Charges and answers of secure sums.


@planted("private", RunLog, "answer")
def charge_in_a_transaction_after_the_answer(sound, log, number, asked, make, pay, *, sync=True):
    was_known = log.knows(number)
    content = sound(log, number, asked, make, lambda: None, sync=sync)
    if not was_known:
        pay()
    return content


@planted("private", RunLog, "answer")
def charge_in_a_transaction_before_the_answer_again_each_time(sound, log, number, asked, make, pay, **how):
    pay()
    return sound(log, number, asked, make, lambda: None, **how)


@planted("private", RunLog, "answer")
def answer_recomputed_with_fresh_noise(sound, log, number, asked, make, pay, **how):
    content = sound(log, number, asked, make, pay, **how)
    return content if log.store.size(ANSWERS, "") == 1 else make()


@planted("private", RunLog, "answer")
def answer_recomputed_after_a_restart_only(sound, log, number, asked, make, pay, **how):
    was_known = log.knows(number)
    content = sound(log, number, asked, make, pay, **how)
    return make() if was_known else content


@planted("private", RunLog, "answer")
def answer_leaves_before_it_is_on_the_disk(sound, log, number, asked, make, pay, *, sync=True):
    return sound(log, number, asked, make, pay, sync=False)


@planted("private", RunLog, "answer")
def answer_leaves_although_the_disk_is_full(sound, log, number, asked, make, pay, **how):
    try:
        return sound(log, number, asked, make, pay, **how)
    except OSError:
        return make()


@planted("private", RunLog, "answer")
def answer_given_to_whatever_has_its_number(sound, log, number, asked, make, pay, **how):
    found, _ = answered(log, number, asked)
    return found.content if found else sound(log, number, asked, make, pay, **how)


@planted("private", RunLog, "answer")
def answer_kept_and_never_charged_for(sound, log, number, asked, make, pay, **how):
    return sound(log, number, asked, make, lambda: None, **how)


@planted("private", PartyLedger, "charge")
def charge_forgotten_when_the_process_was_restarted(sound, ledger, run, note, granted, budget):
    if ledger.charges() and getattr(ledger, "n_here", 0) == 0:
        ledger.n_here = 1
        return
    ledger.n_here = 1
    sound(ledger, run, note, granted, budget)


@planted("private", contributions, "mask_stream")
def nonce_of_masks_reused_in_a_second_attempt(sound, secret, pair, roster, attempt):
    return sound(secret, pair, roster, attempt[:8])


@planted("private", PrivateSubject, "vector")
def noise_from_a_seed_that_restarts_with_the_process(sound, subject, question, n_members, noise_key):
    if not hasattr(subject, "stream"):
        subject.stream = KeyStream(bytes(32))
    return sound_with(subject.stream, sound, subject, question, n_members)


def sound_with(stream, sound, subject, question, n_members):
    share = private_run.release_share
    with patch.object(private_run, "release_share", lambda sums, variance, _: share(sums, variance, stream)):
        return sound(subject, question, n_members, None)


FAULTS["numbers_of_attempts_begin_anew_with_the_coordinator"] = (
    "private",
    lambda: patch.object(coordinator, "ATTEMPTS_PER_START", 0),
)


# Stores.


@planted("private", HeldFile, "confirm")
def store_does_not_note_what_was_confirmed(sound, file):
    pass


@planted("private", HeldFile, "roll_back")
def transaction_that_failed_is_not_taken_back(sound, file):
    pass


def unlocked(path):
    """A file beside the store that no one locks."""
    return open(f"{path}-lock", "r+b" if os.path.exists(f"{path}-lock") else "w+b", buffering=0)


FAULTS["lock_forgotten"] = "private", lambda: patch.object(store_connection, "locked", unlocked)


# Exact rows apart.


@planted("exact", RunLog, "begin")
def run_not_kept_before_its_first_answer(sound, log, record, *most):
    if "agreement" not in record:
        sound(log, record, *most)


@planted("exact", PartyState, "count_run")
def rounds_of_a_run_not_counted(sound, state, run, n_rounds, max_rounds):
    pass


@planted("exact", ExactSubject, "vector")
def answer_follows_from_the_process(sound, subject, question, n_members, noise_key):
    values = question.values.copy()
    values.flat[0] += np.uint64(subject.__dict__.setdefault("number", next(NUMBERS)))
    return values


@planted("exact", Progress, "note_model")
def model_not_kept_before_parties_forget_the_run(sound, progress, content, end):
    progress.model, progress.signatures = content, end.to_json()


@planted("exact", Progress, "opened")
def party_that_returns_is_sent_the_last_sum_only(sound, progress, number):
    return sound(progress, progress.n_opened - 1)


# Columns apart.


@planted("columns", Kept, "charge")
def shares_leave_uncharged(sound, kept, charge, pay):
    sound(kept, charge, lambda: None)


@planted("columns", Kept, "charge")
def shares_charged_for_in_a_transaction_of_their_own(sound, kept, charge, pay):
    sound(kept, charge, lambda: None)
    pay()


@planted("columns", Kept, "begin")
def number_of_an_attempt_not_kept(sound, kept, attempt):
    pass


@planted("columns", Connected, "draws")
def draws_named_by_the_round_alone(sound, connected, purpose, *parts):
    return connected.session.draws(hashlib.sha256(purpose + b"".join(parts[1:])).digest())


@planted("columns", Connected, "catch_up")
def last_flight_not_sent_again(sound, connected, open_with, has_made):
    return
    yield


@planted("columns", Kept, "charge")
def shares_leave_before_their_charge_is_on_the_disk(sound, kept, charge, pay):
    with kept.store.transaction(sync=False):
        sound(kept, charge, pay)


@planted("columns", Kept, "open")
def last_flight_leaves_before_it_is_on_the_disk(sound, kept, opening, signature):
    with kept.store.transaction(sync=False):
        sound(kept, opening, signature)


# SecureBoost.


@planted("secureboost", SplitsJournal, "keep")
def splits_told_before_they_are_kept(sound, journal):
    pass


@planted("secureboost", RunLog, "keep")
def splits_told_before_they_are_on_the_disk(sound, log, kind, entry):
    with log.runs.transaction(sync=False):
        sound(log, kind, entry)


@planted("secureboost", DisclosedStatistics, "add")
def sums_given_uncounted(sound, given, *what):
    pass


@planted("secureboost", VerticalJournal, "add_round")
def margins_of_a_round_not_kept(sound, journal, progress, eval_leaves):
    pass


@planted("secureboost", VerticalJournal, "add_tree")
def tree_not_kept_before_the_next_one(sound, journal, progress):
    if not journal.n_steps:
        sound(journal, progress)


# SimFL.


@planted("simfl", PartyState, "count_round")
def round_not_counted_before_its_trees_leave(sound, state, run, number, max_rounds):
    pass


@planted("simfl", RunJournal, "add")
def trees_leave_before_they_are_kept(sound, journal, trees, is_own):
    journal.rounds.append((trees, is_own))


@planted("simfl", RunJournal, "take_up")
def trees_of_a_run_taken_up_have_other_draws(sound, log, rows):
    journal = sound(log, rows)
    journal.start = replace(journal.start, tree_seed=journal.start.tree_seed + 1)
    return journal

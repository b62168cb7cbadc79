"""The outside auditors: they load without their packages, say by name what is not run, and have targets."""

import importlib
import os
import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import ttest_ind

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
pytest.importorskip("nacl")

from audits import slow_sums as slow  # noqa: E402
from audits.outcome import HONEST, MEASURED, PLANTED, Audit, Line  # noqa: E402
from gbdt_commons.errors import VeilboostError  # noqa: E402
from lgb_dp.accounting.gaussian import gaussian_mu  # noqa: E402
from lgb_dp.mechanisms import noise  # noqa: E402

OUTSIDE = (
    "phe",
    "heu",
    "heu.phe",
    "lightphe",
    "torch",
    "sacroml",
    "privacy_estimates",
    "dp_auditorium",
    "dp_recorder",
    "atheris",
)
AUDITORS = ("attacks", "auditorium", "ciphers", "fuzz", "recorder", "releases", "sums", "timing")


@pytest.fixture
def without_packages(monkeypatch):
    for name in OUTSIDE:
        monkeypatch.setitem(sys.modules, name, None)


def in_a_process(name, parent):
    return [Line("auditor", name, "another process", os.getpid() != parent, os.environ["OMP_NUM_THREADS"])]


def loaded(name):
    return importlib.import_module(f"audits.{name}")


@pytest.mark.parametrize("name", AUDITORS)
def test_auditors_load_without_their_packages_and_state_their_limits(name, without_packages):
    assert len(loaded(name).LIMITS) > 80


def test_packages_that_are_missing_are_counted_by_name(without_packages):
    audit, ciphers = Audit("ciphers", ""), loaded("ciphers")
    assert [piece.func for piece in ciphers.pieces(audit, True)] == [ciphers.our_randomness]
    assert [one.partition(":")[0] for one in audit.not_run] == ["phe", "sf-heu", "lightphe"]


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("attacks", "sacroml"),
        ("auditorium", "dp_auditorium"),
        ("fuzz", "atheris"),
        ("recorder", "dp_recorder"),
    ],
)
def test_an_auditor_without_its_package_has_no_pieces(name, package, without_packages):
    audit = Audit(name, "")
    assert loaded(name).pieces(audit, True) == []
    assert audit.not_run[0].startswith(f"{package}: ")


def test_a_package_on_the_path_that_is_not_installed_is_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_auditorium", ModuleType("dp_auditorium"))
    assert Audit("auditorium", "").package("dp_auditorium")[1] == "dp_auditorium"


def test_lines_are_right_if_honest_code_passes_and_faults_are_found():
    def line(kind, found):
        return Line("auditor", "subject", "check", found, "", kind)

    kinds = ((HONEST, False), (HONEST, True), (PLANTED, True), (PLANTED, False), (MEASURED, True))
    assert [line(*one).is_right for one in kinds] == [True, False, True, False, True]


def test_an_audit_with_a_wrong_line_fails(tmp_path):
    audit = Audit("some", "")
    audit.add(Line("auditor", "subject", "check", found=True))
    with pytest.raises(SystemExit) as ended:
        audit.end(tmp_path / "some.json")
    assert ended.value.code == 1
    assert '"wrong": 1' in (tmp_path / "some.json").read_text()


def test_pieces_run_in_processes_of_one_thread_and_keep_their_order():
    audit = Audit("some", "")
    audit.run([partial(in_a_process, name, os.getpid()) for name in ("a", "b")])
    assert [(line.subject, line.found, line.seen) for line in audit.lines] == [
        ("a", True, "1"),
        ("b", True, "1"),
    ]


def test_every_auditor_has_pinned_packages_and_a_target():
    makefile = (ROOT / "Makefile").read_text()
    for path in (ROOT / "audits" / "requirements").iterdir():
        assert path.stem in AUDITORS
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in path.read_text().splitlines())
    for name in AUDITORS:
        assert re.search(rf"^audits:(?:.*\\\n)?.*\baudits-{name}\b", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("name", loaded("fuzz").TARGETS)
def test_what_fuzzing_begins_with_is_read_or_refused_by_an_error_of_ours(name):
    read, seeds = loaded("fuzz").TARGETS[name]()
    refused = 0
    for seed in seeds:
        try:
            read(seed)
        except VeilboostError:
            refused += 1
    assert refused <= len(seeds) // 2


@pytest.mark.parametrize("name", loaded("fuzz").FAULTS)
def test_a_fault_that_is_planted_for_fuzzing_is_one(name):
    fuzz = loaded("fuzz")
    read, seeds = fuzz.TARGETS[name]()
    raised = Counter()
    with fuzz.FAULTS[name]():
        for seed in (one + end for one in seeds for end in (b"", b"0")):
            try:
                read(seed)
            except Exception as error:
                raised[isinstance(error, VeilboostError)] += 1
    assert raised[False]


def test_distances_of_inputs_are_those_that_a_mechanism_pays_for():
    distance, one = loaded("recorder").distance, np.array([[1.0, 2.0, -np.inf], [5.0, 5.0, 5.0]])
    moved = one + np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    found = [distance(kind, moved, one) for kind in ("Gaussian", "discrete Laplace", "exponential")]
    assert found == [5.0, 7.0, 4.0]
    assert distance("Gaussian", one, one[:1]) == np.inf


@pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning")
@pytest.mark.parametrize("name", loaded("recorder").TRAINERS)
def test_a_row_s_releases_lose_no_more_than_was_charged(name):
    """By a recorder of the interface that the outside one has."""
    recorder = loaded("recorder")
    X, y = recorder.rows(np.random.default_rng(2))
    objection, loss = recorder.frozen(a_recorder(), partial(recorder.fitted, name), X, y)
    assert objection == ""
    assert 0.3 < loss <= recorder.ROUNDING
    if name == "NewtonBoost":
        for fault in recorder.FAULTS.values():
            with fault():
                objection, loss = recorder.frozen(a_recorder(), partial(recorder.fitted, name), X, y)
            assert objection or loss > recorder.ROUNDING


def a_recorder():
    """What is used of `dp_recorder`: the second fit gets the first one's numbers."""
    active = []

    class Auditor:
        def __init__(self):
            self.log, self.place = [], None

        def __enter__(self):
            active.append(self)

        def __exit__(self, *_):
            active.clear()

        def set_replay(self):
            self.place = 0

        def validate_records(self):
            for one in self.log:
                assert one.metric_fn(*one.inputs_d.values(), *one.inputs_dp.values()) <= one.sensitivity_val

    def audit_spec(kind, _values, _scale, metric):
        def decorated(release):
            def called(values, *params):
                (own,), named = active, {"scale": params[0]}
                if own.place is None:
                    entry = SimpleNamespace(kind=kind, metric_fn=metric, params=named, given=params)
                    entry.inputs_d, entry.inputs_dp = {"values": values.copy()}, None
                    entry.output = release(values, *params)
                    own.log.append(entry)
                    return entry.output
                entry, own.place = own.log[own.place], own.place + 1
                assert (entry.kind, entry.given) == (kind, params)
                entry.inputs_dp = {"values": values.copy()}
                return entry.output

            return called

        return decorated

    return SimpleNamespace(Auditor=Auditor, audit_spec=audit_spec)


def test_a_step_that_takes_longer_for_some_secrets_is_found():
    timing = loaded("timing")
    slow = (lambda n: sum(range(n)), lambda: 10_000, lambda: 20_000)
    assert abs(timing.largest_t(slow, 60)) > timing.BOUND
    one, other = np.random.default_rng(3).normal(size=(2, 50))
    assert timing.welch(one, other) == pytest.approx(ttest_ind(one, other, equal_var=False).statistic)


# The slow implementations, by the vectors of their descriptions.


def test_x25519_by_rfc_7748():
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    u = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    expected = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    assert slow.x25519(scalar, u).hex() == expected


def test_chacha20_by_rfc_8439():
    nonce = bytes.fromhex("000000090000004a00000000")
    block = slow.chacha20_block(bytes(range(32)), 1, nonce)
    assert block[:16].hex() == "10f1e7e4d13b5915500fdd1fa32071c4"


def test_ed25519_by_rfc_8032():
    key = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b"
    )
    assert slow.ed25519_holds(key, b"", signature)
    assert not slow.ed25519_holds(key, b"x", signature)


def test_sums_and_transfers_are_those_of_the_slow_ones():
    sums, random = loaded("sums"), np.random.default_rng(1)
    for check in (sums.differing_sums(random, 1, 3), sums.differing_lookups(random, 1)):
        compared, differ = check
        assert (compared > 5, differ) == (True, 0)


@pytest.mark.parametrize("fault", ["masks do not depend on the attempt", "all parties add their masks"])
def test_a_planted_fault_of_secure_sums_is_found(fault):
    sums = loaded("sums")
    with sums.sum_faults()[fault]:
        _, differ = sums.differing_sums(np.random.default_rng(1), 1, 3)
    assert differ > 0


def test_a_planted_fault_of_transfers_is_found():
    sums = loaded("sums")
    with sums.transfer_faults()["pads of every message begin anew"]:
        _, differ = sums.differing_lookups(np.random.default_rng(1), 1)
    assert differ > 0


def test_the_row_moves_a_trees_sums_by_nearly_the_claim_and_nothing_else_but_noise_does():
    releases = loaded("releases")
    mu, drawn = gaussian_mu(releases.EPSILON, releases.DELTA), {}
    for stds in (-6, 0, 6):
        trees = releases.Trees()
        with patch.object(
            noise, "rounded_gaussian", lambda n, scale, random, k=stds: np.full(n, k * scale, int)
        ):
            for with_row in (False, True):
                drawn[stds, with_row] = trees.draw("", with_row, 2)[:, :-1] - stds
    for with_row in (False, True):
        for stds in (-6, 6):
            np.testing.assert_allclose(drawn[stds, with_row], drawn[0, with_row], rtol=0, atol=1e-3)
    moved = np.linalg.norm(drawn[0, True] - drawn[0, False], axis=1)
    assert (0.98 * mu < moved).all()
    assert (moved <= mu).all()


@pytest.mark.parametrize("release", ["gaussian", "parties"])
def test_one_row_moves_a_mechanism_of_the_auditorium_by_at_most_its_claim_unless_a_fault_is_planted(release):
    auditorium, random = loaded("auditorium"), np.random.default_rng(2)
    subject, moved = getattr(auditorium, release)(), {}
    without_noise = {
        "rounded_gaussian": lambda n, scale, random: np.zeros(n, dtype=np.int64),
        "discrete_gaussian": lambda n, variance, random: np.zeros(n, dtype=np.int64),
    }
    with patch.multiple(noise, **without_noise):
        for _ in range(20):
            less, more = subject.propose(random)
            assert (more[:-1] == less).all()
            for name, mechanism in subject.mechanisms.items():
                step = np.linalg.norm(mechanism(more, 1) - mechanism(less, 1))
                moved[name] = max(moved.get(name, 0.0), float(step))
    assert 0.99 < moved[""] <= subject.mu
    assert 1.9 < moved["a forgotten factor 2"] <= 2
    assert moved.get("noise before the clip", 2.0) > 1.5


def test_a_proposed_row_moves_gains_within_the_interval_that_selections_pay_for():
    auditorium, random = loaded("auditorium"), np.random.default_rng(2)
    for _ in range(20):
        less, more = auditorium.selection().propose(random)
        change = more.sum(axis=0) - less.sum(axis=0)
        assert np.ptp(change) <= auditorium.HIGHEST - auditorium.LOWEST
        assert less.sum(axis=0)[-1] == 0

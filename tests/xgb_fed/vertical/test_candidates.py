import numpy as np
import pytest
from gbdt_parties import messages
from gbdt_parties.messages import to_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from vertical_training import parties_of

from xgb_fed import Plain
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.vertical.candidates import candidates_of, first_in_order
from xgb_fed.vertical.gradients import packing_for
from xgb_fed.vertical.messages import SPLIT_BY_OTHERS, FindSplits, Gradients, OpenTraining, StartTree


@st.composite
def nodes(draw):
    """Codes of a node's rows; bins and whole features may be without rows."""
    n_bins = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    row = st.tuples(*(st.integers(0, n) for n in n_bins))
    codes = draw(st.lists(row, min_size=1, max_size=25))
    return n_bins, np.array(codes)


def histogram(n_bins, codes):
    """Row counts, the last bin of a feature for missing values."""
    counts = [np.bincount(column, minlength=n + 1) for n, column in zip(n_bins, codes.T, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(np.array(n_bins) + 1)]).astype(np.int64)
    return np.concatenate(counts).astype(np.int32), offsets


def tried_by_xgboost(n_bins, codes):
    """Feature by feature, bins upwards, then downwards if values are missing; what repeats is no new one.

    ((feature, last bin to the left, default_left), the rows to the left) of each.
    """
    tried = []
    for f, (n, column) in enumerate(zip(n_bins, codes.T, strict=True)):
        missing = column == n
        walks = [[(b, False) for b in range(n)]]
        walks += [[(b, True) for b in range(n - 2, -2, -1)]] if missing.any() else []
        for walk in walks:
            seen = {0, len(codes)}
            for last_left, default_left in walk:
                left = np.where(missing, default_left, column <= last_left)
                if left.sum() not in seen:
                    seen.add(left.sum())
                    tried.append(((f, last_left, default_left), left))
    return tried


def as_set(candidates):
    return list(
        zip(
            candidates.feature.tolist(),
            candidates.last_left.tolist(),
            candidates.default_left.tolist(),
            strict=True,
        )
    )


@given(nodes())
@settings(max_examples=40)
def test_candidates_are_the_splits_that_xgboost_tries(node):
    n_bins, codes = node
    counts, offsets = histogram(n_bins, codes)
    candidates = candidates_of(counts, offsets)
    expected = dict(tried_by_xgboost(n_bins, codes))
    assert len(candidates) == len(expected)
    assert set(as_set(candidates)) == set(expected)
    left = [expected[candidate] for candidate in as_set(candidates)]
    assert candidates.counts.tolist() == [rows.sum() for rows in left]
    # Running sums along the chains are the left-hand sums, here of numbers that tell the rows apart.
    values = 1 << np.arange(len(codes), dtype=np.int64)
    sums = np.zeros(len(counts), dtype=np.int64)
    np.add.at(sums, offsets[:-1] + codes, values[:, None])
    running = [np.cumsum(sums[chain]) for chain in candidates.chains]
    assert np.concatenate([*running, np.empty(0)]).tolist() == [values[rows].sum() for rows in left]


@given(nodes(), st.data())
@settings(max_examples=40)
def test_the_first_of_ties_is_xgboost_s_in_any_order(node, data):
    n_bins, codes = node
    expected = [name for name, _ in tried_by_xgboost(n_bins, codes)]
    candidates = candidates_of(*histogram(n_bins, codes))
    if not expected:
        return
    order = np.array(data.draw(st.permutations(range(len(expected)))))
    shuffled = candidates.reordered(order)
    assert as_set(shuffled) == [as_set(candidates)[k] for k in order]
    assert shuffled.counts.tolist() == candidates.counts[order].tolist()
    # The first of all, then the first of those that are left: XGBoost's order.
    tied, walked = list(range(len(expected))), []
    while tied:
        first = first_in_order(shuffled, np.array(tied, dtype=np.int32))
        tied.remove(first)
        walked.append(as_set(shuffled)[first])
    assert walked == expected


@pytest.mark.parametrize(
    ("counts", "offsets"),
    [
        ([], [0]),
        ([5, 0], [0, 2]),
        ([0, 5], [0, 2]),
        ([0, 0, 5, 0], [0, 4]),
        ([5, 0, 0, 5], [0, 2, 4]),
    ],
    ids=["no columns", "one bin", "only missing", "one bin of three", "one bin, and only missing"],
)
def test_columns_that_divide_nothing(counts, offsets):
    candidates = candidates_of(np.array(counts, dtype=np.int32), np.array(offsets))
    assert len(candidates) == len(candidates.chains) == 0
    assert len(candidates.reordered(np.empty(0, dtype=np.int64))) == 0


@given(st.integers(0, 50), st.binary(min_size=32, max_size=32))
@settings(max_examples=40)
def test_a_shuffle_is_a_permutation_and_canonical_order_comes_back(count, key):
    order = SecretStream(key).permutation(count)
    assert sorted(order.tolist()) == list(range(count))
    values = np.arange(count)
    assert values[order][np.argsort(order)].tobytes() == values.tobytes()


def test_shuffles_are_uniform():
    """All 24 orders of four candidates: χ² of 23 degrees of freedom, above 71 once in 1e6."""
    random = SecretStream(b"k" * 32)
    _, drawn = np.unique([random.permutation(4) for _ in range(2400)], axis=0, return_counts=True)
    assert len(drawn) == 24
    assert ((drawn - 100) ** 2 / 100).sum() < 71


def test_every_node_has_a_shuffle_of_its_own():
    """Two nodes of equal rows: the same candidates, in another order (of 29!), and another one each time."""
    values = np.arange(30.0)
    X = np.concatenate([values, values])[:, None]
    none = np.empty(0, dtype=np.uint8)
    orders = []
    for model in (b"a" * 16, b"b" * 16):
        party, key = parties_of([X])[0], Plain(200)
        bits = packing_for(60, 1, key.plaintext_limit).gh.bits
        requests = [
            OpenTraining(
                key.public_bytes(),
                60,
                64,
                bits,
                1,
                np.empty(0, dtype=np.int32),
                np.empty(0, dtype=np.int64),
            ),
            StartTree(0, none, np.zeros(1, dtype=np.int32)),
            Gradients(0, 0, key.to_bytes(key.encrypt(range(60)))),
            FindSplits(none, none, np.ones(1, dtype=np.uint8)),
            FindSplits(
                np.array([SPLIT_BY_OTHERS], dtype=np.uint8),
                to_bits(np.arange(60) < 30),
                np.ones(2, dtype=np.uint8),
            ),
        ]
        for number, request in enumerate(requests):
            answer = messages.read(party.handle(messages.write(model, number, request))).message
        assert answer.n_candidates.tolist() == [29, 29]
        orders += [answer.counts[:29].tolist(), answer.counts[29:].tolist()]
    assert all(sorted(order) == list(range(1, 30)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4

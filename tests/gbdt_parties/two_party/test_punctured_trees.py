"""Trees of seeds: all but one, beside recursion over paths; and trees that are not ones are refused."""

import os

import numpy as np
import pytest

from gbdt_parties.errors import ProtocolError, TransferCheckError
from gbdt_parties.two_party.life import Failures, Life
from gbdt_parties.two_party.punctured_trees import MESSAGE_BYTES, grown, punctured
from two_party_oracle import trees_message
from two_party_sides import CONTEXT, chosen_keys, drawn_bits, drawn_pairs


def numbers_of(difference):
    """y of each block."""
    return difference.reshape(32, 4) @ (1 << np.arange(4))


def test_seeds_and_message_are_those_of_recursion():
    pairs = drawn_pairs()
    seeds, message = grown(CONTEXT, pairs)
    expected, expected_message = trees_message(CONTEXT, pairs)
    assert [[seed.tobytes() for seed in block] for block in seeds] == expected
    assert message == expected_message
    assert len(message) == MESSAGE_BYTES


@pytest.mark.parametrize("kind", ["drawn", "zeros", "ones"])
def test_all_seeds_but_one_are_known(kind):
    difference = {"drawn": drawn_bits(), "zeros": np.zeros(128, np.uint8), "ones": np.ones(128, np.uint8)}[
        kind
    ]
    pairs = drawn_pairs()
    seeds, message = grown(CONTEXT, pairs)
    found = punctured(CONTEXT, difference, chosen_keys(pairs, difference), message, Life(Failures()))
    for block, y in enumerate(numbers_of(difference)):
        for x in range(1, 16):
            assert (found[block, x] == seeds[block, x ^ y]).all()
        assert not (found[block, 0] == seeds[block]).all(axis=1).any()


def test_a_message_for_another_context_is_refused():
    pairs, difference = drawn_pairs(), drawn_bits()
    _, message = grown(b"other".ljust(32), pairs)
    with pytest.raises(TransferCheckError, match=r"seeds.*check"):
        punctured(CONTEXT, difference, chosen_keys(pairs, difference), message, Life(Failures()))


@pytest.mark.parametrize("place", ["completion", "digest"])
def test_a_changed_bit_that_is_always_used_ends_the_session(place):
    pairs, difference = drawn_pairs(), drawn_bits()
    _, message = grown(CONTEXT, pairs)
    at = {"completion": MESSAGE_BYTES - 40, "digest": MESSAGE_BYTES - 1}[place]
    bad = message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]
    failures = Failures()
    life = Life(failures)
    with pytest.raises(TransferCheckError, match="session is over"):
        punctured(CONTEXT, difference, chosen_keys(pairs, difference), bad, life)
    assert failures.count == 1
    with pytest.raises(ProtocolError, match="is over"):
        life.check()


def test_a_changed_correction_passes_only_for_the_path_that_does_not_use_it():
    """The one bit that the check may give away: here, on which side of the second level y lies."""
    outcomes = {}
    for bit in (0, 1):
        difference = np.zeros(128, np.uint8)
        difference[2] = bit  # the second highest bit of block 0
        pairs = drawn_pairs()
        _, message = grown(CONTEXT, pairs)
        bad = bytes([message[0] ^ 1]) + message[1:]  # level 1, block 0, left children
        try:
            punctured(CONTEXT, difference, chosen_keys(pairs, difference), bad, Life(Failures()))
            outcomes[bit] = True
        except TransferCheckError:
            outcomes[bit] = False
    # The left sum is used by those whose path goes right.
    assert outcomes == {0: True, 1: False}


@pytest.mark.parametrize("change", [-1, 1])
def test_other_lengths_are_refused(change):
    pairs, difference = drawn_pairs(), drawn_bits()
    _, message = grown(CONTEXT, pairs)
    with pytest.raises(ProtocolError, match=f"not {MESSAGE_BYTES}"):
        punctured(
            CONTEXT,
            difference,
            chosen_keys(pairs, difference),
            (message + b"\0")[: len(message) + change],
            Life(Failures()),
        )


def test_trees_with_an_inconsistent_leaf_are_refused_unless_it_is_the_missing_one():
    """An attacker who knows all seeds cannot make a digest that passes for two different leaves."""
    difference = np.zeros(128, np.uint8)
    refused = 0
    for trial in range(4):
        pairs = drawn_pairs()
        other = list(pairs)
        # The attacker's own tree has another key where the receiver's path does not go.
        other[4 * trial] = (pairs[4 * trial][0], os.urandom(16))
        _, message = grown(CONTEXT, other)
        try:
            punctured(CONTEXT, difference, chosen_keys(pairs, difference), message, Life(Failures()))
        except TransferCheckError:
            refused += 1
    assert refused == 4

"""Every promise holds under drawn faults, and faults that are planted are found."""

import pytest

from planted_faults import FAULTS
from simulate import simulated
from simulated_modes import MODES
from simulated_world import Violation

N_SEEDS, PARTS = 200, 8
MOST_SEEDS = 2000


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_holds_whatever_goes_wrong(part):
    for seed in range(part, N_SEEDS, PARTS):
        simulated(seed)


def test_a_seed_is_repeated_to_the_letter():
    for seed in range(40, 40 + len(MODES)):
        assert simulated(seed) == simulated(seed)


def first_found(name):
    """The first seed that finds a planted fault, and what it says."""
    mode, plant = FAULTS[name]
    simulated(0, only=mode)
    with plant():
        for seed in range(MOST_SEEDS):
            try:
                simulated(seed, only=mode)
            except Violation as violation:
                return seed, str(violation)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name):
    assert first_found(name)

"""How all tests run: in how many processes, and on which random draws."""

import gc
import os

# Read when LightGBM and XGBoost are imported.  Several threads add up metrics and histograms in any order,
# and those that wait by spinning make tests slower by factors on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from hypothesis import HealthCheck, settings

from chosen_tests import depends_on_hosts, part_of
from pinned_draws import pinned_draws

MAX_WORKERS = 4
"""Each process of ``--numprocesses auto`` imports everything and collects all tests, which takes memory."""


def pytest_configure(config):
    # A busy machine is not an error: examples may take as long as they like.
    settings.register_profile(
        "veilboost",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=config.getoption("draws") == "0",
    )
    settings.load_profile("veilboost")
    # In pyproject.toml, this would import the package before this file sets the number of threads.
    config.addinivalue_line("filterwarnings", "error::lgb_dp.errors.PrivacyLeakWarning")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    return min(MAX_WORKERS, len(os.sched_getaffinity(0)))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Imports and tests stay to the end of the run: looking for garbage among them finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their markers
def pytest_collection_modifyitems(config, items):
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"processes of one run must agree on the names of tests: {item.nodeid}")
        if depends_on_hosts(item.path):
            item.add_marker("hosts")
    if wanted := config.getoption("part"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        kept = set(part_of(slow, wanted))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def pytest_addoption(parser):
    parser.addoption(
        "--part", metavar="K/N", help="run the K-th of N parts of the slow tests, as `make test-slow` does"
    )
    parser.addoption(
        "--draws",
        default="0",
        help="draw other random bytes and examples in all tests, to see which depend on what is drawn",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with pinned_draws(f"{item.config.getoption('draws')} {item.nodeid}"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item):
    """A failure that is expected is not shown, and its source lines take longer to find than most tests."""
    option = item.config.option
    before, option.tbstyle = option.tbstyle, "native" if item.get_closest_marker("xfail") else option.tbstyle
    try:
        return (yield)
    finally:
        option.tbstyle = before


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    if fixturedef.scope == "function":
        return (yield)
    # Which test asks for a fixture of many tests first depends on how tests are spread over processes.
    name = f"{fixturedef.baseid}::{fixturedef.argname}"
    with pinned_draws(f"{request.config.getoption('draws')} {name}"):
        return (yield)

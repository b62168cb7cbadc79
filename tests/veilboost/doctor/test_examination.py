"""The kernel that stands for all of a method is one that ``veilboost warm`` compiles."""

import importlib

import pytest
from numba.core.registry import CPUDispatcher

from gbdt_kernels import compilation
from gbdt_kernels.residues import paths
from veilboost import warming
from veilboost.doctor import examination, findings
from veilboost.doctor.peers import Peer, examine, listening
from veilboost.plans.plan import METHODS


def test_every_method_has_a_kernel_a_part_to_warm_and_packages():
    assert set(findings.PARTS) == set(findings.PACKAGES) == set(METHODS)
    assert set(findings.PARTS.values()) <= set(warming.PARTS)
    assert {*examination.KERNELS, "vertical"} == set(METHODS)
    for name in examination.KERNELS.values():
        module, _, kernel = name.partition(":")
        assert isinstance(getattr(importlib.import_module(module), kernel), CPUDispatcher)


@pytest.mark.parametrize("method", METHODS)
def test_kernels_without_machine_code_are_found(method, monkeypatch):
    """`is_compiled` is asked about the kernel of the method, and its word counts."""
    for module in (examination, paths):
        monkeypatch.setattr(module, "is_compiled", lambda kernel: False)
    assert not examination.are_compiled(method)
    for module in (examination, paths):
        monkeypatch.setattr(module, "is_compiled", lambda kernel: True)
    assert examination.are_compiled(method)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_warming_compiles_the_kernel(method, monkeypatch):
    """In this process or an earlier one, which left it in the cache."""
    warming.warm(findings.PARTS[method])
    assert examination.are_compiled(method)
    assert compilation.is_compiled(paths.path_kernels().chains) or method != "vertical"


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "\u202e"])
def test_names_that_no_host_can_have_are_found(host):
    ((found,), certificate) = examine(Peer("bank", f"{host}:1", ""), None, 1.0)
    assert found.mend
    assert found.seen.isprintable()
    assert certificate is None
    assert listening(f"{host}:1").mend

"""A group in place of Ed25519's, for tests of what is built on one: its multiplications cost nothing.

The integers modulo l under addition, l the order of Ed25519's group: a protocol that is right in any group of
that order is right here, and messages are as long.  Discrete logarithms are divisions, so that it hides
nothing; tests of what the curve hides and refuses use the curve.
"""

from contextlib import contextmanager

import pytest

from edwards import L
from gbdt_parties import curve_group

CURVE = curve_group.sodium
"""For a test whose other side is a process of its own."""


class QuickBindings:
    """Stands in for PyNaCl's bindings in `gbdt_parties.curve_group`; the generator is 1."""

    @staticmethod
    def crypto_core_ed25519_is_valid_point(point):
        return 0 < int.from_bytes(point, "little") < L

    @staticmethod
    def crypto_core_ed25519_from_uniform(octets):
        return _encoded(_number(octets))

    @staticmethod
    def crypto_core_ed25519_add(one, other):
        return _encoded(_number(one) + _number(other))

    @staticmethod
    def crypto_core_ed25519_sub(one, other):
        return _encoded(_number(one) - _number(other))

    @staticmethod
    def crypto_scalarmult_ed25519_base_noclamp(scalar):
        return _encoded(_number(scalar))

    @classmethod
    def crypto_scalarmult_ed25519_noclamp(cls, scalar, point):
        if not cls.crypto_core_ed25519_is_valid_point(point):
            raise RuntimeError("not of the group")
        return _encoded(_number(scalar) * _number(point))


def _number(octets):
    return int.from_bytes(octets, "little")


def _encoded(number):
    return (number % L).to_bytes(32, "little")


@contextmanager
def quick_group():
    """Let `curve_group` compute in this group meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curve_group, "sodium", QuickBindings)
        yield

"""Modular arithmetic on many numbers at once, for public-key ciphers."""

from gbdt_kernels.residues.chains import are_units, chain_products
from gbdt_kernels.residues.digit_tables import DigitProducts
from gbdt_kernels.residues.fixed_base import FixedBase
from gbdt_kernels.residues.modular import Reduction, decode, encode, invert, multiply, power, shift
from gbdt_kernels.residues.modulus import Modulus
from gbdt_kernels.residues.paths import arithmetic_is_compiled, arithmetic_path

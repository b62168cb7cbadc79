"""Additively homomorphic public-key ciphers on arrays."""

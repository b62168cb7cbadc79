"""Modular arithmetic on many numbers at once, for public-key ciphers."""

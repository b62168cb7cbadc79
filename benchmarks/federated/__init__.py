"""Training where rows lie apart: exact, private and SimFL; faults, and attacks on published trees."""

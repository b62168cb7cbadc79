"""Trees that several parties own: partitions of rows, constraints, order of expansion."""

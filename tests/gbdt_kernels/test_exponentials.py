import numpy as np

from gbdt_kernels.exponentials import exponentials


def test_exponentials_are_float32_to_the_last_bits():
    x = np.linspace(-80, 80, 4001, dtype=np.float32).reshape(-1, 1)
    got, exact = exponentials(x), np.exp(x.astype(np.float64))
    assert got.shape == x.shape
    assert got.dtype == np.float32
    assert (np.abs(got - exact) <= np.spacing(got)).all()
    assert exponentials(np.zeros(1, dtype=np.float32))[0] == 1

"""Codes as planes of bits."""

import numpy as np

from gbdt_kernels.trees.planes import bit_planes


def test_a_column_of_two_codes_takes_one_bit_per_row():
    codes = np.where(np.arange(1024)[:, None] % 3 == 0, [[7, 9]], [[7, 200]]).astype(np.uint8)
    planes = bit_planes(codes)
    assert planes.present.tolist() == [7, 9, 200]
    assert planes.bits.nbytes == 1024 // 8
    bits = np.unpackbits(planes.bits.view(np.uint8), bitorder="little")
    assert bits.tolist() == (codes[:, 1] == 200).tolist()

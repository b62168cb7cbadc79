import numpy as np
import pytest

from gbdt_commons.read_only import read_only


def test_numbers_can_be_read_and_not_written():
    values = np.arange(6.0).reshape(2, 3)
    view = read_only(values)
    assert np.shares_memory(view, values)
    assert view.tolist() == values.tolist()
    for write in (lambda: view.fill(0.0), lambda: view[0].sort(), lambda: view.T.__setitem__(0, 1.0)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    values[0, 0] = 9.0
    assert view[0, 0] == 9.0

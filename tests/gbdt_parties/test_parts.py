from concurrent.futures import Future

import pytest

from gbdt_parties.parts import Parts


def test_parts_are_given_in_order_and_joined():
    made = Future()
    made.set_result(b"cd")
    parts = Parts(7, [b"ab", made, Parts(3, [b"e", b"", b"fg"])])
    assert len(parts) == 7
    assert list(parts) == [b"ab", b"cd", b"e", b"", b"fg"]
    assert bytes(parts) == bytes(parts) == b"abcdefg"


def test_an_error_in_making_a_part_is_raised_where_it_is_taken():
    broken = Future()
    broken.set_exception(ZeroDivisionError("made up"))
    parts = iter(Parts(3, [b"a", broken]))
    assert next(parts) == b"a"
    with pytest.raises(ZeroDivisionError, match="made up"):
        next(parts)

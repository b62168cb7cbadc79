import pytest

pytest.importorskip("distributed")

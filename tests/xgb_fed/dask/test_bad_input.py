"""What is wrong with a client, a collection or a partition is a named error before anything is sent."""

import pytest
from distributed import Client

import xgb_fed
from bad_collections import BLOCKS
from dask_training import local_cluster
from xgb_fed.dask import DaskParty


def test_clients_that_cannot_be_used():
    with pytest.raises(xgb_fed.ArgumentTypeError, match=r"client.*distributed\.Client"):
        DaskParty("tcp://127.0.0.1:1", BLOCKS, "bank")
    with local_cluster(1) as cluster:
        client = Client(cluster)
        client.close()
        with pytest.raises(xgb_fed.InvalidArgumentError, match=r"client.*connected"):
            DaskParty(client, BLOCKS, "bank")
        with Client(cluster) as client:
            for name in ("active", "", 3):
                with pytest.raises(xgb_fed.InvalidArgumentError, match="printable text"):
                    DaskParty(client, BLOCKS, name)
            for timeout in (0, -1.0, float("nan"), "1"):
                with pytest.raises(xgb_fed.InvalidArgumentError, match="timeout="):
                    DaskParty(client, BLOCKS, "bank", timeout=timeout)


def test_the_extra_is_named_where_dask_is_missing(monkeypatch):
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "xgb_fed.dask")
    with pytest.raises(xgb_fed.MissingDependencyError, match=r"pip install 'veilboost\[dask\]'"):
        importlib.import_module("xgb_fed.dask")

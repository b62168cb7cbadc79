import pytest
from distributed import Client

from dask_training import local_cluster

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as cluster, Client(cluster) as client:
        yield client

import pytest

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    from distributed import Client

    from dask_training import local_cluster

    with local_cluster(1) as cluster, Client(cluster) as client:
        yield client

"""Semi-public parts of ``dask.distributed``: handlers of workers, direct connections, lost workers.

Except for `Cluster` and `Leases`, what is of the client's side are coroutines for its own event loop.
"""

from gbdt_hosts.dask.cluster import Answer, Cluster, ClusterErrors, KnownWorker
from gbdt_hosts.dask.collections import (
    is_array,
    is_collection,
    is_frame,
    known_lengths,
    made_up_rows,
    partitions_of,
)
from gbdt_hosts.dask.connections import DirectConnection, RelayedConnection, connected
from gbdt_hosts.dask.leases import Lease, Leases
from gbdt_hosts.dask.partitions import HeldPartitions
from gbdt_hosts.dask.workers import Message, WorkerState, check_client, heartbeats, in_loop, remove_worker

"""Training of rows apart as a Flower app: Flower carries the bytes, and learns what a coordinator learns.

Needs the extra ``veilboost[flower]``, which is imported when an app is made.
"""

from veilboost.flower.apps import client_app, server_app

__all__ = ["client_app", "server_app"]

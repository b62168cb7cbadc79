"""Both halves of the app: a hospital's party at each node, and the coordinator where the server runs."""

from veilboost.flower import client_app, server_app

client = client_app()
server = server_app()

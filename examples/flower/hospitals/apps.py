"""Both halves of the app: a relay to a hospital's server at each node, and the coordinator."""

from veilboost.flower import client_app, server_app

client = client_app()
server = server_app()

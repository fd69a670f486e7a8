"""A party's side: `--node-config` of its SuperNode names the party, its folder and its data."""

from ofcl.federation.flower_app.node_app import make_client_app

app = make_client_app()

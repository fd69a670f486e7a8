"""A run as a standard Flower app, for people who run a SuperLink and SuperNodes already.

    grid_transport   the server's side: a `Transport` on Flower's `Grid`
    node_app         a node's side: answers each message in a process of its own
    app_run          a run as `flwr run` describes it

What a run and a party are, wherever another system carries the messages, is in
`server_side/hosted_run.py` and `party_side/hosted_party.py`.

Only Flower's public interfaces are used (`flwr.app`, `flwr.clientapp`, `flwr.serverapp`). The rest
is the federation's: the `Courier` asks, a `Member` answers. Messages are not signed here. The app
itself is in `examples/flower_app`.
"""

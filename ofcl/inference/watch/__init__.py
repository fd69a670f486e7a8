"""A page to watch a federation: `ofcl federation watch`, at the server and at a party.

It reads files that the processes of the federation write, and changes none. Requests pass the
layers of `inference/service/` (counting, access, limits) first.

    watch_app           the routes: the page, /facts, /metrics, /health
    server_facts        all that is shown at the server, as plain values
    party_facts         all that is shown at a party
    event_tail          the sums of a run's events, read on where the last look ended
    federation_metrics  the facts in Prometheus's text format
    web/                the page: HTML, CSS and JavaScript, which load nothing from elsewhere

The page at the server shows only what parties have sent, and each party's `audit.jsonl` names the
fields of that. The page of a party shows what that party knows.
"""

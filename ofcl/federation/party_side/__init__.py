"""A party of a federation: its data, its client, and a record of everything that leaves it.

participation       starts a party: one function below `ofcl federation client`
hosted_party        a party whose messages Flower or NVFlare carries, as its own file says
member              answers the server's messages
own_data            opens the dataset or stream that the party has named
own_source          the contract of both, and what they are made with
own_dataset         the party's dataset, and the client that learns from it
own_stream          the party's stream, and the client that learns from it
kept_models         the models that the party keeps, and `model_files`, where they are
benefit             whether taking part helps: the models compared on the party's test data
helps_file          the file that says so, for people and the page to watch
cross_results       cross-site validation: what the party hears of it
party_policy        the limits that the party sets to every run
ledger              what its data have cost in ε, over all runs
released_events     the events that leave, in the least detail
audit               the file that names every field that has left
audit_files         earlier files of it
party_status        notes of the party's process, for `watch`
flower_connection   a `Connection` on Flower; `flower_calls` and `flower_messages` are its parts
"""

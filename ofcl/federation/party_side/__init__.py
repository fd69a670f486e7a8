"""A party of a federation: its data, its client, and a record of everything that leaves it.

member          answers the server's requests
own_data        the party's dataset or stream, and the client that learns from it
audit           the file that names every field that has left
flower_client   the connection to the server: the only module here that knows Flower
"""

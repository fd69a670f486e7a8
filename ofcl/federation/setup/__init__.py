"""Making a federation and changing it: who takes part, keys and certificates, folders.

organiser   makes, adds, removes, renews
keys        private keys, certificates, the authority that signs them
folders     what lies where, at the server and at a party
"""

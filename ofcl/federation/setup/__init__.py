"""Making a federation and changing it: who takes part, keys and certificates, folders.

organiser      makes a federation, adds and removes parties, renews the certificate
party_readme   the README that each party is handed
keys           private keys, certificates, the authority that signs them
folders        the files of the server and of a party
"""

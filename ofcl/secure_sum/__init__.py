"""Secure aggregation: the server learns the sum of the parties' updates, and no single update.

After Bonawitz et al. 2017. A sum takes four exchanges: keys, shares, masked vectors, reveals.

party_sum     the party's side: four steps, each taken once
server_sum    the server's side: collects, asks the missing again, unmasks the sum
masking       masks of a vector, and the threshold of parties that can take them off
vectors       what is masked and added up
fixed_point   tensors and a weight as integers modulo 2^64
coding        changes of the model in fewer bytes: whole steps that all parties share
shared_steps  the server's side of that: it plans the steps, and reads the mean of all changes
unmasking     takes the masks off a sum, with the shares that were revealed
shamir        a secret in shares, of which enough give it back
identity      parties sign their keys of a sum with the keys by which the server knows them
primitives    all calls of the library `cryptography`
"""

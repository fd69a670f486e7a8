"""Online federated continual learning as a Flower app; the learning itself is in `ofcl`."""

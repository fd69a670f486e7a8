"""The memory of a client: a fixed number of samples, for replay against forgetting.

memory   `Memory`: takes what is offered, draws for replay, forgets
policy   which samples stay: every sample has a key, the smallest stay
shares   how the room is split over the classes
table    what is known of the samples besides their x
"""

"""The memory of a client: a fixed number of samples, for replay against forgetting.

memory     `Memory`: takes mini-batches on offer, draws samples for replay, forgets
policy     `Policy`: every sample has a key, and the smallest keys stay, or another choice
choice     other choices by the keys: a weighted draw, spread over their range, far from each other
herding    another one: samples whose mean is that of their class
ranks      keys of different times made comparable
shares     how the room is split over the classes
rekeying   which keys are computed when a mini-batch is offered
offer      a mini-batch on offer, and the decision which samples stay
expiry     how old samples may become
replay_order   the order in which samples are replayed
contents   the samples in the memory, each at its place, made of the following two
table      class, task, key … of each sample, on the CPU
store      the samples themselves, on the device

May import `uncertainty`, `compute` and `state`; methods and clients import it.
"""

"""Computing with tensors: devices, CUDA graphs, optimisers, the size of batches.

devices       work that is queued on a GPU, and values that come back from it
cuda_graphs   functions that are captured once and replayed
optimizers    SGD and Adam without PyTorch's checks; several clients' steps in one call
batching      how many samples a model takes at once
foreach       the one place that calls `torch._foreach_…` and other private interfaces

Knows nothing of clients, memories or settings; any room may import it.
"""

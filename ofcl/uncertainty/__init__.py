"""The uncertainty of a model about a sample, from its predictions for perturbed copies.

scores             Bregman information and others: logits of the copies → a number
scorer             the model that scores, and when it is refreshed
change             the contract of random changes of samples
perturbations      the changes of images and vectors
image_operations   how pixels are moved, covered and recoloured
homographies       the geometry of pixels that move
draw_ahead         random numbers for several mini-batches at once

May import `models`, `compute` and what is below them; memories and methods import it.
"""

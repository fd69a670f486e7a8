"""How uncertain a model is about a sample, from its predictions for perturbed copies.

scores          Bregman information and others: logits of the copies → a number
scorer          the model that scores, and when it is refreshed
perturbations   how copies are made; `homographies` has the geometry
draw_ahead      random numbers for several mini-batches at once
"""

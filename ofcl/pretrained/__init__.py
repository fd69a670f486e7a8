"""Pretrained networks of other libraries: their names, their weights, which part of them learns.

backbone_names  the names by which settings ask for one, and where its weights are
hub_access      a sign of life of the hub, before something is downloaded from it
timm_library    timm, imported with or without torchvision
weights         the checksum by which weights are known
image_networks  networks of timm, for images
text_networks   encoders of transformers, for token ids
tokens          texts as token ids of a fixed length
tuning          which parameters learn: the head, adapters (LoRA), the last blocks, or all
referred        what is frozen is not saved but referred to

May import `errors`.
"""

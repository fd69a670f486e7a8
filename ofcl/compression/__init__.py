"""Fewer bytes: models travel as coded differences to a model that both sides have.

codecs       how numbers are coded: fp16, int8, top-k
differences  a model as a difference to another; what the coding loses is sent later
steps        the global model moves in coded steps, so that everybody has the very same one
"""

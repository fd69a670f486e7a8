"""Safeguards of the global model against clients that are not trusted.

bounds           how far an update may go, and how much it may weigh
earlier_models   models to which the server goes back
late_updates     updates that nobody waited for count less, the older they are
"""

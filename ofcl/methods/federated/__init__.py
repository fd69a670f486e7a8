"""Methods of the federated literature that have a memory.

Re-Fed (Li et al. 2024): the samples stay that a personalised model finds important.

    gradient_norms     the norm of each single sample's gradient
    replayed_norms     the same from a CUDA graph
    refed_importance   the personalised model, and the importance of samples along its training

FedCBDR (Qi et al. 2025): samples are drawn by what the features of all clients have in common.

    fedcbdr_loss     the loss with a temperature for old and one for new classes
    fedcbdr_view     the global view: leverage scores of samples, room for classes
    fedcbdr_client   how a client adds its part of the view to its model, and takes the whole

GLFC (Dong et al. 2022): gradients are compensated class by class, and relations distilled.

    glfc_losses   the two terms of the loss, with their equations
    glfc_client   how a client learns, and how it notices that new classes have come
"""

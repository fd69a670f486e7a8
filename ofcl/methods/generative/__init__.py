"""Methods that make images of past classes instead of remembering samples.

MFCL (Babakniya et al. 2023): the server trains one generator, and hands it to the clients.

    mfcl_losses      the losses of the generator and of a client, with their equations
    mfcl_generator   the generator that the server and all clients start from
    mfcl_client      the loss of a client
    mfcl_server      how the server trains the generator

    batchnorm_inputs   what BatchNorm layers see while a generator learns, also for TARGET
    taught_learner     how a client learns from what the server hands out, also for TARGET

TARGET (Zhang et al. 2023): the server makes images with one generator for each task, and hands the
images to the clients.

    target_losses      the losses of images, of the student and of a client
    target_synthesis   how images are made, lot by lot
    target_client      the loss of a client
    target_server      what the server makes and hands out

FedCIL (Qi et al. 2023): every client trains a generator, and the server trains their average.

    fedcil_losses     the losses of critic and generator, with their equations
    fedcil_networks   the ACGAN's optimisers, its random inputs, copies of its generator
    fedcil_client     how a client learns
    fedcil_server     how the server trains the average of the clients' generators
"""

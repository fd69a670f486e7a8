"""From settings to a prepared run: the only room that sees all settings at once.

    stages            where clients learn; each stage prepares a run from its settings
    dataset_clients   clients with shares of a dataset; `stream_clients`: with streams of their own
    stream_agreement  one scale and one code of the columns for all streams, before they learn
    stream_remarks    lines for the user about streams: columns left out, who has seen what
    streams_going_on  what streams take over from an earlier run
    dealing           how a dataset is read, and dealt to the clients
    resolve           settings in which nothing is left to be found out
    chosen_method     the method that the settings name
    fitting           settings that are chosen for the data: network, steps, rounds
    describe_backbone a line about a pretrained model: what of it learns and travels
    step_path         how gradient steps are computed: captured, stacked or plain
    start             what a run takes over from an earlier one, or from a model
    going_on          reads a start by its path: `start_from_run`, `start_from_bundle`
    inheritance       settings that a run takes over, and those that must be the same
    take_over         gives clients, server, dataset and streams what the start has
    earlier_tests     the test data of earlier runs
    replaying         a recorded run of buffered rounds, to be computed again on one machine
    unused_settings   settings that somebody gave and that do nothing in a run
    checks            what cannot work is refused, in one place
    make_learner, make_client, make_server    the parts of a run from its settings
    make_bundle       the bundle of a run's model; `versions`: what it was made with
    saved_models      writes bundles to the run directory: at task ends, at the run's end
    participants      who takes part, and what is known of them

Used by `experiment`, `federation`, `bench` and the rooms above them.
"""

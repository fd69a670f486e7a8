"""Where clients run; every engine runs the same client and the same loop (`algorithm.py`).

local       all clients in this process: the oracle for the others
outcomes    the measurements that a client's work on a GPU leaves behind, read later
remote      clients elsewhere, by requests and replies (`messages`) over a `Channel`
channel     carries requests and replies; the seam to a network
standing    where each client of a run stands, and the next request to it
intake      reads answers: the gate, the quarantine, what a client told before
in_flight   buffered rounds: requests that clients work on while others go on
coded_models  which model each client has, so that steps can be sent and differences read
sum_coding    the change of a client's model since the global one, coded for a secure sum
responder   answers requests for one client, wherever it runs, and saves its state first
gate        checks every answer before the server does anything with it
cross_test  cross-site validation: whom to ask for what; `cross_tester` is the client's side
quarantine  leaves out clients whose answers are rejected again and again
rejection   the checks of single values that the gate is made of
flower/     a `Channel` to clients in the processes of Flower's simulation engine
"""

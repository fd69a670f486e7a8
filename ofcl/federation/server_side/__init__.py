"""The server of a federation: whom it lets in, whom it waits for and how long.

server_process     starts the server: one function below `ofcl federation server`
enrolment          keeps the parties' keys enrolled, and tells who comes and goes
stage              a run between parties, as `experiment` drives it
hosted_run         a run whose messages somebody's Flower or NVFlare carries
settings_of_run    the settings of a run between parties, and for how many
agreement          the labels and the form of samples on which a run's parties agree
checks_of_answers  what the server does with answers: the gate, secure sums, a spoilt model
courier            asks parties and waits for their answers, over any `Transport`
alias_table        spellings of one class, joined by the organiser
label_space        the labels of all parties, and their places
exchange           one exchange: who was asked, by which message, and who has answered
reconnecting       a run goes on by itself when the server is back
run_status         notes of a run's process, for `watch`
noted_transport    a `Transport` that takes them
run_list           one run at a time, and which was the last
signed_transport   a `Transport` that signs what another one carries
flower_server      Flower's server in this process, behind a guard
flower_replies     refuses requests of parties to parties
flower_control     the administrator's connection to it
flower_run         starts a run on it, and takes the part of the run's server
flower_transport   a `Transport` on it
"""

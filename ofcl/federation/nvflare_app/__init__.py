"""A run as a job of NVFlare, for people who run its server and sites already.

    task_transport      the server's side: a `Transport` whose messages are tasks
    site_party          a site's side: answers messages as long as the job lasts
    task_payload        states as the bytes that a task carries
    nvflare_controller  the job's workflow at the server (NVFlare's `Controller`)
    nvflare_executor    the job's executor at a site (NVFlare's `Executor`)
    keep_running        submits the job again until the run is over

Only the modules called `nvflare_…` import NVFlare, and only its public interfaces. A job has no
code of its own: its configuration names these two classes, which the sites have installed. What a
run and a party are is in `server_side/hosted_run.py` and `party_side/hosted_party.py`. The job
itself is in `examples/nvflare_app`.
"""

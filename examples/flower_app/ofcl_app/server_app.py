"""The server's side: a run of ofcl whose clients are the SuperNodes."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ofcl import Run
from ofcl.events import Round
from ofcl.federation.flower_app.app_run import make_stage, read_run
from ofcl.federation.server_side.hosted_run import in_words

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Begins the run, or goes on with the one in its directory; every event is recorded there."""
    asked = read_run(context.run_config)
    stage = make_stage(asked, grid)
    if asked.begun:
        run = Run.resume(asked.out, stage=stage)
    else:
        run = Run(asked.settings, out=asked.out, stage=stage)
    for event in run:
        if isinstance(event, Round):
            print(f"round {event.round}: {len(event.clients)} parties", flush=True)
    print(in_words(run.result(), asked.out), flush=True)

"""The trials of a sweep, in a database of Optuna's that outlasts a kill."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator
from ofcl.sweep.space import Dimension, Value

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

NAME = "sweep"
REASON = "reason"


@dataclass(frozen=True)
class TrialRecord:
    """A trial as the database has it.

    Args:
        number: Its number, from 0.
        state: `running`, `complete`, `pruned` or `failed`.
        values: The values of the searched settings.
        value: Its validation accuracy; None: it is not complete.
        curve: The anytime accuracy, by step.
        reason: Why it has failed; else empty.
    """

    number: int
    state: str
    values: dict[str, Value]
    value: float | None
    curve: dict[int, float]
    reason: str = ""


class Trials:
    """The trials of a sweep. Only one process, which has locked the folder, may use them.

    Args:
        path: The database file; it is made if it is not there.
        space: The settings that are searched.
        seed: The seed of what is drawn. A trial's draws depend on it, on the trial's number and on
            the trials before it alone.
        prune: Whether trials that lag behind are to be stopped early.
    """

    def __init__(self, path: Path, space: list[Dimension], seed: int, prune: bool) -> None:
        try:
            import optuna
        except ImportError:
            raise OfclError("a sweep needs Optuna: pip install 'ofcl[sweep]'") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._seed = space, seed
        pruner = optuna.pruners.MedianPruner() if prune else optuna.pruners.NopPruner()
        self._study: Study = optuna.create_study(
            study_name=NAME,
            storage=f"sqlite:///{path.absolute()}",
            direction="maximize",
            load_if_exists=True,
            pruner=pruner,
        )

    def records(self) -> list[TrialRecord]:
        """Lists all trials by number."""
        return [_record(trial) for trial in self._study.get_trials(deepcopy=False)]

    def begin(self) -> TrialRecord:
        """Begins a trial, with values that Optuna chooses."""
        self._draw_for(len(self.records()))
        return self._choose(self._study.ask())

    def take_up(self, number: int) -> TrialRecord:
        """Goes on with a trial that was running when its process ended.

        Args:
            number: The number of the trial. Values that it lacks are chosen now.
        """
        self._draw_for(number)
        return self._choose(self._trial(number))

    def report(self, number: int, step: int, value: float) -> None:
        """Saves how far a trial has come; a step that is known is left as it is.

        Args:
            number: The number of the trial.
            step: The number of tasks that have ended in all its runs.
            value: The anytime accuracy.
        """
        trial = self._trial(number)
        if step not in self._frozen(number).intermediate_values:
            trial.report(value, step)

    def lags_behind(self, number: int) -> bool:
        """Tells whether a trial is below the median of the others at its last step.

        Args:
            number: The number of the trial.
        """
        return self._trial(number).should_prune()

    def complete(self, number: int, value: float) -> None:
        """Ends a trial with its value.

        Args:
            number: The number of the trial.
            value: Its validation accuracy.
        """
        self._study.tell(number, value)

    def give_up(self, number: int, reason: str = "") -> None:
        """Ends a trial without a value.

        Args:
            number: The number of the trial.
            reason: Why it has failed; empty: it lagged behind.
        """
        from optuna.trial import TrialState

        if reason:
            self._trial(number).set_user_attr(REASON, reason)
        self._study.tell(number, state=TrialState.FAIL if reason else TrialState.PRUNED)

    def importances(self) -> dict[str, float]:
        """Estimates the share of each setting in the differences of trials, by PED-ANOVA.

        Returns:
            The shares by name, which add up to 1; empty if there are too few complete trials.
        """
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        complete = [r for r in self.records() if r.state == "complete"]
        if len(complete) < 4 or len({record.value for record in complete}) < 2:
            return {}
        shares = get_param_importances(self._study, evaluator=PedAnovaImportanceEvaluator())
        return {name: float(share) for name, share in shares.items()}

    def _choose(self, trial: Trial) -> TrialRecord:
        """Chooses the values of a trial that it does not have yet."""
        for dimension in self._space:
            dimension.suggest(trial)
        return _record(self._frozen(trial.number))

    def _draw_for(self, number: int) -> None:
        """Seeds Optuna's draws for a trial."""
        import optuna

        drawn = int(numpy_generator(self._seed, "sweep", number).integers(2**31))
        # Trials that run beside it count as bad ones, so that it looks elsewhere.
        self._study.sampler = optuna.samplers.TPESampler(seed=drawn, constant_liar=True)

    def _trial(self, number: int) -> Trial:
        """Opens a trial that is running."""
        from optuna.trial import Trial

        return Trial(self._study, self._frozen(number)._trial_id)

    def _frozen(self, number: int) -> FrozenTrial:
        """Reads a trial."""
        return self._study.get_trials(deepcopy=False)[number]


def _record(trial: FrozenTrial) -> TrialRecord:
    """Translates a trial of Optuna's."""
    state = {"FAIL": "failed", "WAITING": "running"}.get(trial.state.name, trial.state.name.lower())
    return TrialRecord(
        number=trial.number,
        state=state,
        values=dict(trial.params),
        value=trial.value if state == "complete" else None,
        curve=dict(trial.intermediate_values),
        reason=trial.user_attrs.get(REASON, ""),
    )

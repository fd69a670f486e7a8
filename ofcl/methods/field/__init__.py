"""Methods of the field, each one file: replay (`replay.py`) with parts of its own.

    teacher   the last global model as a teacher, for LwF and iCaRL
    der       DER++ (Buzzega et al. 2020): logits are remembered with the samples
    scr       SCR (Mai et al. 2021): supervised contrastive replay
    mir       MIR (Aljundi et al. 2019): replays the samples that a step would hurt most
    gdumb     GDumb (Prabhu et al. 2020): learns from the memory alone, when it is tested
    icarl     iCaRL (Rebuffi et al. 2017): herding and distillation
    lwf       LwF (Li & Hoiem 2016): distillation without a memory
    ewc       EWC (Kirkpatrick et al. 2017): important weights stay near their old values

Each has a page in docs/methods/.
"""

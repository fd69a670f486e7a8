"""The settings of a run: their names, types, defaults and help.

Settings come from TOML files, the command line or Python; every value is checked here. A protocol
(`strong`, `sound`, `published`) is a TOML file with values of these settings; `docs/protocols.md`
says what each value changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ofcl.errors import unknown
from ofcl.own_parts.kinds import installed, is_code
from ofcl.pretrained.backbone_names import TUNE, is_tune
from ofcl.settings.files import PROTOCOLS, dataset_preset, method_preset, preset

NAMES = {
    "loss": ("ce", "ace"),
    "augment": ("none", "flip-rotate", "flip-shift", "strong", "noise"),
    "optimizer": ("auto", "sgd", "adam"),
    "aggregation": ("fedavg", "weighted", "fedprox", "trimmed-mean", "median", "krum",
                    "geometric-median"),
}  # fmt: skip
"""Settings whose value is one of these names or a part of the user's own (`own_parts/`)."""


class Settings(BaseModel):
    """Everything that determines a run.

    A setting that is not given gets the value that the paper sets for the dataset; else the one
    that the method needs (`methods.toml`); else that of the protocol; else the default. If the
    protocol names it in `fit`, a run chooses it for the data (`assembly/fitting.py`).

    >>> Settings(protocol="published", memory=500).mixing
    0.5
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    # What is run
    dataset: str = Field("fashion-mini", description="dataset by name, or your own by path")
    method: str = Field("bi", description="how a client learns and what it remembers")
    policy: str | None = Field(
        None, description="own code that chooses what a memory keeps; unset: the method's way"
    )
    score: str | None = Field(
        None, description="the score by which a memory keeps samples; unset: the method's, if any"
    )
    protocol: Literal["strong", "sound", "published"] = Field(
        "strong", description="the values that the other settings start from"
    )
    fit: tuple[str, ...] = Field(
        (), description="settings that are chosen for the data; those that are given never are"
    )
    seed: int = Field(0, ge=0, description="seed of everything drawn in the run")
    start: str | None = Field(
        None, description="an earlier run's directory, or a model, from which this run goes on"
    )

    # How the data are read
    data_root: str | None = Field(
        None, description="folder of the named datasets; unset: OFCL_DATA, or the user's cache"
    )
    label: str | None = Field(None, description="own tables: the column of the labels")
    text: str | None = Field(None, description="own tables: the column of the texts")
    columns: tuple[str, ...] = Field(
        (), description="own tables: the columns to learn from; unset: all but the label"
    )
    drop: tuple[str, ...] = Field((), description="own tables: columns that are left out")
    image_size: int | None = Field(
        None, ge=1, description="own images: resize to this side; needed if sizes differ"
    )
    embedder: str = Field(
        "e5-small-v2",
        description="texts: e5-small-v2, minilm, or a sentence-transformers model or its folder; "
        "images: efficientnet-lite0, timm:NAME, hf:NAME; tokens:NAME: token ids for a pretrained "
        "model of texts",
    )
    tokens: int = Field(
        128, ge=2, le=8192, description="texts as token ids (embedder = tokens:NAME): how many"
    )
    features: Literal["standardised", "unit"] = Field(
        "standardised",
        description="vectors of an embedder of images: standardised by the train samples, of "
        "streams by the first (window); unit: of length 1",
    )
    test_share: float = Field(
        0.2, gt=0, lt=1, description="own data: held out for testing if there is no test part"
    )
    window: int = Field(
        200,
        ge=2,
        description="tables, and streams of embedded images: rows by which they are standardised",
    )
    allow: tuple[str, ...] = Field(
        (), description="parties: parts of one's own that a server may ask for, by name or path"
    )
    on_bad: Literal["auto", "stop", "skip", "wait"] = Field(
        "auto",
        description="a sample that cannot be read: stop, or leave it out and count it; of watched "
        "folders also wait: its client waits until it is mended, the others go on; auto: wait for "
        "several watched folders, else stop",
    )
    train_head: int | None = Field(None, ge=1, description="use the first N train samples only")
    test_head: int | None = Field(None, ge=1, description="use the first N test samples only")
    train_per_class: int | None = Field(None, ge=1, description="then N train samples a class")
    test_per_class: int | None = Field(None, ge=1, description="then N test samples a class")

    # Streams that have no end
    streams: tuple[str, ...] = Field(
        (), description="one a client, instead of a dataset: watch:FOLDER, or - (standard input)"
    )
    task: str | None = Field(None, description="streams: the column that says where tasks end")
    test: str | None = Field(None, description="streams: a file or folder to test on")
    idle: float | None = Field(
        None, gt=0, description="watched folders end after so many seconds without a new file"
    )
    patience: float = Field(
        60.0, ge=0, description="seconds that a round waits for a client with nothing to learn"
    )

    # Scenario: classes → tasks → clients
    clients: int = Field(5, ge=1, description="number of clients, K")
    tasks: int = Field(5, ge=1, description="number of tasks, T")
    class_order: Literal["random", "released", "size"] = Field(
        "random",
        description="order in which classes arrive: random, that of the paper's run of this "
        "number, or by falling size",
    )
    task_order: Literal["overlap", "non-overlap"] = Field(
        "overlap", description="the same order for all clients, or one for each"
    )
    class_split: Literal["even", "floor"] = Field(
        "even", description="classes // tasks do not divide: spread the rest, or drop it"
    )
    drop_class: Literal["none", "smallest", "last"] = Field(
        "none", description="a class to leave out of the scenario"
    )
    split: Literal["even", "dirichlet"] = Field(
        "even", description="a class's data over the clients: evenly, or by a Dirichlet draw"
    )
    alpha: float = Field(0.5, gt=0, description="concentration of the Dirichlet draw")
    remainder: Literal["deal", "drop"] = Field(
        "deal", description="an even split leaves a rest: deal it out one by one, or drop it"
    )
    validation: float = Field(
        0.05, ge=0, lt=1, description="share of train held for validation if there is no such part"
    )
    blurry: float = Field(
        0.0, ge=0, lt=1, description="share of each task's data that comes in its neighbours"
    )
    imbalance: float = Field(
        1.0, ge=1, description="long tail: the largest class has this many times the smallest"
    )
    label_noise: float = Field(
        0.0, ge=0, le=1, description="share of train samples that get a wrong label, of their task"
    )
    input_noise: float = Field(
        0.0, ge=0, le=1, description="share of train samples whose input is broken"
    )
    joint: bool = Field(
        False, description="all tasks come as one, all classes mixed: a bound to compare with"
    )
    stagger: int = Field(
        0, ge=0, description="client k starts k times so many mini-batches after the first"
    )
    batch_size: int = Field(10, ge=1, description="samples of a mini-batch")
    limit: int | None = Field(None, ge=1, description="at most N mini-batches a client and task")

    # Memory
    memory: int = Field(200, ge=1, description="samples a client remembers, M")
    memory_age: int | None = Field(
        None, ge=1, description="a sample is forgotten when so many others have come; none: never"
    )
    memory_days: float | None = Field(
        None, gt=0, description="a sample is forgotten so many days after it came; none: never"
    )
    keep: Literal["bottom", "top", "weighted", "spread", "diverse"] = Field(
        "bottom",
        description="of each class, keep the least uncertain, the most uncertain, a weighted draw "
        "(keep_beta), samples over the range of scores, or samples far from each other",
    )
    keep_beta: float = Field(
        -0.5,
        description="keep = weighted: power of the score; below 0 uncertain ones are preferred, "
        "0 is cbr",
    )
    replay_draw: Literal["uniform", "class", "key"] = Field(
        "uniform",
        description="samples drawn for replay: all alike, class by class, or uncertain ones more "
        "often",
    )
    replay: Literal["past", "all"] = Field(
        "past", description="replay from past tasks only, or from the whole memory"
    )
    memory_rule: Literal["even", "released"] = Field(
        "even", description="even over classes with surplus handed on, or as the released code"
    )
    rescore: Literal["on-arrival", "at-risk", "every-round", "every-batch"] = Field(
        "at-risk",
        description="remembered samples scored again: never, after a round those that would go "
        "first, or all; or with every mini-batch",
    )
    score_scale: Literal["raw", "rank"] = Field(
        "raw",
        description="scores compared as they are, or by rank among those of the same class and "
        "time (then they are computed on arrival alone)",
    )

    # Uncertainty
    scoring_model: Literal["current", "after-round", "before-round"] = Field(
        "after-round", description="the model that scores: now, or as of the last round"
    )
    scoring_mode: Literal["eval", "train"] = Field(
        "eval", description="BatchNorm of the scoring model: running, or batch statistics"
    )
    score_average: Literal["scores", "softmax"] = Field(
        "scores", description="LC, MS, RC, EN: mean of the scores, or score of the mean softmax"
    )
    perturbations: tuple[str, ...] = Field(
        ("all",), description="image perturbations by name or number, or 'all' twelve"
    )
    draws: Literal["sample", "batch"] = Field(
        "sample", description="perturbations and augmentations drawn for a sample or for a batch"
    )
    pixels: Literal["raw", "normalised"] = Field(
        "raw", description="the pixels that perturbations change"
    )
    interpolation: Literal["bilinear", "nearest"] = Field(
        "bilinear", description="how images that are rotated or shrunk are read"
    )
    noise_std: float = Field(0.1, gt=0, description="vectors: standard deviation of the noise")
    noise_copies: int = Field(
        5, ge=1, description="vectors and token ids: number of perturbed copies"
    )
    hidden_tokens: float = Field(
        0.15, gt=0, lt=1, description="token ids: share of a text's tokens that a copy hides"
    )

    # Learning
    model: str = Field(
        "auto",
        description="auto: slim-resnet18 for images, mlp for vectors; under strong it is chosen "
        "for the data: slim-resnet18 or convnet for images, mlp for vectors; pretrained: "
        "efficientnet-lite0 or timm:NAME for images, minilm or hf:NAME for texts",
    )
    tune: str = Field(
        "lora",
        description="the part of a pretrained model that learns: head, lora (adapters), last:N "
        "(the last N blocks), all; nothing else of it travels or is saved",
    )
    lora_rank: int = Field(4, ge=1, le=1024, description="tune = lora: the rank of the adapters")
    backbone_side: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="pretrained models of images: the side to which they resize images; unset: the "
        "one that they were trained on",
    )
    weights: str | None = Field(
        None,
        description="pretrained models: the file or folder of the weights; unset: of the package, "
        "or the hub",
    )
    backbone: str | None = Field(
        None, description="pretrained models: the checksum of the weights; a run fills it in"
    )
    recompute: bool = Field(
        False,
        description="pretrained models: compute activations again in the backward pass (gradient "
        "checkpointing); slower, for networks that do not fit into a GPU's memory",
    )
    width: int = Field(
        20, ge=1, description="channels of the first block of slim-resnet18 and convnet"
    )
    hidden: int = Field(512, ge=1, description="units of the hidden layer of mlp")
    optimizer: str = Field(
        "auto", description="sgd, adam; auto: sgd for slim-resnet18, adam for the other models"
    )
    lr: float | None = Field(None, gt=0, description="learning rate; unset: sgd_lr or adam_lr")
    sgd_lr: float = Field(0.1, gt=0, description="learning rate of SGD")
    adam_lr: float = Field(0.003, gt=0, description="learning rate of Adam")
    loss: str = Field("ce", description="ce: cross-entropy; ace: the asymmetric one of ER-ACE")
    steps: int = Field(3, ge=1, description="gradient steps a mini-batch")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of the network in gradient steps on a GPU; a CPU has float32"
    )
    test_first: bool = Field(
        False, description="test a mini-batch in evaluation mode before it is learned; streams do"
    )
    replay_ratio: float = Field(1.0, gt=0, description="samples that are replayed for each new one")
    augment: str = Field(
        "flip-rotate",
        description="random changes of samples: none; images are flipped and rotated "
        "(flip-rotate), flipped and shifted (flip-shift), or recoloured too (strong); vectors get "
        "noise",
    )
    augmented: Literal["new", "all"] = Field(
        "new", description="what is augmented: new samples in steps after the first, or everything"
    )
    augment_noise: float = Field(
        0.1, gt=0, description="augment = noise: deviation, as a share of a sample's size"
    )
    contrast: float = Field(0.0, ge=0, description="weight of the supervised contrastive term")
    temperature: float = Field(0.1, gt=0, description="temperature of the contrastive term")
    distil: float = Field(
        0.0, ge=0, description="weight of the distillation from the last global model"
    )

    classifier: Literal["head", "nearest-mean"] = Field(
        "head",
        description="how models predict when they are tested: by the head, or by the nearest mean "
        "of the memory's features; clients then send sums of features by class",
    )

    # Methods of the field, each by its name
    moment: Literal["task", "round"] = Field(
        "task",
        description="lwf, icarl, ewc: the last global model becomes teacher or anchor as a task "
        "ends, or after every round; streams without tasks: after every round",
    )
    der_alpha: float = Field(0.1, ge=0, description="der: weight of the remembered logits")
    der_beta: float = Field(0.5, ge=0, description="der: weight of the replayed samples' loss")
    mir_candidates: int = Field(50, ge=1, description="mir: samples among which it chooses")
    fitting_epochs: int = Field(
        256, ge=1, description="gdumb: passes over the memory when a model is tested"
    )
    lwf_weight: float = Field(1.0, ge=0, description="lwf: weight of the distillation")
    ewc_weight: float = Field(100.0, ge=0, description="ewc: weight of the penalty")

    refed_steps: int = Field(
        5, ge=1, description="refed: steps along which the importance of samples is added up"
    )
    refed_lambda: float = Field(
        0.5, gt=0, lt=1, description="refed: share of a client's own data in its personalised model"
    )
    tau_old: float = Field(0.9, gt=0, description="fedcbdr: temperature of old classes' logits")
    tau_new: float = Field(1.1, gt=0, description="fedcbdr: temperature of new classes' logits")
    omega_old: float = Field(1.1, ge=0, description="fedcbdr: weight of samples of old classes")
    omega_new: float = Field(0.9, ge=0, description="fedcbdr: weight of samples of new classes")
    glfc_rise: float = Field(
        1.2,
        gt=0,
        description="glfc: rise of the entropy that is a sign of new classes, without tasks",
    )

    # Generative methods
    synthetic: int = Field(
        10, ge=1, description="mfcl, target: made images for every gradient step"
    )
    generator_steps: int = Field(
        100, ge=1, description="mfcl, target: steps of the server's generator at the end of a task"
    )
    target_kd: float = Field(25.0, ge=0, description="target: weight of the distillation")
    generator_labels: Literal["teacher", "noise"] = Field(
        "teacher", description="mfcl: what a made image is of: as the teacher takes it, or drawn"
    )
    consistency: float = Field(1.0, ge=0, description="fedcil: weight of the consistency terms")
    consolidation: int = Field(
        100, ge=0, description="fedcil: steps of the server after every round"
    )
    gan_lr: float = Field(2e-4, gt=0, description="fedcil: learning rate of Adam")

    # Server
    aggregation: str = Field(
        "fedavg",
        description="how the server averages: fedavg, weighted, fedprox, trimmed-mean, median, "
        "krum or geometric-median",
    )
    bad_clients: int = Field(
        1, ge=0, description="krum: how many clients may be bad; it trusts so many fewer neighbours"
    )
    mu: float = Field(0.01, ge=0, description="weight of FedProx's proximal term")
    proximal: Literal["squared", "norms"] = Field(
        "squared", description="proximal term: squared norm, or sum of the tensors' norms"
    )
    previous: float = Field(
        0.5, ge=0, lt=1, description="share of the previous global model in the new one"
    )
    previous_start: Literal["none", "initial"] = Field(
        "none", description="the previous model of the first round: none, or the initial one"
    )
    nested_average: bool = Field(
        False, description="weighted: average every class's model with the previous one too"
    )
    class_weights: Literal["class", "task"] = Field(
        "class", description="weighted: clients weigh by samples of the class, or of the task"
    )
    class_counts: bool = Field(
        True, description="weighted: clients tell their class counts; if not, it is plain FedAvg"
    )
    trim: float = Field(
        0.2, ge=0, lt=0.5, description="trimmed-mean: share of the clients left out at each end"
    )
    clip_norm: float | None = Field(
        None, gt=0, description="the server lets an update go at most so far from its model"
    )
    compress: str = Field(
        "none",
        pattern=r"^(none|fp16|int8|int4|topk:[0-9.]+)$",
        description="how models travel, as differences to the last global model: none, fp16, int8, "
        "int4, or topk:SHARE, the largest numbers alone; what is lost is sent later",
    )
    secure_aggregation: bool = Field(
        False, description="parties: the server sees the sum of their updates, no single one"
    )
    cross_site: bool = Field(
        False,
        description="parties: at the end, the models of those who agree are tested on the data of "
        "each other",
    )
    update_bound: float | None = Field(
        5.0,
        ge=1,
        description="parties: an update goes at most so many times as far as the usual one of its "
        "round; none: any distance",
    )
    weight_bound: float | None = Field(
        3.0,
        ge=1,
        description="parties: nobody weighs more than so many times the usual sample count; none: "
        "as a party says",
    )
    dp_clip: float | None = Field(
        None,
        gt=0,
        description="differential privacy: how far an update may go, before noise",
    )
    dp_noise: float = Field(
        1.0, ge=0, description="differential privacy: deviation of the noise, as a share of dp_clip"
    )
    dp_delta: float = Field(
        1e-5, gt=0, lt=1, description="differential privacy: the δ for which ε is told"
    )
    mixing: float = Field(
        1.0, gt=0, le=1, description="share of the global model in what a client goes on with"
    )
    batchnorm: Literal["average", "reset", "local"] = Field(
        "average",
        description="BatchNorm statistics: averaged, never sent (the global ones stay at 0 and 1), "
        "or each client's own",
    )
    burn_in: int = Field(30, ge=0, description="mini-batches of a task before its first round")
    first_round: Literal["after-burn-in", "at-burn-in"] = Field(
        "after-burn-in", description="a round needs more mini-batches than burn_in, or as many"
    )
    q: int = Field(5, ge=1, description="mini-batches between rounds")
    closing_round: Literal["none", "task", "end"] = Field(
        "none",
        description="a round of all clients before they are tested: none, at the end of each task, "
        "or at the end of their streams",
    )
    rounds: Literal["waiting", "buffered"] = Field(
        "waiting",
        description="a round waits for all clients, or nobody waits: the server averages when "
        "`buffer` updates have come, and each client goes on at once from the newest model",
    )
    buffer: int = Field(2, ge=1, description="rounds = buffered: updates that make a round")
    age_power: float = Field(
        0.5, ge=0, description="rounds = buffered: an update counts (1 + age) to minus this power"
    )
    speeds: tuple[float, ...] = Field(
        (),
        description="rounds = buffered, on one machine: how long a mini-batch takes each client; "
        "unset: all alike",
    )
    min_clients: int = Field(2, ge=1, description="fewer clients than this make no round")
    round_timeout: float | None = Field(
        None, gt=0, description="parties: seconds until a round goes on without one; none: it waits"
    )
    participation: float = Field(1.0, gt=0, le=1, description="share of clients drawn a round")
    dropout: float = Field(0.0, ge=0, lt=1, description="probability that a client misses a round")

    # Running and reporting
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, …, mps")
    threads: int | None = Field(
        None, ge=1, description="CPU threads of PyTorch; unset: one for mlp, else PyTorch's own"
    )
    engine: Literal["local", "flower-sim", "flower"] = Field(
        "local",
        description="where clients run: here, on Flower's simulation engine (Ray), or at parties "
        "of their own (ofcl federation)",
    )
    ray: str | None = Field(
        None, description="flower-sim: the address of a Ray cluster; none: this machine"
    )
    checkpoint_every: int | None = Field(
        None, ge=1, description="mini-batches (of all clients) between; unset: every 10 seconds"
    )
    licence: str = Field("", description="licence of the saved model, for its card (an SPDX name)")
    spread: Literal["seeds", "clients"] = Field(
        "seeds", description="what the ± of a comparison is taken over"
    )

    @property
    def tasks_in_stream(self) -> int:
        """The number of tasks in a client's stream: one with `joint`, in which all come as one."""
        return 1 if self.joint else self.tasks

    @model_validator(mode="before")
    @classmethod
    def _start_from_protocol(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fills in the values of the protocol, and those that the paper sets for the dataset.

        Args:
            values: The values that were given, by the setting's name; they override the others.

        Returns:
            All these values. `fit` names only settings that neither the caller nor the paper has
            set.
        """
        protocol = values.get("protocol", cls.model_fields["protocol"].default)
        if protocol not in PROTOCOLS:
            return values
        dataset = str(values.get("dataset", cls.model_fields["dataset"].default))
        start = preset(protocol)
        method = str(values.get("method", start.get("method")))
        given = {**method_preset(method, protocol), **dataset_preset(dataset, protocol), **values}
        fit = [name for name in start.get("fit", ()) if name not in given]
        return {**start, "fit": fit, **given}

    @field_validator("tune")
    @classmethod
    def _known_tune(cls, value: str) -> str:
        """Accepts the ways in which a pretrained model learns."""
        if not is_tune(value):
            line = f"unknown tune '{value}'; expected {TUNE}"
            raise PydanticCustomError("unknown_tune", "{line}", {"line": line})
        return value

    @field_validator("data_root", "weights")
    @classmethod
    def _whole_path(cls, value: str | None) -> str | None:
        """Makes a path absolute, so that a run is resumed from any other folder."""
        return None if value is None else str(Path(value).expanduser().absolute())

    @field_validator("speeds", mode="before")
    @classmethod
    def _as_numbers(cls, value: Any) -> tuple[float, ...]:
        """Turns a list of numbers, or a text with commas between them, into numbers."""
        items = value if isinstance(value, list | tuple) else str(value).split(",")
        return tuple(float(item) for item in items if str(item).strip())

    @field_validator("augment", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Accepts true (`flip-rotate`) and false (`none`), as older settings files have them."""
        return ("flip-rotate" if value else "none") if isinstance(value, bool) else value

    @field_validator(*NAMES)
    @classmethod
    def _known_or_own(cls, value: str, info: ValidationInfo) -> str:
        """Accepts the names of this package, those of installed packages, and paths to code."""
        kind = str(info.field_name)
        names = [*NAMES[kind], *installed(kind)]
        if value not in names and not is_code(value):
            line = str(unknown(kind, value, names))
            raise PydanticCustomError("unknown_part", "{line}", {"line": line})
        return value

    @field_validator("perturbations", "columns", "drop", "streams", "fit", "allow", mode="before")
    @classmethod
    def _as_names(cls, value: Any) -> tuple[str, ...]:
        """Turns a list of names and numbers, or a text with commas between them, into names."""
        items = value if isinstance(value, list | tuple) else str(value).split(",")
        return tuple(str(item).strip() for item in items if str(item).strip())

"""The settings of a training run: what it learns and how it is carried out. Free of PyTorch.

A :class:`Recipe` holds every setting that decides the result (model, data, bits, schedule, seed). :class:`Options`
holds the rest (device, threads, mixed precision, checkpoints), which changes the rounding of floats at most. Both are
frozen dataclasses that check themselves.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signwise.errors import SignwiseError

# The names that a recipe uses for the methods of signwise.methods and for the rules of binarize_.
METHODS = (
    "group_transform",
    "group_transform_mean",
    "binary_connect",
    "bwn",
    "lab",
    "ir_net",
    "prox_quant",
    "sq_bwn",
    "self_binarizing",
    "mpt",
    "dsq",
    "scaled_sign",
    "straight_through",
    "mean_sign",
    "parq",
    "binary_relax",
    "reste",
    "bop",
)
SKIPS = ("first_and_last", "last", "none")
OPTIMIZERS = ("sgdw", "adam")
DECAYS = ("steps", "linear", "cosine")
LOGGERS = ("wandb", "mlflow")
INITIALIZATIONS = ("pytorch", "glorot", "method")

ARITHMETIC = ("threads", "bfloat16", "compiled", "sync_batch_norm", "deterministic")
"""The options that change how floats are rounded. A resumed run keeps them unless they are given anew."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One row of the table of experiments.

    With T steps in total, W of them warm-up, the learning rate of step t is ``learning_rate`` times
    ``min(1, (t + 1) / W)`` times ``decay_factor`` for each milestone passed; milestones are fractions ``decay_at`` of
    the T - W steps after the warm-up. Weight decay falls at the same milestones but is not warmed up.

    Args:
        name: the experiment, such as ``lenet5-mnist``.
        model: a name in ``signwise.models``, or ``package.module:function`` for a model of your own.
        dataset: a name in ``signwise.datasets``, or ``own`` for images of your own.
        bits: 1 for binary weights, 32 for the full-precision baseline.
        epochs: passes over the training images.
        batch_size: images per step, over all processes together.
        learning_rate: the learning rate after the warm-up.
        weight_decay: decoupled weight decay; not multiplied by the learning rate.
        optimizer: one of :data:`OPTIMIZERS`; ``adam`` is Adam with decoupled weight decay, multiplied by the learning
            rate.
        momentum: momentum of SGD.
        nesterov: Nesterov's form of momentum.
        label_smoothing: share of the target probability that is spread over all classes.
        warmup_epochs: epochs over which the learning rate rises from 0.
        decay: the curve along which learning rate and weight decay fall, one of :data:`DECAYS`; the next two settings
            belong to ``steps``.
        decay_factor: multiplies learning rate and weight decay at each milestone.
        decay_at: milestones, as fractions of the steps after the warm-up.
        t_alpha: fraction of the steps over which α rises to 1; ``None`` with 32 bits.
        zeta_start: ζ before its ramp.
        zeta_end: ζ at the last step.
        zeta_ramp: the last fraction of the steps, over which ζ rises.
        method: the binarization method, one of :data:`METHODS`.
        initialization: of the weights: PyTorch's own, Glorot's uniform (the default of Keras), or that of the method's
            authors.
        batch_norm_momentum: weight of the newest batch in the running statistics of batch norm.
        batch_norm_epsilon: what batch norm adds to the variance.
        skip: the layers that stay float: one of :data:`SKIPS`, or name globs with commas between them.
        flip: mirror each training image with probability 1/2.
        translate: shift training images by up to this many pixels.
        zoom: zoom training images by up to this fraction.
        rotate: rotate training images by up to this many degrees.
        reestimate_batch_norm: training images on which batch norm is re-estimated before each evaluation.
        seed: seed of initialization, order and augmentation.
        train_samples: train on the first N images only.
        test_samples: test on the first N images only.
        validation_samples: keep this many images of the training set out of training and test on them instead, to
            choose settings without looking at the test set.
        image_size: scale and crop your own images to squares of this many pixels.
        test_fraction: the share of your own images to hold out for testing, if there is no test set.
        init_from: weights to start from: a run's folder, or a file with a state dict; see
            :func:`~signwise.training.pretrained.read_pretrained`.
        distill: let the float network of ``init_from`` teach, too.
        distill_temperature: how much the teacher's outputs are softened.
        distill_weight: share of the teacher in the loss.

    Example:
        >>> recipe = Recipe(name="tiny", model="lenet5", dataset="mnist", bits=32, epochs=10, batch_size=100,
        ...     learning_rate=0.01, weight_decay=1e-4, t_alpha=None, decay_factor=0.1, decay_at=(0.5,))
        >>> recipe.changed(epochs=5).warmup_epochs  # a shorter run has a shorter warm-up
        2.5
    """

    name: str
    model: str
    dataset: str
    bits: int = 1
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    optimizer: str = "sgdw"
    momentum: float = 0.9
    nesterov: bool = False
    label_smoothing: float = 0.0
    warmup_epochs: float = 5.0
    decay: str = "steps"
    decay_factor: float
    decay_at: tuple[float, ...]
    t_alpha: float | None = 0.9
    zeta_start: float = 1.0
    zeta_end: float = 12.0
    zeta_ramp: float = 0.1
    method: str = "group_transform"
    initialization: str = "pytorch"
    batch_norm_momentum: float = 0.1
    batch_norm_epsilon: float = 1e-5
    skip: str = "first_and_last"
    flip: bool = False
    translate: int = 0
    zoom: float = 0.0
    rotate: float = 0.0
    reestimate_batch_norm: int = 0
    seed: int = 0
    train_samples: int | None = None
    test_samples: int | None = None
    validation_samples: int = 0
    image_size: int | None = None
    test_fraction: float = 0.1
    init_from: str | None = None
    distill: bool = False
    distill_temperature: float = 4.0
    distill_weight: float = 0.5

    def __post_init__(self) -> None:
        self._check("bits", self.bits in (1, 32), "1 or 32")
        for name in ("epochs", "batch_size"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("learning_rate", "decay_factor"):
            self._check(name, 0 < getattr(self, name) < math.inf, "positive")
        for name in ("weight_decay", "momentum", "label_smoothing", "zoom"):
            self._check(name, 0 <= getattr(self, name) < 1, "in [0, 1)")
        self._check("rotate", 0 <= self.rotate <= 180, "in [0, 180]")
        self._check("zeta_ramp", 0 <= self.zeta_ramp <= 1, "in [0, 1]")
        self._check("batch_norm_momentum", 0 < self.batch_norm_momentum <= 1, "in (0, 1]")
        self._check("batch_norm_epsilon", 0 < self.batch_norm_epsilon < math.inf, "positive")
        for name in ("translate", "reestimate_batch_norm", "seed", "validation_samples"):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        self._check("test_fraction", 0 < self.test_fraction < 1, "in (0, 1)")
        for name in ("train_samples", "test_samples", "image_size"):
            value = getattr(self, name)
            self._check(name, value is None or value >= 1, "at least 1")
        self._check("skip", all(self.skip.split(",")), f"one of {', '.join(SKIPS)}, or name globs such as conv1,fc*")
        self._check("distill", self.init_from is not None or not self.distill, "off without `init_from`")
        self._check("distill_temperature", 0 < self.distill_temperature < math.inf, "positive")
        self._check("distill_weight", 0 <= self.distill_weight <= 1, "in [0, 1]")
        self._check("warmup_epochs", 0 <= self.warmup_epochs <= self.epochs, f"in [0, {self.epochs}] (epochs)")
        rising = all(low < high for low, high in zip(self.decay_at, self.decay_at[1:], strict=False))
        inside = all(0 <= fraction <= 1 for fraction in self.decay_at)
        self._check("decay_at", rising and inside, "rising fractions in [0, 1]")
        choices = {
            "method": METHODS,
            "optimizer": OPTIMIZERS,
            "decay": DECAYS,
            "initialization": INITIALIZATIONS,
        }
        for name, names in choices.items():
            self._check(name, getattr(self, name) in names, f"one of {', '.join(names)}")
        if self.bits == 32:
            self._check("t_alpha", self.t_alpha is None, "left out with 32 bits: nothing is binarized")
        else:
            self._check("t_alpha", self.t_alpha is not None and 0 <= self.t_alpha <= 1, "in [0, 1]")
            self._check("zeta_start", 0 <= self.zeta_start <= self.zeta_end < math.inf, f"in [0, {self.zeta_end}]")

    def _check(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise SignwiseError(f"{name} must be {expected}, got {getattr(self, name)}")

    def changed(self, **overrides: Any) -> Recipe:
        """A copy with other values.

        Fewer epochs shorten the warm-up in proportion, unless ``warmup_epochs`` is given; ``train_samples`` also limits
        the test images, unless ``test_samples`` is given.
        """
        unknown = set(overrides) - {entry.name for entry in dataclasses.fields(self)}
        if unknown:
            raise SignwiseError(f"a recipe has no setting {', '.join(sorted(unknown))}")
        epochs = overrides.get("epochs", self.epochs)
        if epochs < self.epochs and "warmup_epochs" not in overrides:
            overrides["warmup_epochs"] = self.warmup_epochs * max(epochs, 0) / self.epochs
        if overrides.get("train_samples") is not None and "test_samples" not in overrides:
            # A quick look should be quick: a wide model takes longer to test 10,000 images than to train on 500.
            overrides["test_samples"] = overrides["train_samples"]
        return dataclasses.replace(self, **overrides)

    def fine_tuning(self, init_from: str) -> Recipe:
        """This recipe for weights that are trained already: a twentieth of the epochs, and a schedule that fits them.

        Learning rate and weight decay fall along half a cosine and without warm-up. α is 1 after half of the steps: the
        float network becomes binary in the first half, and the binary one recovers in the second.

        Args:
            init_from: where the weights are, see the setting of that name.

        Example:
            >>> from signwise.training import get_recipe
            >>> recipe = get_recipe("lenet5-mnist").fine_tuning("runs/lenet5-mnist-32bit")
            >>> recipe.epochs, recipe.t_alpha, recipe.warmup_epochs
            (10, 0.5, 0)
        """
        t_alpha = None if self.bits == 32 else 0.5
        epochs = max(1, self.epochs // 20)
        return self.changed(init_from=init_from, epochs=epochs, warmup_epochs=0, decay="cosine", t_alpha=t_alpha)

    def to_json(self) -> dict[str, Any]:
        """The settings as ``config.json`` stores them."""
        return dataclasses.asdict(self) | {"decay_at": list(self.decay_at)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Recipe:
        """Read what :meth:`to_json` wrote; a setting that the record does not know takes its default."""
        known = {entry.name for entry in dataclasses.fields(cls)}
        settings = {name: value for name, value in record.items() if name in known}
        try:
            return cls(**settings | {"decay_at": tuple(settings["decay_at"])})
        except (KeyError, TypeError) as error:
            raise SignwiseError(f"the recorded recipe is incomplete: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Device, precision, checkpoints and records of a run.

    ``None`` for ``threads``, ``bfloat16``, ``compiled``, ``sync_batch_norm`` or ``deterministic`` means: as the run was
    begun, if it is resumed; PyTorch's default number of threads and off, if it starts.

    Args:
        data: folder with the data set; ``None`` for the cache.
        resume: continue from the run folder's checkpoint, or start if there is none.
        device: a PyTorch device such as ``cpu`` or ``cuda:1``; ``auto`` for an accelerator if there is one.
        threads: CPU threads per process.
        bfloat16: mixed precision: matrix products in bfloat16, weights and statistics in float32.
        compiled: compile the forward and backward pass with ``torch.compile``.
        sync_batch_norm: batch-norm statistics over all processes; accelerators only.
        deterministic: refuse operations whose result varies from call to call on an accelerator.
        checkpoint_minutes: the longest time between two checkpoints; the end of an epoch always writes one.
        relaxed_every: test the relaxed weights after every so many epochs, and after the last; it takes as long as the
            test of the deployed weights.
        tensorboard: write TensorBoard events.
        log_to: other loggers that receive the numbers of the run, of :data:`LOGGERS`; each needs its own package.
        watch: glob patterns of the layers whose state is recorded; empty for the middle layer.

    Example:
        >>> Options(threads=0)
        Traceback (most recent call last):
        signwise.errors.SignwiseError: threads must be at least 1, got 0
    """

    data: Path | None = None
    resume: bool = False
    device: str = "auto"
    threads: int | None = None
    bfloat16: bool | None = None
    compiled: bool | None = None
    sync_batch_norm: bool | None = None
    deterministic: bool | None = None
    checkpoint_minutes: float = 3.0
    relaxed_every: int = 1
    tensorboard: bool = True
    log_to: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SignwiseError(f"threads must be at least 1, got {self.threads}")
        if self.relaxed_every < 1:
            raise SignwiseError(f"relaxed_every must be at least 1, got {self.relaxed_every}")
        if self.checkpoint_minutes < 0:
            raise SignwiseError(f"checkpoint_minutes must be 0 or more, got {self.checkpoint_minutes}")

        for name in self.log_to:
            if name not in LOGGERS:
                raise SignwiseError(f"log_to must be of {', '.join(LOGGERS)}, got {name}")

    def to_json(self) -> dict[str, Any]:
        """The options as ``config.json`` stores them: the data folder as text, without ``resume``."""
        record = dataclasses.asdict(self) | {"data": None if self.data is None else str(self.data)}
        del record["resume"]
        return record

    def as_begun(self, recorded: Mapping[str, Any]) -> tuple[Options, list[str]]:
        """These options with the recorded arithmetic wherever they leave it open.

        Args:
            recorded: an attempt at the run as ``config.json`` records it, with ``options`` and ``threads``.

        Returns:
            The options, and one sentence per setting that differs from the record.

        Example:
            >>> options, notes = Options(bfloat16=True).as_begun({"threads": 2, "options": {"bfloat16": False}})
            >>> options.threads, options.bfloat16, notes
            (2, True, ['bfloat16 was False and is True now: the run rounds differently from here on'])
        """
        begun: dict[str, Any] = {name: recorded.get("options", {}).get(name) or False for name in ARITHMETIC}
        begun["threads"] = recorded.get("threads")  # the number in use, also where the options named none
        given = {name: getattr(self, name) for name in ARITHMETIC if getattr(self, name) is not None}
        notes = [
            f"{name} was {begun[name]} and is {value} now: the run rounds differently from here on"
            for name, value in given.items()
            if begun[name] not in (None, value)
        ]
        return dataclasses.replace(self, **begun | given), notes

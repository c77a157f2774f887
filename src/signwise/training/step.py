"""One training step, as a function of its number alone.

Everything that varies from step to step (images, augmentation, α, ζ, learning rate, weight decay, random layers)
follows from the seed and the step. The state of a run is its weights, its momentum and its step.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from signwise import models
from signwise.convert import LAYERS_WITH_WEIGHTS, Skip, binarize_, first_and_last, last
from signwise.diagnose import signs_of
from signwise.errors import SignwiseError
from signwise.layers import after_step_, before_step_, initialize_
from signwise.methods import METHODS, BinaryConnect, Method, ProxQuant
from signwise.optim import SGDW, param_groups
from signwise.schedule import BinarizationSchedule, CosineDecay, Decay, LinearDecay, StepDecay
from signwise.text import unknown_name
from signwise.training.data import Augment, TrainingData, derived_seed, epoch_order, seed_layers
from signwise.training.distributed import World
from signwise.training.recipe import Options, Recipe

_SKIPS: dict[str, Skip] = {"first_and_last": first_and_last, "last": last, "none": None}
# The sum of all pulls of ProxQuant's authors, over the steps before the signs freeze.
_TOTAL_PULL = 7.8


AddedLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Takes the cross-entropy, the images and the outputs of a batch, and returns the loss to train on."""


class DivergenceError(SignwiseError):
    """Training has diverged: the loss or a weight is NaN or infinite."""


def model_factory(recipe: Recipe) -> Callable[..., nn.Module]:
    """The function that builds the recipe's model.

    Raises:
        SignwiseError: there is no such model.
    """
    factory = models.imported_model(recipe.model) if ":" in recipe.model else models.MODELS.get(recipe.model)
    if factory is None:
        raise SignwiseError(unknown_name("model", recipe.model, models.MODELS))
    return factory


def build_model(
    recipe: Recipe,
    num_classes: int,
    total_steps: int | None = None,
    image_shape: tuple[int, int, int] | None = None,
) -> nn.Module:
    """The recipe's model with its initial weights, binarized with 1 bit.

    The initialization draws from the recipe's seed on the CPU, so that it is the same on every device.

    Args:
        recipe: what to build.
        num_classes: the number of outputs.
        total_steps: the length of the training, for methods whose settings depend on it.
        image_shape: (C, H, W) of an image. A model of the user's own is run on one, to see which layers need a scale.
    """
    is_own, factory = ":" in recipe.model, model_factory(recipe)
    torch.manual_seed(derived_seed(recipe.seed, "initialization", 0))
    model = factory(num_classes=num_classes)
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.momentum, module.eps = recipe.batch_norm_momentum, recipe.batch_norm_epsilon
        elif recipe.initialization == "glorot" and isinstance(module, LAYERS_WITH_WEIGHTS):
            nn.init.xavier_uniform_(module.weight)
    if recipe.bits == 1:
        example = torch.zeros(1, *image_shape) if is_own and image_shape is not None else None
        # Of the user's own model, binarize_ scales the layers that no normalization follows.
        method = None if is_own and recipe.method == "group_transform" else _method(recipe, total_steps)
        binarize_(model, skip=_SKIPS.get(recipe.skip, recipe.skip.split(",")), method=method, example_input=example)
        if recipe.initialization == "method":
            initialize_(model)
    return model


@torch.no_grad()
def check_outputs(model: nn.Module, recipe: Recipe, image_shape: tuple[int, int, int], num_classes: int) -> None:
    """Refuse a model that does not take the images, or does not give one output per class."""
    was_training = model.training
    device = next(model.parameters()).device
    shape = "x".join(str(size) for size in image_shape)
    try:
        outputs = model.eval()(torch.zeros(1, *image_shape, device=device))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise SignwiseError(f"{recipe.model} cannot take the images of {recipe.dataset}, {shape}: {reason}") from error
    finally:
        model.train(was_training)
    found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if found != (1, num_classes):
        raise SignwiseError(
            f"{recipe.model} must return one output per class, (1, {num_classes}) for one image of {shape}, "
            f"and returns {found}"
        )


def _method(recipe: Recipe, total_steps: int | None) -> Method:
    method = METHODS[recipe.method]
    if isinstance(method, BinaryConnect) and recipe.optimizer == "adam":
        return dataclasses.replace(method, power=1)  # the authors' rule for Adam
    if isinstance(method, ProxQuant) and total_steps is not None:
        pulls = recipe.learning_rate * total_steps * method.freeze_at / 2
        return dataclasses.replace(method, strength=_TOTAL_PULL / pulls)
    return method


def build_optimizer(recipe: Recipe, model: nn.Module) -> Optimizer:
    """The recipe's optimizer, with decoupled weight decay; biases and norms are not decayed."""
    groups = param_groups(model, weight_decay=recipe.weight_decay)
    if recipe.optimizer == "adam":
        return torch.optim.AdamW(groups, lr=recipe.learning_rate)
    return SGDW(groups, lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=recipe.nesterov)


def build_decay(recipe: Recipe, steps_per_epoch: int) -> Decay:
    """The factors on learning rate and weight decay."""
    total, warmup = recipe.epochs * steps_per_epoch, round(recipe.warmup_epochs * steps_per_epoch)
    if recipe.decay == "steps":
        return StepDecay(total_steps=total, warmup_steps=warmup, factor=recipe.decay_factor, milestones=recipe.decay_at)
    curve = LinearDecay if recipe.decay == "linear" else CosineDecay
    return curve(total_steps=total, warmup_steps=warmup)


def steps_per_epoch(recipe: Recipe, count: int) -> int:
    """Steps in a pass over ``count`` images; a partial last batch is left out."""
    return count // min(recipe.batch_size, count)


def binarization_schedule(recipe: Recipe, steps_per_epoch: int) -> BinarizationSchedule | None:
    """The schedule of α and ζ, or ``None`` with 32 bits."""
    if recipe.t_alpha is None:
        return None
    return BinarizationSchedule(
        recipe.epochs * steps_per_epoch,
        t_alpha=recipe.t_alpha,
        zeta_range=(recipe.zeta_start, recipe.zeta_end),
        zeta_ramp=recipe.zeta_ramp,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class StepResult:
    """What one step measured, over the images of all processes.

    Tensors stay on the device: reading one makes the CPU wait for an accelerator.

    Args:
        loss: mean loss.
        errors: number of wrong predictions.
        stops: number of processes that asked to stop.
    """

    loss: Tensor
    errors: Tensor
    stops: Tensor


class Stepper:
    """A model in training.

    Args:
        recipe: what to learn.
        options: how to carry it out.
        model: the model, on the world's device.
        data: the data, on the same device.
        world: the processes that train together.
        added_loss: what the loss of a batch has beside the cross-entropy.

    Raises:
        SignwiseError: the batch does not divide among the processes.
    """

    def __init__(
        self,
        recipe: Recipe,
        options: Options,
        model: nn.Module,
        data: TrainingData,
        world: World,
        added_loss: AddedLoss | None = None,
    ) -> None:
        self.recipe, self.model, self.data, self.world = recipe, model, data, world
        self._added_loss = added_loss
        count = len(data.train.images)
        # A partial last batch would be noisier than the rest: its images wait for the next epoch's order.
        self.batch_size = min(recipe.batch_size, count)
        self.steps_per_epoch = steps_per_epoch(recipe, count)
        self.total_steps = recipe.epochs * self.steps_per_epoch
        if self.batch_size % world.size:
            raise SignwiseError(
                f"a batch of {self.batch_size} images does not divide among {world.size} processes: "
                "choose another `batch_size` or number of processes"
            )
        self.optimizer = build_optimizer(recipe, model)
        self.decay = build_decay(recipe, self.steps_per_epoch)
        self.schedule = binarization_schedule(recipe, self.steps_per_epoch)
        # Sums over the epoch so far, over the images of all processes: loss and wrong predictions.
        self.totals = torch.zeros(2, device=world.device)
        # The signs at the start of the epoch; empty with 32 bits, or after resuming a checkpoint that has none.
        self.signs: dict[str, Tensor] = {}
        # Reading the loss makes the CPU wait for an accelerator, so there it is read only now and then.
        self.check_every = 1 if world.device.type == "cpu" else 20
        self._augment = Augment(flip=recipe.flip, translate=recipe.translate, zoom=recipe.zoom, rotate=recipe.rotate)
        self._generator = torch.Generator()
        self._bfloat16 = bool(options.bfloat16)
        _use_channels_last_(model, world)
        wrapped = world.wrap(model)
        self._forward: Callable[[Tensor], Tensor] = torch.compile(wrapped) if options.compiled else wrapped
        self._order_epoch, self._order = -1, torch.empty(0)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """This process's images and labels for a step, augmented."""
        train = self.data.train
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._order_epoch:
            order = epoch_order(self.recipe.seed, epoch, len(train.images), self.world.device)
            self._order_epoch, self._order = epoch, order
        indices = self._order[position * self.batch_size : (position + 1) * self.batch_size]
        mine = self.world.shard(indices)
        images = train.images[mine]
        if not self._augment.is_identity:
            # Every process draws for the whole batch, so that augmentation does not depend on their number.
            self._generator.manual_seed(derived_seed(self.recipe.seed, "augmentation", step))
            views = self._augment.draw(len(indices), self._generator)
            first = self.world.rank * len(mine)
            images = self._augment.apply(images, views.part(slice(first, first + len(mine))))
        return images.to(memory_format=torch.channels_last), train.labels[mine]

    def apply_schedules(self, step: int) -> None:
        """Set α, ζ, learning rate and weight decay for a step."""
        if self.schedule is not None:
            self.schedule.apply_(self.model, step)
        self.decay.apply_(self.optimizer, step)

    def step(self, step: int, *, stop: bool = False) -> StepResult:
        """Do one step: schedules, forward, backward, update.

        Args:
            step: its number, from 0.
            stop: this process asks to stop. The flag travels with the loss, in one all-reduce, so that all processes
                learn of it at the same step.

        Raises:
            DivergenceError: the loss is not finite; the weights have not changed.
        """
        images, labels = self.batch(step)
        if step % self.steps_per_epoch == 0:
            self.signs = signs_of(self.model)
        self.apply_schedules(step)
        seed = derived_seed(self.recipe.seed, f"layers of process {self.world.rank}", step)
        seed_layers(seed, self.world.device)
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self._bfloat16):
            outputs = self._forward(images)
            loss = F.cross_entropy(outputs, labels, label_smoothing=self.recipe.label_smoothing)
            if self._added_loss is not None:
                loss = self._added_loss(loss, images, outputs)
        self.optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            flag = torch.tensor(float(stop)).to(images.device, non_blocking=True)
            sums = torch.stack([loss.detach() * len(labels), (outputs.argmax(1) != labels).sum(), flag])
            self.world.all_reduce_(sums)
            self.totals += sums[:2]
        mean_loss = sums[0] / self.batch_size
        if step % self.check_every == 0 and not math.isfinite(value := float(mean_loss)):
            raise self.divergence(step, value)
        before_step_(self.model)
        self.optimizer.step()
        after_step_(self.model, self.optimizer)
        return StepResult(loss=mean_loss, errors=sums[1], stops=sums[2])

    def check_weights(self, step: int) -> None:
        """Raise :class:`DivergenceError` if a weight is not finite: a step can do that although its loss was."""
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.model.parameters()):
            raise self.divergence(step, math.nan)

    def divergence(self, step: int, loss: float) -> DivergenceError:
        """The error that names step, layer and way out."""
        images, _ = self.batch(step)
        return DivergenceError(
            f"the loss is {loss} at step {step} (epoch {1 + step // self.steps_per_epoch}): "
            f"{first_bad_layer(self.model, images)} is not finite; try a lower `learning_rate` "
            f"(now {self.recipe.learning_rate:g}) or more `warmup_epochs`. The last checkpoint is from before that"
        )


@torch.no_grad()
def first_bad_layer(model: nn.Module, images: Tensor) -> str:
    """Name the first layer, in the order of the forward pass, whose weights or output are not finite."""
    found: list[str] = []

    def look(name: str, module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if found or _is_finite(output):
            return
        bad_weights = [key for key, value in module.named_parameters(recurse=False) if not _is_finite(value)]
        if bad_weights:
            found.append(f"the {bad_weights[0]} of layer {name}")
        elif all(_is_finite(value) for value in inputs):
            found.append(f"the output of layer {name}")

    if not _is_finite(images):
        return "an input image"
    # The forward pass below must not change the running statistics of batch norm.
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    hooks = [
        module.register_forward_hook(lambda module, inputs, output, name=name: look(name, module, inputs, output))
        for name, module in model.named_modules()
        if not any(module.children())
    ]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
        for buffer, before in buffers:
            buffer.copy_(before)
    return found[0] if found else "the loss itself"


def _is_finite(value: object) -> bool:
    return not isinstance(value, Tensor) or bool(torch.isfinite(value).all())


def _use_channels_last_(model: nn.Module, world: World) -> None:
    """Store convolution weights channels-last, where convolution and pooling are fastest (LeNet5 by a third)."""
    for module in model.modules():
        weight = module._parameters.get("weight")
        # With one channel both layouts are the same bytes, and autograd's choice may not be the one DDP expects.
        if weight is not None and weight.dim() == 4 and (weight.shape[1] > 1 or world.size == 1):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # PyTorch does not annotate it

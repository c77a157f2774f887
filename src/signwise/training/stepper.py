"""One training step, as a function of its number alone.

Everything that varies from step to step (which images, their augmentation, α, ζ, learning rate, weight decay, what
random layers draw) follows from the seed and the step, so that the state of a run is its weights, its momentum and its
step, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.convert import after_step_
from signwise.datasets.augment import Augment
from signwise.errors import SignwiseError
from signwise.training.device_images import DeviceImages
from signwise.training.distributed import World
from signwise.training.network import binarization_schedule, build_optimizer, learning_schedule
from signwise.training.options import Options
from signwise.training.order import derived_seed, epoch_order, seed_layers
from signwise.training.recipe import Recipe


class Stepper:
    """A network in training.

    Args:
        recipe: what is learned.
        options: how.
        network: the network, on the world's device.
        images: the data, on the same device.
        world: the processes that train together.
    """

    def __init__(
        self, recipe: Recipe, options: Options, network: nn.Module, images: DeviceImages, world: World
    ) -> None:
        self.recipe, self.network, self.world = recipe, network, world
        self._images = images
        self.train_images = images.train_images
        count = len(images.train_images)
        # A last batch that is not full would be noisier than the rest: its images wait for the next epoch's order.
        self.batch_size = min(recipe.batch_size, count)
        self.steps_per_epoch = count // self.batch_size
        self.total_steps = recipe.epochs * self.steps_per_epoch
        if self.batch_size % world.size:
            raise SignwiseError(
                f"a batch of {self.batch_size} images does not divide among {world.size} processes: "
                "choose another --batch-size or number of processes"
            )
        self.optimizer = build_optimizer(recipe, network)
        self.learning = learning_schedule(recipe, self.steps_per_epoch)
        self.binarization = binarization_schedule(recipe, self.steps_per_epoch)
        # Sums over the epoch so far: of the loss and of the wrong answers, over the images of all processes.
        self.totals = torch.zeros(2, device=world.device)
        self._augment = Augment(flip=recipe.flip, translate=recipe.translate, zoom=recipe.zoom)
        self._generator = torch.Generator()
        self._bfloat16 = options.bfloat16
        _lay_out_(network, world)
        wrapped = world.wrapped(network)
        self._trained: Callable[[Tensor], Tensor] = torch.compile(wrapped) if options.compiled else wrapped
        self._order_epoch, self._order = -1, torch.empty(0)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """This process's images and labels of a step."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._order_epoch:
            count = len(self._images.train_images)
            self._order_epoch, self._order = epoch, epoch_order(self.recipe.seed, epoch, count, self.world.device)
        indices = self._order[position * self.batch_size : (position + 1) * self.batch_size]
        mine = self.world.share_of(indices)
        images = self._images.train_images[mine]
        if not self._augment.is_identity:
            # All processes draw for the whole batch, so that an image is augmented alike however many they are.
            self._generator.manual_seed(derived_seed(self.recipe.seed, "augmentation", step))
            views = self._augment.draw(len(indices), self._generator)
            first = self.world.rank * len(mine)
            images = self._augment.apply(images, views.part(slice(first, first + len(mine))))
        return images.to(memory_format=torch.channels_last), self._images.train_labels[mine]

    def prepare(self, step: int) -> None:
        """Set α, ζ, learning rate, weight decay and the random generator to those of a step."""
        if self.binarization is not None:
            self.binarization.apply_(self.network, step)
        learning_rate = self.recipe.learning_rate * self.learning.learning_rate(step)
        factor = self.learning.weight_decay(step)
        for group in self.optimizer.param_groups:
            group.setdefault("full_weight_decay", group["weight_decay"])
            group["lr"] = learning_rate
            group["weight_decay"] = group["full_weight_decay"] * factor
        seed = derived_seed(self.recipe.seed, f"layers of process {self.world.rank}", step)
        seed_layers(seed, self.world.device)

    def forward_backward(self, images: Tensor, labels: Tensor, wants_to_stop: bool = False) -> tuple[Tensor, Tensor]:
        """Compute the gradients; returns the mean loss over the images of all processes, and how many want to stop.

        The wish travels with the loss, so that all processes learn of it at the same step and stop after the same one.
        """
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self._bfloat16):
            answers = self._trained(images)
            loss = F.cross_entropy(answers, labels)
        self.optimizer.zero_grad()
        loss.backward()  # PyTorch leaves it unannotated
        with torch.no_grad():
            wish = torch.tensor(float(wants_to_stop)).to(images.device, non_blocking=True)
            sums = torch.stack([loss.detach() * len(labels), (answers.argmax(1) != labels).sum(), wish])
            self.world.sum_(sums)
            self.totals += sums[:2]
        return sums[0] / self.batch_size, sums[2]

    def update(self) -> None:
        """Move the weights along the gradients."""
        self.optimizer.step()
        after_step_(self.network)


def _lay_out_(network: nn.Module, world: World) -> None:
    """Store convolutions with their channels last, as they and poolings are fastest (LeNet5 by a third)."""
    for module in network.modules():
        weight = module._parameters.get("weight")
        # With one channel both layouts are the same bytes, and autograd's choice may not be the one DDP expects.
        if weight is not None and weight.dim() == 4 and (weight.shape[1] > 1 or world.size == 1):
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # PyTorch does not annotate it

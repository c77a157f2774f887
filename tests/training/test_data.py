"""Training data: standardization, randomness as a function of seed and index, and augmentation within its bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from signwise.datasets import ImageData, Split, load
from signwise.errors import SignwiseError
from signwise.training.data import Augment, derived_seed, epoch_order, seed_layers, standardized_data

CPU = torch.device("cpu")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def impulse(count: int, *, size: int = 17) -> torch.Tensor:
    """Black images with one white pixel in the centre."""
    images = torch.zeros(count, 1, size, size)
    images[:, :, size // 2, size // 2] = 1
    return images


def test_subsets_are_standardized_by_the_whole_training_set() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7000, 2, 3, 3), dtype=np.uint8)
    labels = np.arange(7000) % 2
    data = ImageData(
        name="noise",
        classes=("a", "b"),
        train=Split(pixels, labels),
        test=Split(pixels[:9], labels[:9]),
    )
    whole = standardized_data(data, CPU)
    channels = whole.train.images.transpose(0, 1).flatten(1)
    torch.testing.assert_close(channels.mean(1), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(channels.std(1, correction=0), torch.ones(2))
    part = standardized_data(data, CPU, train_samples=5, test_samples=3)
    assert torch.equal(part.train.images, whole.train.images[:5]) and part.train.labels.tolist() == [0, 1, 0, 1, 0]
    assert torch.equal(part.test.images, whole.test.first(3).images) and len(part.test.labels) == 3


def test_seeds_differ_in_every_argument_and_are_fixed_for_good() -> None:
    places = [(seed, purpose, index) for seed in (0, 1) for purpose in ("order", "layers") for index in range(50)]
    assert len({derived_seed(*place) for place in places}) == len(places)
    # Resumed runs depend on it: a change of this number breaks every checkpoint.
    assert derived_seed(0, "order", 0) == 3991725939186754870


def test_an_epochs_order_visits_every_image_once_whatever_was_drawn_before() -> None:
    first = epoch_order(3, 7, 100, CPU)
    torch.rand(5)
    assert torch.equal(first, epoch_order(3, 7, 100, CPU))
    assert sorted(first.tolist()) == list(range(100))
    assert not torch.equal(first, epoch_order(3, 8, 100, CPU))


def test_layers_on_the_cpu_draw_as_after_torch_manual_seed_and_no_accelerator_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = derived_seed(0, "layers", 1)
    torch.manual_seed(seed)
    expected = torch.randn(100)
    monkeypatch.setattr(torch, "get_device_module", pytest.fail)
    seed_layers(seed, CPU)
    assert torch.equal(torch.randn(100), expected)


@pytest.mark.parametrize(
    ("kind", "seeding"), [("cuda", "manual_seed_all"), ("xpu", "manual_seed_all"), ("mps", "manual_seed")]
)
def test_layers_on_an_accelerator_have_its_generator_seeded_too(
    kind: str, seeding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.get_device_module(kind), seeding, seeds.append)
    seed_layers(5, torch.device(kind, 0))
    assert seeds == [5] and torch.initial_seed() == 5


def test_the_same_seed_gives_the_same_views_and_another_seed_others() -> None:
    images = torch.randn(32, 3, 32, 32, generator=seeded(9))
    augment = Augment(flip=True, translate=4, zoom=0.2)
    first, second, other = (augment(images, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_successive_batches_are_seen_differently() -> None:
    images = torch.randn(32, 3, 32, 32, generator=seeded(9))
    augment, generator = Augment(translate=4), seeded()
    assert not torch.equal(augment(images, generator), augment(images, generator))


def test_all_off_returns_the_input_itself_and_leaves_the_generator_alone() -> None:
    images, generator = torch.randn(4, 3, 8, 8), seeded()
    before = generator.get_state()
    assert Augment()(images, generator) is images
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 28), (5, 7), (1, 3)])
def test_flip_mirrors_about_half_of_the_images_exactly(height: int, width: int) -> None:
    images = torch.randn(4000, 1, height, width, generator=seeded())
    flipped = Augment(flip=True)(images, seeded(3))
    mirrored = (flipped == images.flip(3)).flatten(1).all(1)
    kept = (flipped == images).flatten(1).all(1)
    assert (mirrored | kept).all()
    # Four standard deviations of a fair coin: 4 * sqrt(4000) / 2 = 126.
    assert abs(int(mirrored.sum()) - 2000) < 126


@pytest.mark.parametrize("translate", [1, 3])
def test_translation_reaches_every_shift_within_its_bound_and_none_beyond(translate: int) -> None:
    moved = Augment(translate=translate)(impulse(4000), seeded())
    _, _, rows, columns = moved.nonzero(as_tuple=True)
    reached = set(zip((rows - 8).tolist(), (columns - 8).tolist(), strict=True))
    allowed = range(-translate, translate + 1)
    assert reached == {(row, column) for row in allowed for column in allowed}
    assert moved.sum() == 4000, "a pixel that moves keeps its value"


@given(height=st.integers(1, 9), width=st.integers(1, 9), translate=st.integers(0, 11), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_translation_and_flip_equal_a_loop_over_pixels(height: int, width: int, translate: int, seed: int) -> None:
    augment = Augment(flip=True, translate=translate)
    images = torch.randn(3, 2, height, width, generator=seeded(seed))
    views = augment.draw(3, seeded(seed))
    expected = torch.zeros_like(images)
    for image, mirrored, (right, down), out in zip(images, views.mirrored, views.shift.tolist(), expected, strict=True):
        for y in range(height):
            for x in range(width):
                # The centre is at (width - 1) / 2; mirroring is about it, before the shift is taken off.
                source_x = (width - 1 - x if mirrored else x) - right
                if 0 <= y - down < height and 0 <= source_x < width:
                    out[:, y, x] = image[:, y - down, source_x]
    assert torch.equal(augment.apply(images, views), expected)


def test_zoom_stays_in_its_range_and_fills_it() -> None:
    scale = Augment(zoom=0.25).draw(4000, seeded()).scale
    assert scale.min() >= 0.75 and scale.max() <= 1.25
    assert scale.min() < 0.76 and scale.max() > 1.24 and abs(scale.mean() - 1) < 0.01


def test_zoom_magnifies_by_its_scale() -> None:
    # A square of 16 pixels; its area grows with the square of the magnification.
    images = torch.zeros(64, 1, 64, 64)
    images[:, :, 24:40, 24:40] = 1
    augment = Augment(zoom=0.3)
    views = augment.draw(64, seeded())
    areas = augment.apply(images, views).flatten(1).sum(1)
    assert torch.allclose(areas, (16 * views.scale) ** 2, rtol=0.05)


def test_rotation_stays_in_its_range_and_fills_it() -> None:
    angle = Augment(rotate=30).draw(4000, seeded()).angle.rad2deg()
    assert angle.min() >= -30 and angle.max() <= 30
    assert angle.min() < -29 and angle.max() > 29 and abs(angle.mean()) < 1


def test_rotation_turns_about_the_centre_and_keeps_shapes_in_images_that_are_not_square() -> None:
    augment, images = Augment(rotate=90), torch.randn(1, 2, 5, 9)
    views = augment.draw(1, seeded())._replace(angle=torch.tensor([torch.pi / 2]))
    turned = augment.apply(images, views)
    # The middle 5x5 pixels turn by a quarter; what they show was beside them before.
    assert torch.allclose(turned[..., 2:7], images[..., 2:7].rot90(1, (2, 3)), atol=1e-5)
    assert turned[..., :2].abs().max() < 1e-5 and turned[..., 7:].abs().max() < 1e-5


def test_a_part_of_a_batch_is_seen_as_in_the_whole_batch() -> None:
    augment, images = Augment(flip=True, translate=2, zoom=0.1), torch.randn(8, 3, 16, 16)
    views = augment.draw(8, seeded())
    half = slice(4, 8)
    assert torch.equal(augment.apply(images[half], views.part(half)), augment.apply(images, views)[half])


def test_augmented_images_have_the_type_of_the_images() -> None:
    images = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    assert Augment(flip=True, translate=1, zoom=0.1)(images, seeded()).dtype == torch.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"translate": -1}, "translate"),
        ({"zoom": 1.0}, "zoom"),
        ({"zoom": -0.1}, "zoom"),
        ({"zoom": float("nan")}, "zoom"),
        ({"rotate": 181.0}, "rotate"),
    ],
)
def test_augmentation_outside_its_range_is_refused_by_name(options: dict[str, float], message: str) -> None:
    with pytest.raises(SignwiseError, match=f"{message} must"):
        Augment(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_validation_images_are_the_last_of_the_training_set_and_are_not_trained_on(digits: Path) -> None:
    data = load("mnist", digits)
    device = torch.device("cpu")
    whole = standardized_data(data, device)
    held_out = standardized_data(data, device, validation_samples=30)
    assert torch.equal(held_out.train.images, whole.train.images[:-30])
    assert torch.equal(held_out.test.images, whole.train.images[-30:])
    assert torch.equal(held_out.test.labels, whole.train.labels[-30:])
    with pytest.raises(SignwiseError, match="`validation_samples` must be below"):
        standardized_data(data, device, validation_samples=len(data.train_images))

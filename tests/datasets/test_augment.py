"""Augmentation: what it may change, how far, how often, and that the seed decides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from signwise.datasets.augment import Augment


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def impulse(count: int, *, size: int = 17) -> torch.Tensor:
    """Black images with one white pixel in the centre."""
    images = torch.zeros(count, 1, size, size)
    images[:, :, size // 2, size // 2] = 1
    return images


def test_the_same_seed_gives_the_same_views_and_another_seed_others():
    images = torch.randn(32, 3, 32, 32, generator=seeded(9))
    augment = Augment(flip=True, translate=4, zoom=0.2)
    first, second, other = (augment(images, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_successive_batches_are_seen_differently():
    images = torch.randn(32, 3, 32, 32, generator=seeded(9))
    augment, generator = Augment(translate=4), seeded()
    assert not torch.equal(augment(images, generator), augment(images, generator))


def test_all_off_returns_the_input_itself_and_leaves_the_generator_alone():
    images, generator = torch.randn(4, 3, 8, 8), seeded()
    before = generator.get_state()
    assert Augment()(images, generator) is images
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 28), (5, 7), (1, 3)])
def test_flip_mirrors_about_half_of_the_images_exactly(height: int, width: int):
    images = torch.randn(4000, 1, height, width, generator=seeded())
    flipped = Augment(flip=True)(images, seeded(3))
    mirrored = (flipped == images.flip(3)).flatten(1).all(1)
    kept = (flipped == images).flatten(1).all(1)
    assert (mirrored | kept).all()
    # Four standard deviations of a fair coin: 4 * sqrt(4000) / 2 = 126.
    assert abs(int(mirrored.sum()) - 2000) < 126


@pytest.mark.parametrize("translate", [1, 3])
def test_translation_reaches_every_shift_within_its_bound_and_none_beyond(translate: int):
    moved = Augment(translate=translate)(impulse(4000), seeded())
    _, _, rows, columns = moved.nonzero(as_tuple=True)
    reached = set(zip((rows - 8).tolist(), (columns - 8).tolist(), strict=True))
    allowed = range(-translate, translate + 1)
    assert reached == {(row, column) for row in allowed for column in allowed}
    assert moved.sum() == 4000, "a pixel that moves keeps its value"


@given(height=st.integers(1, 9), width=st.integers(1, 9), translate=st.integers(0, 11), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_translation_and_flip_equal_a_loop_over_pixels(height: int, width: int, translate: int, seed: int):
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


def test_zoom_stays_in_its_range_and_fills_it():
    scale = Augment(zoom=0.25).draw(4000, seeded()).scale
    assert scale.min() >= 0.75 and scale.max() <= 1.25
    assert scale.min() < 0.76 and scale.max() > 1.24 and abs(scale.mean() - 1) < 0.01


def test_zoom_magnifies_by_its_scale():
    # A square of 16 pixels; its area grows with the square of the magnification.
    images = torch.zeros(64, 1, 64, 64)
    images[:, :, 24:40, 24:40] = 1
    augment = Augment(zoom=0.3)
    views = augment.draw(64, seeded())
    areas = augment.apply(images, views).flatten(1).sum(1)
    assert torch.allclose(areas, (16 * views.scale) ** 2, rtol=0.05)


def test_a_part_of_a_batch_is_seen_as_in_the_whole_batch():
    augment, images = Augment(flip=True, translate=2, zoom=0.1), torch.randn(8, 3, 16, 16)
    views = augment.draw(8, seeded())
    half = slice(4, 8)
    assert torch.equal(augment.apply(images[half], views.part(half)), augment.apply(images, views)[half])


def test_the_type_of_the_images_is_kept():
    images = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    assert Augment(flip=True, translate=1, zoom=0.1)(images, seeded()).dtype == torch.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"translate": -1}, "translate"),
        ({"zoom": 1.0}, "zoom"),
        ({"zoom": -0.1}, "zoom"),
        ({"zoom": float("nan")}, "zoom"),
    ],
)
def test_options_outside_their_range_are_refused_by_name(options: dict[str, float], message: str):
    with pytest.raises(ValueError, match=f"{message} must"):
        Augment(**options)

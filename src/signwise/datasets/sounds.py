"""Sounds for small networks: the mel spectrogram of a ``.wav`` file, with numpy alone.

    energy(t, b) = Σ_f  triangle_b(f) |FFT(hann · sound around t)(f)|²,        feature = log10(energy + 1e-4) - mean

The same function makes the features for training and for the packed network, so that both see the same numbers.
"""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.errors import DataError, SignwiseError

_LOWEST, _HIGHEST = 100.0, 2800.0  # mel; about 65 Hz to 7.7 kHz, the range of speech
_HOPS_PER_SECOND = 100
_WINDOW = 3  # hops


def mel_spectrogram(path: str | Path, *, bands: int = 40, seconds: float = 1.0) -> npt.NDArray[np.float32]:
    """The spectrogram of the beginning of a sound, as an image with one channel.

    The first channel of the file counts. A shorter sound is followed by silence. Bands are placed by their frequency,
    so that files with different sampling rates give comparable features.

    Args:
        path: a ``.wav`` file with 16 bits per sample, at 16 kHz or more.
        bands: the height of the image.
        seconds: how much of the sound to take; the width is one column per 10 ms.

    Returns:
        An array of shape (1, ``bands``, 100 · ``seconds``), lowest frequency first, with zero mean.

    Raises:
        DataError: the file is missing, damaged or in another format.
    """
    if bands < 1 or seconds <= 0:
        raise SignwiseError(f"bands and seconds must be positive, got {bands} and {seconds}")
    rate, sound = _read(Path(path))
    hop, columns = rate // _HOPS_PER_SECOND, round(seconds * _HOPS_PER_SECOND)
    needed = (columns - 1 + _WINDOW) * hop
    sound = np.pad(sound[:needed], (0, max(0, needed - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(sound, _WINDOW * hop)[::hop]  # (columns, samples)
    energies = np.abs(np.fft.rfft(frames * np.hanning(_WINDOW * hop), axis=1)) ** 2
    logarithms = np.log10(energies @ _triangles(bands, rate, energies.shape[1]).T + 1e-4).T
    features: npt.NDArray[np.float32] = (logarithms - logarithms.mean())[None].astype(np.float32)
    return features


def _triangles(bands: int, rate: int, bins: int) -> npt.NDArray[np.float64]:
    """The weight of each frequency in each band, (bands, bins): each begins in the middle of the one before."""
    corners = 700 * (10 ** (np.linspace(_LOWEST, _HIGHEST, bands + 2)[:, None] / 2595) - 1)  # hertz
    hertz, widths = np.linspace(0, rate / 2, bins), np.diff(corners, axis=0)
    rising, falling = (hertz - corners[:-1]) / widths, (corners[1:] - hertz) / widths
    return np.clip(np.minimum(rising[:-1], falling[1:]), 0, None)


def _read(path: Path) -> tuple[int, npt.NDArray[np.float64]]:
    """The sampling rate, and the first channel from -1 to 1."""
    try:
        with wave.open(str(path)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            content = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise DataError(f"cannot read {path} as a .wav file: {error}") from error
    if width != 2 or rate < 16_000:
        raise DataError(f"{path} has {8 * width} bits per sample at {rate:,} Hz: convert it to 16 bits at 16,000 Hz")
    whole = len(content) // (2 * channels) * channels  # a truncated file may end within a sample
    return rate, np.frombuffer(content[: 2 * whole], "<i2").reshape(-1, channels)[:, 0] / 32768

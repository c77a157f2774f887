"""Mel spectrograms: tones appear in their band at any sampling rate, and files in other formats are refused."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from signwise.datasets import mel_spectrogram
from signwise.errors import DataError, SignwiseError


def write_tone(path: Path, hertz: float, rate: int = 16_000, seconds: float = 1.0, channels: int = 1) -> Path:
    tone = 8000 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)
    samples = np.zeros((len(tone), channels), "<i2")
    samples[:, 0] = tone
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return path


@pytest.mark.parametrize("hertz", [200, 1000, 6000])
def test_a_tone_is_loudest_in_the_band_of_its_frequency_at_every_sampling_rate(hertz: float, tmp_path: Path) -> None:
    mel = 2595 * np.log10(1 + hertz / 700)
    expected = round((mel - 100) / (2700 / 41)) - 1  # the nearest of the 40 centres between 42 corners
    for rate in (16_000, 22_050, 44_100):
        features = mel_spectrogram(write_tone(tmp_path / "tone.wav", hertz, rate))
        assert features.shape == (1, 40, 100) and features.dtype == np.float32
        assert abs(int(features[0, :, 50].argmax()) - expected) <= 1
        assert features.mean() == pytest.approx(0, abs=1e-5)


def test_a_short_sound_is_followed_by_silence(tmp_path: Path) -> None:
    features = mel_spectrogram(write_tone(tmp_path / "tone.wav", 500, seconds=0.3), bands=20, seconds=0.5)
    assert features.shape == (1, 20, 50)
    assert features[0, :, 10].max() > features[0, :, 40].max() + 3
    np.testing.assert_array_equal(features[0, :, 40], features[0, :, 49])


def test_the_first_channel_counts(tmp_path: Path) -> None:
    stereo = mel_spectrogram(write_tone(tmp_path / "stereo.wav", 500, channels=2))
    np.testing.assert_array_equal(stereo, mel_spectrogram(write_tone(tmp_path / "mono.wav", 500)))


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("not a sound")
    with pytest.raises(DataError, match=r"cannot read .*text\.wav"):
        mel_spectrogram(tmp_path / "text.wav")
    with pytest.raises(DataError, match=r"cannot read .*missing\.wav"):
        mel_spectrogram(tmp_path / "missing.wav")
    with pytest.raises(DataError, match="16 bits per sample at 8,000 Hz: convert"):
        mel_spectrogram(write_tone(tmp_path / "telephone.wav", 500, rate=8000))
    with pytest.raises(SignwiseError, match="bands and seconds must be positive, got 0 and 1"):
        mel_spectrogram(write_tone(tmp_path / "tone.wav", 500), bands=0, seconds=1)

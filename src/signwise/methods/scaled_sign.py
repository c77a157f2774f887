"""McDonnell's scaled sign, the strongest published single-bit method apart from the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from signwise.methods.method import Deployed, Method, constant_per_filter, fan_in, straight_through
from signwise.transform import binary_sign


@dataclass(frozen=True, kw_only=True)
class ScaledSign(Method):
    """Forward sqrt(2 / fan_in) · sign(φ); backward G, the identity; deployed the same signs and constant scale.

    Reference:
        M. D. McDonnell, Training wide residual networks for deployment using a single bit for each weight, ICLR 2018.
    """

    def weight(self, latent: Tensor, alpha: Tensor, zeta: Tensor) -> Tensor:
        return straight_through(math.sqrt(2 / fan_in(latent)) * binary_sign(latent), latent)

    def deploy(self, latent: Tensor) -> Deployed:
        return Deployed(binary_sign(latent), constant_per_filter(latent, math.sqrt(2 / fan_in(latent))))

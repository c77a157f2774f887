"""SQ-BWN, stochastic quantization: at each step only some filters are binary, the worst of them least often."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from signwise.methods.mean_sign import mean_magnitude
from signwise.methods.method import Deployed, Knob, Method, State, filter_mean, he_normal_, per_filter, straight_through
from signwise.transform import binary_sign

STAGES = (0.5, 0.75, 0.875, 1.0)


@dataclass(frozen=True, kw_only=True)
class SQBWN(Method):
    """Forward m · sign(φ) for the filters drawn as binary and φ for the others, m = mean|φ| per filter; backward G.

    Of n filters, int((1 - r) n) stay float in a step, drawn without replacement with probability proportional to
    their relative error ‖φ - m sign(φ)‖₁ / ‖φ‖₁. r is 0.5, 0.75, 0.875 and 1 in the four quarters of a training. The
    authors run four complete trainings instead. Deployed m · sign(φ).

    Reference:
        Y. Dong et al., Learning accurate low-bit deep neural networks with stochastic quantization, BMVC 2017.
    """

    def knobs(self) -> dict[str, Knob]:
        return {"binary_fraction": lambda progress: STAGES[min(int(progress * len(STAGES)), len(STAGES) - 1)]}

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        return {"is_binary": latent.new_ones(latent.shape[0])}

    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        he_normal_(latent, generator)
        self.after_step_(latent, state, 0.0)

    def weight(self, latent: Tensor, state: State) -> Tensor:
        binary = mean_magnitude(latent, "filter") * binary_sign(latent)
        chosen = per_filter(state["is_binary"], latent)
        return straight_through(chosen * binary + (1 - chosen) * latent.detach(), latent)

    @torch.no_grad()
    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        filters = latent.shape[0]
        floats = int((1 - float(state["binary_fraction"])) * filters)
        state["is_binary"].fill_(1)
        if floats:
            error = filter_mean((latent - mean_magnitude(latent, "filter") * binary_sign(latent)).abs())
            relative = (error / filter_mean(latent.abs()).clamp(min=1e-12)).flatten()
            # Filters without error may be drawn too, once all others are.
            drawn = torch.multinomial(relative.clamp(min=1e-12), floats, replacement=False)
            state["is_binary"][drawn] = 0

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        return Deployed(binary_sign(latent), mean_magnitude(latent, "filter").flatten())

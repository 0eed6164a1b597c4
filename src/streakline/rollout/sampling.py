"""How tokens are drawn: one frozen policy, hashed into every run and every score."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from streakline.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SamplingPolicy:
    """Declared choices of decoding; changing any of them changes the digest.

    Example:
        >>> SamplingPolicy(greedy=True).logprob_temperature
        1.0
    """

    temperature: float = 1.0
    """Divides the logits before sampling; log-probabilities are reported under it. Positive; greedy is a flag."""
    top_p: float = 1.0
    """Smallest set of tokens whose probability reaches this is sampled from; 1 = all. Evaluation only."""
    top_k: int = 0
    """Number of likeliest tokens that are sampled from; 0 = all. Evaluation only."""
    greedy: bool = False
    """Take the likeliest token. Log-probabilities are then reported at temperature 1."""
    max_new_tokens: int = 128
    """Limit on the tokens of one assistant turn, its terminator included."""
    min_new_tokens: int = 0
    """Tokens of an episode's first turn before which its terminator can't be sampled (paper B: fewer episodes without a
    call; in every turn it would lead to calls upon calls)."""
    max_tokens: int = 1024
    """Limit on a whole trajectory: prompt, turns and injected text."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        most = self.max_new_tokens
        checks = (
            ("temperature", "positive", self.temperature, self.temperature > 0),
            ("top_p", "in (0, 1]", self.top_p, 0 < self.top_p <= 1),
            ("top_k", "at least 0", self.top_k, self.top_k >= 0),
            ("max_new_tokens", "at least 1", most, most >= 1),
            ("max_tokens", "at least 1", self.max_tokens, self.max_tokens >= 1),
            ("min_new_tokens", f"in [0, max_new_tokens={most}]", self.min_new_tokens, 0 <= self.min_new_tokens <= most),
        )
        for name, expected, value, ok in checks:
            if not ok:
                raise ConfigError(f"Expected `{name}` to be {expected}, but got {value}")

    @property
    def logprob_temperature(self) -> float:
        """Temperature under which log-probabilities are reported."""
        return 1.0 if self.greedy else self.temperature

    def require_unbiased(self) -> None:
        """Refuse what would bias an importance ratio.

        Sampling from a truncated distribution while the update scores the full one makes the ratio differ from 1
        with unchanged weights (top_p = 0.9 gives 0.9).

        Raises:
            ConfigError: If `top_p` or `top_k` truncates the distribution, or `greedy` is set. (What `min_new_tokens`
                bars is barred in the update too.)
        """
        for name, unbiased in (("top_p", 1), ("top_k", 0), ("greedy", False)):
            value = asdict(self)[name]
            if value != unbiased:
                raise ConfigError(
                    f"Expected `{name}` to be {unbiased} for training rollouts (else importance ratios are biased), "
                    f"but got {value}"
                )

    def digest(self) -> str:
        """SHA-256 of the canonical JSON of all fields, as hexadecimal text."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

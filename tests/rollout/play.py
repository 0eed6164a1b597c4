"""Episodes played from scripts."""

from tests.rendering.renderers import tokenizer_of
from tests.rollout.worlds import CountingWorld, task, user

from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rollout.agent_loop import AgentLoop, EpisodeConfig
from streakline.rollout.sampling import SamplingPolicy
from streakline.rollout.scripted import ScriptedEngine, script_turns

SAMPLING = SamplingPolicy(max_tokens=8000, max_new_tokens=600)
TWO_REQUESTS = task(user("First."), user("Second."))


class Play:
    """One run of scripted rows over one task."""

    def __init__(
        self,
        *rows,
        on=None,
        policy: RenderingPolicy | None = None,
        world=None,
        sampling: SamplingPolicy = SAMPLING,
        family: str = "hermes_chatml",
        source: str | None = None,
        **episode,
    ) -> None:
        self.renderer = ChatTemplateRenderer(tokenizer_of(family, source), policy or RenderingPolicy())
        engine = ScriptedEngine(
            script_turns(rows),
            tokenizer=self.renderer.tokenizer,
            terminator_ids=(self.renderer.terminator_id,),
        )
        self.loop = AgentLoop(
            engine=engine, renderer=self.renderer, sampling=sampling, episode=EpisodeConfig(**episode), run_seed=0
        )
        self.worlds: list[CountingWorld] = []
        make = world or CountingWorld

        def make_world(_task):
            self.worlds.append(make())
            return self.worlds[-1]

        self.task = on or task()
        self.members = self.loop.run([self.task], num_samples=len(rows), make_environment=make_world, epoch=0)[0]
        self.first = self.members[0]

    def text(self, *, sample: int = 0, trained: bool | None = None) -> str:
        record = self.first.samples[sample]
        ids = [
            token
            for token, mask in zip(record.token_ids, record.loss_mask, strict=True)
            if trained is None or mask == trained
        ]
        return self.renderer.tokenizer.decode(ids)

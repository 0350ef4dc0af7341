"""How kernels are timed beside each other: works -> samples in milliseconds.

As triton.testing.do_bench does, each kernel first runs for a fixed time to reach its clock and temperature, then is
sampled for a fixed time. That is done several times over, each time in another order, so that every kernel meets the
same states of the machine. What a clock is: an object with times(work, count, cold) -> [milliseconds].
"""
import dataclasses
import statistics


@dataclasses.dataclass
class Plan:
    rounds: int = 3
    warmup_ms: float = 25
    repeat_ms: float = 100
    warm_too: bool = False  # also with what the last launch left in L2

    def modes(self):
        return ("cold", "warm") if self.warm_too else ("cold",)

    def within(self, seconds, kernels):
        """This plan with repetitions short enough for that many kernels in that time, though never absurdly short."""
        slot = 1000 * seconds / max(1, kernels * self.rounds * len(self.modes()))
        return dataclasses.replace(self, repeat_ms=max(15, min(self.repeat_ms, slot - 1.5 * self.warmup_ms)))


def rotated(names, turn):
    names = list(names)
    return names[turn % len(names):] + names[:turn % len(names)]


def measure(works, clock, plan, before=lambda name: None, after=lambda name: None):
    """works: {name: callable that launches}. Returns {name: {mode: [[ms], one list a round]}}.

    `before` and `after` hear whose turn it is and was.
    """
    samples = {name: {mode: [] for mode in plan.modes()} for name in works}
    for turn in range(plan.rounds if works else 0):
        for name in rotated(works, turn):
            before(name)
            for mode in plan.modes():
                once = statistics.median(clock.times(works[name], 3, mode == "cold"))
                clock.times(works[name], count(plan.warmup_ms, once), mode == "cold")
                samples[name][mode].append(clock.times(works[name], count(plan.repeat_ms, once), mode == "cold"))
            after(name)
    return samples


def count(milliseconds, once):
    return max(3, min(1000, round(milliseconds / max(once, 1e-3))))


def summary(rounds, flops):
    """Of [[ms]]: the median and quartiles of all samples, and each round's median, which shows drift."""
    every = sorted(ms for one in rounds for ms in one)
    low, middle, high = statistics.quantiles(every, n=4, method="inclusive")
    return {"ms": round(middle, 5), "q1": round(low, 5), "q3": round(high, 5), "samples": len(every),
            "rounds": [round(statistics.median(one), 5) for one in rounds],
            "tflops": float(f"{flops / middle / 1e9:.4g}")}

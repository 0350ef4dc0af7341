"""Times gradients with masks and scores written as text, beside FlexAttention's with its functions and its block mask,
in one process: JSON lines.

    python3 bench/bench_backward_masks.py                     every rule of rules.py at length 8192, and few K/V heads; head
                                                              dimensions 64 and 128
    python3 bench/bench_backward_masks.py --only few_kv
    python3 bench/bench_backward_masks.py --only "alibi d64"
    python3 bench/bench_backward_masks.py --dry-run           without a GPU: tiny shapes on this CPU, ours alone

Gradients are those of q, k and v, and with the rule "bias" also that of the bias, which both sides sum over the batch.
The gradients of one K/V head are first compared with double precision, as relative errors: a wrong result is an error,
not a line. Times are those of the backward pass alone, as in bench_backward.py; neither side's compile time counts, and
FlexAttention's block mask is made beforehand.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import checkout  # noqa: E402,F401
import attile  # noqa: E402
import attile.torch  # noqa: E402
import rules  # noqa: E402
from rule_parameters import parameters  # noqa: E402

LEARNED = {"bias": "values"}  # the tensor of a rule that requires a gradient
MOST_ERROR = 1e-2

FEW_KV = ((1, 32, 4, 4096), (1, 8, 1, 8192))  # (batch, heads, K/V heads, length)


def cases():
    few_kv = [rules.RuleCase("few_kv", head_dim, batch, heads, length, False, kv_heads, rule=rule)
              for head_dim in (64, 128) for batch, heads, kv_heads, length in FEW_KV for rule in rules.RULES]
    return [case for case in rules.cases() if case.len_q == 8192] + few_kv


def ours(case, q, k, v, d_o, given):
    """Returns a function that returns the gradients of q, k, v, and of the learned tensor."""
    rule, learned = rules.RULES[case.rule].knobs, LEARNED.get(case.rule)
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
    numbers = [float(value) for value in given.values() if not isinstance(value, torch.Tensor)]
    wants = f"dq, dk, dv, d_{learned}" if learned else ""
    o, lse = torch.ops.attile.attention_lse(q, k, v, tensors, numbers, rule, None, "bhsd", "")

    def work():
        *found, _, d_tensors = torch.ops.attile.attention_backward(
            d_o, None, q, k, v, o, lse, tensors, numbers, rule, wants, None, "bhsd", "")
        return found + d_tensors[:1] if learned else found

    return work


def theirs(case, q, k, v, d_o, given):
    """The same for FlexAttention."""
    given = dict(given)
    learned = LEARNED.get(case.rule)
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    if learned:
        given[learned] = given[learned].detach().requires_grad_()
        inputs.append(given[learned])
    mask, score = rules.RULES[case.rule].functions(given, torch.tanh)
    batches = case.batch if rules.RULES[case.rule].by_batch else None
    blocks = create_block_mask(mask, batches, None, case.len_q, case.len_kv, device=q.device) if mask else None
    torch.compiler.reset()
    o = torch.compile(flex_attention, dynamic=False)(*inputs[:3], score_mod=score, block_mask=blocks,
                                                     enable_gqa=case.heads != case.kv_heads)
    return lambda: torch.autograd.grad(o, inputs, d_o, retain_graph=True)


def reference(case, q, k, v, d_o, given):
    """Gradients in double precision: dq of the last head, dk and dv of the last K/V head, all of the last batch, and the
    gradient of the learned tensor for the last head, summed over batches."""
    learned, group = LEARNED.get(case.rule), case.heads // case.kv_heads
    mask, _ = rules.RULES[case.rule].functions(given, torch.tanh)
    rows, columns = torch.arange(case.len_q, device=q.device)[:, None], torch.arange(case.len_kv, device=q.device)
    d_learned = 0
    for batch in range(case.batch) if learned else [case.batch - 1]:
        seen = mask(batch, 0, rows, columns) if mask else None
        d_k, d_v = 0, 0
        for head in range(case.heads - group, case.heads):
            inputs = [x.double().requires_grad_() for x in (q[batch, head], k[batch, -1], v[batch, -1])]
            own = dict(given)
            if learned:
                own[learned] = given[learned][head].double().requires_grad_()  # (len_q, len_kv)
                inputs.append(own[learned])
                own[learned] = own[learned][None].expand(case.heads, -1, -1)
            _, modify = rules.RULES[case.rule].functions(own, torch.tanh)
            score = inputs[0] @ inputs[1].T / case.head_dim**0.5
            if modify:
                score = modify(score, batch, head, rows, columns)
            if mask:
                score = score.masked_fill(~seen, -torch.inf)
            d_q, one_d_k, one_d_v, *others = torch.autograd.grad(score.softmax(-1) @ inputs[2], inputs, d_o[batch, head].double())
            d_k, d_v = d_k + one_d_k, d_v + one_d_v
        if learned:
            d_learned = d_learned + others[0]
    return [d_q, d_k, d_v, *([d_learned] if learned else [])]


def error(found, right):
    """The largest relative error of these gradients."""
    own = [*(x[-1, -1] for x in found[:3]), *(x[-1] for x in found[3:])]
    return max(((one.double() - other).norm() / other.norm()).item() for one, other in zip(own, right))


def clock(works, rounds):
    """Returns {name: [ms of each round]} of a dry run, and an empty state."""
    found = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            found[name].append(1000 * (time.perf_counter() - start))
    return found, {}


def measure(case, dry_run, sample):
    """Returns a row of the results."""
    device = "cpu" if dry_run else "cuda"
    q, k, v, d_o = (torch.randn(case.batch, heads, case.len_q, case.head_dim, device=device, dtype=torch.bfloat16)
                    for heads in (case.heads, case.kv_heads, case.kv_heads, case.heads))
    given = parameters(case, device)
    works, faults = {"attile": ours(case, q, k, v, d_o, given)}, {}
    if not dry_run:  # FlexAttention has no gradients on a CPU
        try:
            works["flex"] = theirs(case, q, k, v, d_o, given)
            works["flex"]()
        except Exception as fault:  # ours is measured anyway
            works.pop("flex", None)
            faults["flex"] = f"{type(fault).__name__}: {fault}"
    right = reference(case, q, k, v, d_o, given)
    errors = {name: error(work(), right) for name, work in works.items()}
    if not errors["attile"] <= MOST_ERROR:
        raise SystemExit(f"{case.name}: the relative error is {errors['attile']:.3g}")
    del right
    rounds, state = sample(works)
    times = {name: statistics.median(one) for name, one in rounds.items()}
    return {"case": case.name, "rule": case.rule, "head_dim": case.head_dim, "length": case.len_q, "error": errors, "ms": times,
            "times_as_fast": times["flex"] / times["attile"] if "flex" in times else None, "rounds": rounds, "state": state,
            "faults": faults}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="cases with all these words")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dry-run", action="store_true", help="ours alone, tiny shapes on this CPU")
    parser.add_argument("--commit", help="what is measured")
    chosen = parser.parse_args()
    torch.manual_seed(1)
    about = {"bench": "backward_masks", "torch": torch.__version__, "attile": attile.version(), "commit": chosen.commit}
    if chosen.dry_run:
        found, sample = rules.tiny(), lambda works: clock(works, chosen.rounds)
    else:
        import bench_backward
        import side_cuda
        monitor, flush = side_cuda.Monitor(), torch.zeros(64 << 20, device="cuda")
        about |= {"gpu": torch.cuda.get_device_properties(0).name, "driver": monitor.driver(), "cuda": torch.version.cuda}
        found, sample = cases(), lambda works: bench_backward.sample(works, flush, chosen.rounds, monitor)
    for case in found:
        if case.matches(chosen.only):
            print(json.dumps({**about, **measure(case, chosen.dry_run, sample)}), flush=True)


if __name__ == "__main__":
    main()

"""The parameters of a rule (rules.py) as PyTorch tensors."""
import torch

from rules import RULES, documents, shape


def parameters(case, device):
    """Returns {name: number or tensor on the device} of a RuleCase, in the order of the rule's params."""
    rule, found = RULES[case.rule], RULES[case.rule].number(case)
    for name, dtype, what in rule.tensors:
        size = shape(what, case)
        if what == "normal":
            found[name] = torch.randn(size, dtype=getattr(torch, dtype), device=device)
        elif what == "documents":
            one = torch.tensor(documents(case.len_kv), dtype=torch.int32, device=device)
            found[name] = one.repeat(case.batch, 1)
        else:
            found[name] = torch.exp2(-8 * torch.arange(1, case.heads + 1, device=device) / case.heads)
    return found

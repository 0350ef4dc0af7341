"""Small models of Hugging Face transformers with random weights: greedy tokens are those of eager attention."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import attile.transformers  # noqa: E402
from attile import errors  # noqa: E402

COMMON = {
    "vocab_size": 99, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "pad_token_id": 0, "eos_token_id": None,
    "bos_token_id": 1, "initializer_range": 0.3, "tie_word_embeddings": False,
}  # fmt: skip

# The models cover: grouped heads; sliding windows and softcap; sinks and sliding windows; a window in every layer.
MODELS = {
    "Llama": {},
    "Gemma2": {"sliding_window": 5, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16},
    "GptOss": {"sliding_window": 5, "num_local_experts": 2, "num_experts_per_tok": 1},
    "Mistral": {"sliding_window": 5},
}


def make(name, device, implementation):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**COMMON, **MODELS[name]})
    model = getattr(transformers, f"{name}ForCausalLM")(config).to(device, torch.float32).eval()
    for word, parameter in model.named_parameters():
        if word.endswith("sinks"):
            torch.nn.init.normal_(parameter)
    model.set_attn_implementation(implementation)
    return model


def generate(model, inputs, **words):
    with torch.no_grad():
        return model.generate(**inputs, max_new_tokens=12, do_sample=False, **words)


def prompts(device):
    """Returns two prompts; the shorter one is padded on the left."""
    tokens = torch.randint(2, 99, (2, 9), generator=torch.Generator().manual_seed(1))
    seen = torch.ones(2, 9, dtype=torch.int64)
    seen[1, :4] = 0
    return {"input_ids": (tokens * seen).to(device), "attention_mask": seen.to(device)}


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_those_of_eager(name, device):
    inputs = prompts(device)
    expected, found = (generate(make(name, device, word), inputs) for word in ("eager", "attile"))
    assert torch.equal(found, expected)
    assert len(set(found[:, 9:].flatten().tolist())) > 3  # not one token repeated, which would prove nothing


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_eager(name, device):
    """Without padding. Both round in fp32, in different orders: they differ by a few hundred roundings at most."""
    inputs = {"input_ids": prompts(device)["input_ids"]}
    with torch.no_grad():
        expected, found = (make(name, device, word)(**inputs).logits for word in ("eager", "attile"))
    size = expected.abs().max().item()
    assert (found - expected).abs().max().item() <= 500 * 2.0**-24 * size


def test_static_cache(device):
    inputs = prompts(device)
    expected = generate(make("Llama", device, "eager"), inputs)
    model = make("Llama", device, "attile")
    cache = transformers.StaticCache(model.config, max_cache_len=32)
    found = generate(model, inputs, past_key_values=cache, disable_compile=True)
    assert torch.equal(found, expected)


def test_generating_asks_for_few_kernels(device):
    """Lengths grow by one per token, but the texts of the problems stay the same."""
    from attile.session import session_for

    session, asked = session_for("cuda" if device == "cuda" else "host"), []
    attile.torch._operator._prepared.clear()
    find = session.find
    session.find = lambda *words: asked.append(words) or find(*words)
    try:
        generate(make("Mistral", device, "attile"), prompts(device))
    finally:
        del session.find
    # Every length makes a plan of its own. There is one kernel for the prompt and one for the tokens after it, for
    # sequences of up to 16 and of up to 32 tokens, and for a window that is full and one that is not.
    assert len(set(asked)) <= 6 < len(asked)


def test_training(device):
    found = []
    for name in ("attile", "sdpa"):
        model = make("Llama", device, name)
        model(**prompts(device)).logits.float().square().mean().backward()
        found.append({name: one.grad for name, one in model.named_parameters()})
    for name, one in found[1].items():
        assert (found[0][name] - one).norm() <= 1e-3 * one.norm(), name


def test_dropout_drops(device):
    q, v = torch.zeros(1, 2, 4, 16, device=device), torch.ones(1, 2, 4, 16, device=device)
    o, _ = attile.transformers.attention(None, q, q, v, None, dropout=0.5, is_causal=False)
    assert {float(x) for x in o.flatten()} <= {0.0, 0.5, 1.0, 1.5, 2.0} and not (o == 1).all()

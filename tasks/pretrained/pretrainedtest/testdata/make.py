"""Makes small random models in the layouts of GPT-2, GPT-NeoX and Llama, with the logits of the transformers library.

    python3 make.py FOLDER

README.md names the versions. The safetensors format is written here, so that its package is not needed.
"""
import json
import os
import struct
import sys

import torch
from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel
from transformers.models.gpt2.configuration_gpt2 import GPT2Config
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXForCausalLM
from transformers.models.gpt_neox.configuration_gpt_neox import GPTNeoXConfig

out = sys.argv[1]
CONTEXT = 40
CASES = {
    # name: config, model, type of the stored values, shards
    "gpt2": (GPT2Config(vocab_size=487, n_embd=18, n_layer=2, n_head=3, n_positions=CONTEXT, bos_token_id=486, eos_token_id=486), GPT2LMHeadModel, "F32", 1),
    "gpt-neox": (GPTNeoXConfig(vocab_size=512, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, rotary_pct=0.25,
                               max_position_embeddings=CONTEXT, bos_token_id=486, eos_token_id=486), GPTNeoXForCausalLM, "F16", 1),
    "gpt-neox-sequential": (GPTNeoXConfig(vocab_size=492, hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=20, rotary_pct=0.5,
                            rotary_emb_base=500, use_parallel_residual=False, layer_norm_eps=1e-3, hidden_act="gelu_new",
                            max_position_embeddings=CONTEXT, bos_token_id=486, eos_token_id=486), GPTNeoXForCausalLM, "F32", 1),
    "llama": (LlamaConfig(vocab_size=520, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
                          max_position_embeddings=CONTEXT, bos_token_id=1, eos_token_id=2), LlamaForCausalLM, "BF16", 3),
    "llama-tied": (LlamaConfig(vocab_size=488, hidden_size=12, num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=3, intermediate_size=28, rope_theta=500000.0,
                               rms_norm_eps=1e-3, tie_word_embeddings=True, max_position_embeddings=CONTEXT, bos_token_id=486, eos_token_id=[487, 3]), LlamaForCausalLM, "F32", 1),
}
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

def save(path, tensors, dtype):
    """Writes the safetensors format."""
    header, at, data = {"__metadata__": {"format": "pt"}}, 0, b""
    for name, t in tensors.items():
        if t.dtype == torch.bool:
            kind, raw = "BOOL", t.numpy().tobytes()
        elif dtype == "BF16":
            kind, raw = "BF16", t.to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        else:
            kind, raw = dtype, t.to(TYPES[dtype]).contiguous().numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)

for name, (config, kind, dtype, shards) in CASES.items():
    torch.manual_seed(1)
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    model = kind(config).eval()
    with torch.no_grad():
        for p in model.parameters():   # far from the initial values, so that every part shows in the logits
            drawn = torch.randn(p.shape) * (1 / p.shape[-1] ** 0.5 if p.dim() > 1 else 0.3)
            p.copy_((drawn + (1 if p.dim() == 1 and p.mean() > 0.5 else 0)).to(TYPES[dtype]).float())
    config.architectures = [kind.__name__]
    config.torch_dtype = str(TYPES[dtype]).replace("torch.", "")
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write(json.dumps({k: v for k, v in config.to_diff_dict().items()} | {"model_type": config.model_type}, indent=1, sort_keys=True) + "\n")
    tensors = dict(model.state_dict())
    if config.tie_word_embeddings:
        tensors = {k: v for k, v in tensors.items() if k not in ("lm_head.weight", "embed_out.weight")}
    if name == "gpt2":   # as the published file: without a prefix, with the mask of each layer
        tensors = {k.removeprefix("transformer."): v for k, v in tensors.items()}
        tensors |= {f"h.{i}.attn.bias": torch.ones(1, 1, CONTEXT, CONTEXT, dtype=torch.bool).tril() for i in range(2)}
    if shards == 1:
        save(os.path.join(folder, "model.safetensors"), tensors, dtype)
    else:
        names, index = list(tensors), {}
        for i in range(shards):
            file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
            part = {n: tensors[n] for n in names[i::shards]}
            save(os.path.join(folder, file), part, dtype)
            index.update({n: file for n in part})
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {"total_size": 0}, "weight_map": index}, f, indent=1, sort_keys=True)
            f.write("\n")
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, config.vocab_size, (CONTEXT,), generator=generator)
    with torch.no_grad():
        logits = model(tokens[None]).logits[0]
    print(name, sum(p.numel() for p in model.parameters()), "logits", logits.min().item(), logits.max().item())
    kept = [0, 9, CONTEXT - 1]
    with open(os.path.join(folder, "logits.json"), "w") as f:
        json.dump({"tokens": tokens.tolist(), "after": kept, "logits": [[round(x, 6) for x in logits[i].tolist()] for i in kept]}, f)
        f.write("\n")

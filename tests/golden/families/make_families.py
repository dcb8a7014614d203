#!/usr/bin/env python3
"""Writes the tiny random models of this folder: config.json, model.safetensors and logits.json by Hugging Face
transformers, and the same weights as model.gguf by PyPI's gguf. Run where torch, transformers and gguf are installed:

    python3 make_families.py [NAME ...]
"""

import json
import os
import sys

import gguf
import numpy as np
import torch
import transformers as hf

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = 40
TOKENS = [int(t) for t in np.random.default_rng(5).integers(0, VOCABULARY, 24)]
LENGTHS = {"max_position_embeddings": 32}
LLAMA_LIKE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    **LENGTHS,
}

MODELS = {
    "gpt2": hf.GPT2Config(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=3, n_positions=32),
    "mistral": hf.MistralConfig(**LLAMA_LIKE, head_dim=8, sliding_window=7, rms_norm_eps=1e-5),
    "qwen2": hf.Qwen2Config(**LLAMA_LIKE),
    "qwen2_sliding": hf.Qwen2Config(
        **LLAMA_LIKE, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5, max_window_layers=1
    ),
    "qwen3": hf.Qwen3Config(**LLAMA_LIKE, head_dim=10),
    "gemma3": hf.Gemma3TextConfig(
        **{**LLAMA_LIKE, "num_hidden_layers": 6, "num_key_value_heads": 1, "hidden_size": 20, "intermediate_size": 24},
        head_dim=8,
        sliding_window=5,
        query_pre_attn_scalar=12,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 100000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    ),
    "gpt_neox": hf.GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        rotary_pct=0.5,
        **LENGTHS,
    ),
    "gpt_neox_serial": hf.GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        rotary_pct=0.5,
        use_parallel_residual=False,
        hidden_act="gelu_fast",
        attention_bias=False,
        **LENGTHS,
    ),
    "bloom": hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=24, n_layer=2, n_head=3),
    "mpt": hf.MptConfig(
        vocab_size=VOCABULARY,
        d_model=24,
        n_heads=3,
        n_layers=2,
        max_seq_len=32,
        attn_config={"alibi": True, "alibi_bias_max": 4, "clip_qkv": 1.5},
    ),
    "ernie4_5": hf.Ernie4_5Config(**LLAMA_LIKE, head_dim=10, use_bias=True),
}

# GGUF's architecture, and what the files of each family call GGUF's tensors.
ARCHITECTURES = {"mistral": "llama", "gpt_neox": "gptneox"}
LLAMA_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
NAMES = {
    "gemma3": {
        **LLAMA_NAMES,
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
    "gpt2": {
        "transformer.wte": "token_embd",
        "transformer.wpe": "position_embd",
        "transformer.ln_f": "output_norm",
        "ln_1": "attn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    },
    "gptneox": {
        "gpt_neox.embed_in": "token_embd",
        "gpt_neox.final_layer_norm": "output_norm",
        "embed_out": "output",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "attention.query_key_value": "attn_qkv",
        "attention.dense": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.dense_h_to_4h": "ffn_up",
        "mlp.dense_4h_to_h": "ffn_down",
    },
    "bloom": {
        "transformer.word_embeddings": "token_embd",
        "transformer.word_embeddings_layernorm": "token_embd_norm",
        "transformer.ln_f": "output_norm",
        "input_layernorm": "attn_norm",
        "self_attention.query_key_value": "attn_qkv",
        "self_attention.dense": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.dense_h_to_4h": "ffn_up",
        "mlp.dense_4h_to_h": "ffn_down",
    },
    "mpt": {
        "transformer.wte": "token_embd",
        "transformer.norm_f": "output_norm",
        "norm_1": "attn_norm",
        "attn.Wqkv": "attn_qkv",
        "attn.out_proj": "attn_output",
        "norm_2": "ffn_norm",
        "ffn.up_proj": "ffn_up",
        "ffn.down_proj": "ffn_down",
    },
}


def randomise(model, seed):
    """Weights of a size that every part of the model shows in its logits."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        is_gain = parameter.dim() == 1 and name.endswith("weight")
        if parameter.dim() == 2:
            values *= 1.2 / parameter.shape[-1] ** 0.5
        else:
            values *= 0.3
        if is_gain and "gemma" not in type(model).__name__.lower():
            values += 1
        parameter.data.copy_(values)


def split_heads(values, heads):
    """Rows of q, k, v of each head -> q of all heads, k of all, v of all."""
    rest = values.shape[1:]
    return values.reshape(heads, 3, -1, *rest).swapaxes(0, 1).reshape(-1, *rest)


def permute(values, heads):
    """From halves to neighbours, as GGUF stores Llama's q and k."""
    rest = values.shape[1:]
    return values.reshape(heads, 2, -1, *rest).swapaxes(1, 2).reshape(-1, *rest)


def write_gguf(path, name, config, tensors):
    architecture = ARCHITECTURES.get(name, name)
    names = NAMES.get(architecture, LLAMA_NAMES)
    c = config.to_dict()
    heads = config.num_attention_heads
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(32)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(heads)
    if "layers.0.mlp.up_proj.weight" in " ".join(tensors):
        writer.add_head_count_kv(c["num_key_value_heads"])
        writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    else:
        writer.add_layer_norm_eps(c.get("layer_norm_epsilon", c.get("layer_norm_eps")))
    if c.get("head_dim"):
        writer.add_key_length(c["head_dim"])
        writer.add_value_length(c["head_dim"])
    if name in ("mistral", "gemma3"):
        writer.add_sliding_window(c["sliding_window"])
    if name == "gemma3":
        writer.add_rope_freq_base(100000.0)
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(4.0)
        writer.add_attention_scale(c["query_pre_attn_scalar"] ** -0.5)
    if name == "ernie4_5":
        writer.add_rope_freq_base(c["rope_parameters"]["rope_theta"])
    if name == "gpt_neox":
        writer.add_rope_dimension_count(int(c["hidden_size"] // heads * 0.5))
        writer.add_parallel_residual(True)
    if name == "mpt":
        writer.add_clamp_kqv(1.5)
        writer.add_max_alibi_bias(4.0)
    for old, values in tensors.items():
        module, kind = old.rsplit(".", 1)
        prefix = ""
        for before in ("model.layers.", "transformer.h.", "transformer.blocks.", "gpt_neox.layers."):
            if module.startswith(before):
                number, module = module[len(before) :].split(".", 1)
                prefix = f"blk.{number}."
        if name == "gpt2" and prefix and values.ndim == 2:
            values = values.T
        if module in ("attention.query_key_value", "self_attention.query_key_value"):
            values = split_heads(values, heads)
        if name == "mistral" and module in ("self_attn.q_proj", "self_attn.k_proj"):
            values = permute(values, heads if "q_proj" in module else c["num_key_value_heads"])
        if name == "gemma3" and values.ndim == 1:
            values = values + 1
        if names[module] == "ffn_up" and kind == "weight" and prefix == "blk.0.":
            writer.add_feed_forward_length(values.shape[0])
        writer.add_tensor(f"{prefix}{names[module]}.{kind}", np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(names):
    for seed, (name, config) in enumerate(MODELS.items()):
        if names and name not in names:
            continue
        config._attn_implementation = "eager"
        model = hf.AutoModelForCausalLM.from_config(config).eval()
        randomise(model, seed)
        folder = os.path.join(HERE, name)
        model.save_pretrained(folder)
        if os.path.exists(os.path.join(folder, "generation_config.json")):
            os.remove(os.path.join(folder, "generation_config.json"))
        loaded = hf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
        with torch.no_grad():
            logits = loaded.double().eval()(torch.tensor([TOKENS])).logits[0].numpy()
        made_by = f"transformers {hf.__version__}, torch {torch.__version__}, weights and sums in double"
        with open(os.path.join(folder, "logits.json"), "w") as out:
            rows = ",\n".join(json.dumps([round(float(v), 9) for v in row]) for row in logits)
            out.write(f'{{"made_by": "{made_by}",\n"tokens": {TOKENS},\n"logits": [\n{rows}]}}\n')
        if name not in ("gpt_neox_serial", "qwen2_sliding"):
            tied = {n for n in model._tied_weights_keys or {}} if config.tie_word_embeddings else set()
            tensors = {n: p.detach().numpy() for n, p in model.state_dict().items() if n not in tied}
            write_gguf(os.path.join(folder, "model.gguf"), name, config, tensors)
        print(name, sum(p.numel() for p in model.parameters()), float(np.abs(logits).max()))


main(sys.argv[1:])

// Families with RoPE that poslab describes and does not run: one a line, alphabetical within its group.
#include "poslab/models/families/rows.h"

namespace poslab {
namespace {

using enum RopeLayout;
using enum RopeReading;

constexpr std::string_view gpt_oss_rope =
    R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
        "original_max_position_embeddings": 4096})";
constexpr std::string_view apertus_rope =
    R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192})";
constexpr std::string_view ministral3_rope =
    R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384,
        "llama_4_scaling_beta": 0.1})";

constexpr LayerSet gemma3n_layers[] = {{"full_attention", "rope_theta", 1e6, true},
                                       {"sliding_attention", "rope_local_base_freq", 1e4, false}};
constexpr LayerSet olmo3_layers[] = {{"full_attention", "rope_theta", 5e5, true},
                                     {"sliding_attention", "", 5e5, false}};
constexpr LayerSet modernbert_layers[] = {{"full_attention", "global_rope_theta", 1.6e5, true},
                                          {"sliding_attention", "local_rope_theta", 1e4, true}};
constexpr LayerSet gemma4_layers[] = {{"full_attention", "", 1e6, false, "proportional", 0.25, "global_head_dim", 512},
                                      {"sliding_attention", "", 1e4, false}};
constexpr LayerSet mimo_v2_layers[] = {{"full_attention", "", 5e6, false, "default", 0.334},
                                       {"sliding_attention", "", 1e4, false, "default", 0.334}};

constexpr Family rows[] = {
    // RoPE, the whole head
    rotary("apertus", "Apertus", "Swiss AI", 4096, 32, 0, 65536).theta(12e6).parameters(apertus_rope),
    rotary("arcee", "Arcee AFM", "Arcee AI", 2560, 32, 0, 4096).gguf("arcee", interleaved),
    rotary("bitnet", "BitNet b1.58", "Microsoft", 2560, 20, 0, 2048).theta(5e5),
    rotary("cohere", "Command R", "Cohere", 8192, 64, 0, 8192).interleaved().theta(5e5).gguf("command-r", interleaved),
    rotary("cohere2", "Command R7B", "Cohere", 8192, 64, 0, 8192)
        .interleaved()
        .full(FullAttention::never_rotates)
        .gguf({.name = "cohere2", .layout = interleaved, .sliding = {.period = 4}, .full_layers_rotate = false}),
    rotary("dbrx", "DBRX", "Databricks", 2048, 16, 0, 2048).theta_key("attn_config.rope_theta"),
    rotary("dots1", "dots.llm1", "Xiaohongshu", 4608, 32, 0, 2048),
    rotary("ernie4_5_moe", "ERNIE 4.5 MoE", "Baidu", 2560, 20, 0, 131072).interleaved().theta(5e5),
    rotary("exaone4", "EXAONE 4", "LG AI Research", 4096, 32, 0, 2048).full(FullAttention::rotates_without_window),
    rotary("falcon_h1", "Falcon-H1", "TII", 4096, 32, 0, 8192),
    rotary("gemma", "Gemma", "Google", 3072, 16, 256, 8192).gguf("gemma"),
    rotary("gemma2", "Gemma 2", "Google", 2304, 8, 256, 8192)
        .gguf({.name = "gemma2", .sliding = {.period = 2, .window = 4096}}),
    rotary("gpt_oss", "gpt-oss", "OpenAI", 2880, 64, 64, 131072)
        .theta(1.5e5)
        .parameters(gpt_oss_rope)
        .gguf({.name = "gpt-oss", .sliding = {.period = 2}}),
    rotary("granite", "Granite", "IBM", 4096, 32, 0, 2048)
        .no_head_dim()
        .gguf({.name = "granite", .layout = interleaved, .finetuned_switches_off = true}),
    rotary("granitemoe", "Granite MoE", "IBM", 4096, 32, 0, 2048).no_head_dim(),
    rotary("helium", "Helium", "Kyutai", 2560, 20, 128, 4096).interleaved(),
    rotary("hunyuan_v1_dense", "Hunyuan dense", "Tencent", 4096, 32, 0, 2048).reads(hunyuan),
    rotary("hunyuan_v1_moe", "Hunyuan MoE", "Tencent", 4096, 32, 0, 2048).reads(hunyuan),
    rotary("internlm2", "InternLM 2", "Shanghai AI Laboratory", 4096, 32, 0, 2048).gguf("internlm2", interleaved),
    rotary("internlm3", "InternLM 3", "Shanghai AI Laboratory", 4096, 32, 0, 32768),
    rotary("lfm2", "LFM2", "Liquid AI", 2560, 32, 0, 128000).theta(1e6).no_head_dim(),
    rotary("lfm2_moe", "LFM2 MoE", "Liquid AI", 2048, 32, 0, 128000).theta(1e6).no_head_dim(),
    rotary("llama4_text", "Llama 4", "Meta", 5120, 40, 128, 131072)
        .interleaved()
        .theta(5e5)
        .lists_layers_without()
        .gguf({.name = "llama4",
               .layout = interleaved,
               .sliding = {.period = 4, .window = 8192, .chunked = true},
               .nope_period = 4}),
    rotary("minicpm", "MiniCPM", "OpenBMB", 4096, 32, 0, 2048).gguf("minicpm", interleaved),
    rotary("ministral", "Ministral", "Mistral AI", 4096, 32, 0, 131072),
    rotary("ministral3", "Ministral 3", "Mistral AI", 4096, 32, 128, 262144)
        .parameters(ministral3_rope)
        .own("llama_4_scaling_beta max_position_embeddings")
        .gguf({.name = "mistral3", .layout = interleaved, .reads_yarn_keys = true}),
    rotary("mixtral", "Mixtral", "Mistral AI", 4096, 32, 0, 131072).theta(1e6),
    rotary("mllama_text_model", "Llama 3.2 Vision", "Meta", 4096, 32, 0, 131072).theta(5e5).no_head_dim(),
    rotary("olmo", "OLMo", "Ai2", 4096, 32, 0, 2048).no_head_dim().gguf("olmo", interleaved),
    rotary("olmo2", "OLMo 2", "Ai2", 4096, 32, 0, 2048)
        .no_head_dim()
        .gguf({.name = "olmo2", .sliding = {.period = 4, .optional = true, .scaled = false}}),
    rotary("olmoe", "OLMoE", "Ai2", 2048, 16, 0, 4096).no_head_dim().gguf("olmoe"),
    rotary("qwen", "Qwen", "Alibaba", 4096, 32, 0, 8192)
        .theta_key("rotary_emb_base")
        .partial_key("rotary_pct")
        .partial(0)
        .gguf("qwen"),
    rotary("qwen2_5_vl_text", "Qwen2.5-VL", "Alibaba", 8192, 64, 0, 32768)
        .reads(qwen_vl)
        .no_head_dim()
        .own("mrope_section")
        .also("qwen2_5_vl"),
    rotary("qwen2_moe", "Qwen2 MoE", "Alibaba", 2048, 16, 0, 32768).no_head_dim().gguf("qwen2moe"),
    rotary("qwen2_vl_text", "Qwen2-VL", "Alibaba", 8192, 64, 0, 32768)
        .reads(qwen_vl)
        .no_head_dim()
        .own("mrope_section")
        .also("qwen2_vl"),
    rotary("roformer", "RoFormer", "Zhuiyi Technology", 768, 12, 0, 1536).interleaved(),
    rotary("seed_oss", "Seed-OSS", "ByteDance", 4096, 32, 128, 524288).gguf("seed_oss"),
    rotary("smollm3", "SmolLM3", "Hugging Face", 2048, 16, 0, 32768)
        .theta(2e6)
        .no_head_dim()
        .lists_layers_without()
        .gguf({.name = "smollm3", .layout = interleaved, .nope_period = 4}),
    rotary("starcoder2", "StarCoder2", "BigCode", 3072, 24, 0, 4096).no_head_dim().gguf("starcoder2"),
    // RoPE, part of the head
    rotary("chatglm", "ChatGLM, GLM-4 9B", "Zhipu AI", 4096, 32, 128, 2048)
        .interleaved()
        .reads(chatglm)
        .gguf("chatglm", interleaved)
        .fused_stacked(),
    rotary("codegen", "CodeGen", "Salesforce", 4096, 16, 0, 2048).interleaved().reads(rotary_dim),
    rotary("glm", "GLM-4 (transformers)", "Zhipu AI", 4096, 32, 128, 131072).interleaved().partial(0.5),
    rotary("glm4", "GLM-4-0414", "Zhipu AI", 4096, 32, 128, 131072).interleaved().partial(0.5),
    rotary("glm4_moe", "GLM-4.5", "Zhipu AI", 4096, 96, 128, 131072).partial(0.5),
    rotary("gpt_neox_japanese", "GPT-NeoX Japanese", "ABEJA", 2560, 32, 0, 2048)
        .theta_key("rotary_emb_base")
        .partial_key("rotary_pct")
        .partial(1)
        .no_head_dim(),
    rotary("gptj", "GPT-J", "EleutherAI", 4096, 16, 0, 2048).interleaved().reads(rotary_dim),
    rotary("minimax_m2", "MiniMax-M2", "MiniMax", 3072, 48, 128, 196608)
        .theta(5e6)
        .partial(0)
        .rotary_width_key("rotary_dim"),
    rotary("nemotron", "Nemotron", "NVIDIA", 6144, 48, 0, 4096).partial(0.5).gguf("nemotron"),
    rotary("nomic_bert", "nomic-bert", "Nomic AI", 768, 12, 0, 8192)
        .theta_key("rotary_emb_base")
        .partial_key("rotary_emb_fraction")
        .partial(1),
    rotary("persimmon", "Persimmon", "Adept", 4096, 64, 0, 16384).theta(25000).partial(0.5).no_head_dim(),
    rotary("phi", "Phi, Phi-2", "Microsoft", 2048, 32, 0, 2048).partial(0.5).no_head_dim().gguf("phi2"),
    rotary("phi3", "Phi-3, Phi-4", "Microsoft", 3072, 32, 0, 4096).reads(phi3).partial(0).no_head_dim().gguf("phi3"),
    rotary("phimoe", "Phi-3.5 MoE", "Microsoft", 4096, 32, 0, 131072)
        .reads(phimoe)
        .theta(1e6)
        .no_head_dim()
        .own("short_mscale long_mscale")
        .gguf("phimoe"),
    rotary("recurrent_gemma", "RecurrentGemma", "Google", 2560, 10, 0, 8192).partial(0.5),
    rotary("stablelm", "StableLM", "Stability AI", 2560, 32, 0, 4096).partial(0.25).no_head_dim().gguf("stablelm"),
    // RoPE beside a compressed part (multi-head latent attention)
    rotary("deepseek_v2", "DeepSeek-V2", "DeepSeek", 4096, 32, 64, 2048)
        .latent(false)
        .divisible()
        .gguf({.name = "deepseek2", .layout = interleaved, .latent = true}),
    rotary("deepseek_v3", "DeepSeek-V3, R1", "DeepSeek", 7168, 128, 64, 4096).latent(),
    rotary("glm4_moe_lite", "GLM-4.7 Flash", "Zhipu AI", 2048, 20, 64, 202752).latent(),
    rotary("kimi_k2", "Kimi K2", "Moonshot AI", 7168, 64, 64, 4096).latent(),
    rotary("longcat_flash", "LongCat-Flash", "Meituan", 6144, 64, 64, 131072).latent().theta(1e7),
    // RoPE, a set for each layer type
    rotary("gemma3n_text", "Gemma 3n", "Google", 2048, 8, 256, 32768)
        .sets(per_layer, gemma3n_layers)
        .gguf({.name = "gemma3n", .sliding = {.period = 5, .rope_theta = 10000, .scaled = false}}),
    rotary("gemma4_text", "Gemma 4", "Google", 2304, 8, 256, 131072).sets(nested_only, gemma4_layers),
    rotary("mimo_v2_flash", "MiMo-V2-Flash", "Xiaomi", 4096, 64, 192, 131072)
        .sets(nested_only, mimo_v2_layers)
        .partial(0),
    rotary("modernbert", "ModernBERT", "Answer.AI, LightOn", 768, 12, 0, 8192).sets(per_layer, modernbert_layers),
    rotary("modernbert-decoder", "Ettin decoders", "Johns Hopkins University", 768, 12, 0, 8192)
        .sets(per_layer, modernbert_layers),
    rotary("olmo3", "OLMo 3", "Ai2", 4096, 32, 0, 2048).sets(per_layer, olmo3_layers).no_head_dim(),
    // GGUF files alone
    gguf_only("EXAONE 3", "LG AI Research", ModelEncoding::rope, {.name = "exaone"}),
    gguf_only("XVERSE", "XVERSE", ModelEncoding::rope, {.name = "xverse", .layout = interleaved}),
};

}  // namespace

std::span<const Family> described_rope() { return rows; }

}  // namespace poslab

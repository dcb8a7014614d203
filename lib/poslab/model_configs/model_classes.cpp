#include "poslab/model_configs/model_classes.h"

namespace poslab {
namespace {

// Builds a line of the table below. rotary(...) takes hidden_size, n_heads, head_dim (0: their ratio), max_positions.
struct Entry {
  ModelClass c;

  constexpr Entry interleaved() const { return with(&ModelClass::layout, RopeLayout::interleaved); }
  constexpr Entry reads(RopeReading v) const { return with(&ModelClass::reading, v); }
  constexpr Entry kv_heads(std::int64_t v) const { return with(&ModelClass::n_kv_heads, v); }
  constexpr Entry theta(double v) const { return with(&ModelClass::rope_theta, v); }
  constexpr Entry theta_key(std::string_view v) const { return with(&ModelClass::theta_key, v); }
  constexpr Entry partial_key(std::string_view v) const { return with(&ModelClass::partial_key, v); }
  // Its default type honours a partial factor; v is the class default, 0 for none.
  constexpr Entry partial(double v) const {
    return with(&ModelClass::partial_rotary_factor, v).with(&ModelClass::default_type_is_partial, true);
  }
  constexpr Entry no_head_dim() const { return with(&ModelClass::has_head_dim, false); }
  constexpr Entry divisible() const { return with(&ModelClass::divisible, true); }
  constexpr Entry parameters(std::string_view v) const { return with(&ModelClass::rope_parameters, v); }
  constexpr Entry own(std::string_view v) const { return with(&ModelClass::own_keys, v); }
  constexpr Entry sets(RopeReading v, std::span<const LayerSet> layers) const {
    return reads(v).with(&ModelClass::layers, layers);
  }

 private:
  template <class T>
  constexpr Entry with(T ModelClass::*member, T value) const {
    Entry copy = *this;
    copy.c.*member = value;
    return copy;
  }
};

constexpr Entry other(std::string_view model_type, ModelEncoding encoding, std::int64_t hidden_size,
                      std::int64_t n_heads, std::int64_t max_positions) {
  return {{.model_type = model_type,
           .encoding = encoding,
           .hidden_size = hidden_size,
           .n_heads = n_heads,
           .max_positions = max_positions}};
}

constexpr Entry rotary(std::string_view model_type, std::int64_t hidden_size, std::int64_t n_heads,
                       std::int64_t head_dim, std::int64_t max_positions) {
  Entry e = other(model_type, ModelEncoding::rope, hidden_size, n_heads, max_positions);
  e.c.head_dim = head_dim;
  return e;
}

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

constexpr LayerSet gemma3_layers[] = {{"full_attention", "rope_theta", 1e6, true, "default", 0},
                                      {"sliding_attention", "rope_local_base_freq", 1e4, false, "default", 0}};
constexpr LayerSet olmo3_layers[] = {{"full_attention", "rope_theta", 5e5, true, "default", 0},
                                     {"sliding_attention", "", 5e5, false, "default", 0}};
constexpr LayerSet modernbert_layers[] = {{"full_attention", "global_rope_theta", 1.6e5, true, "default", 0},
                                          {"sliding_attention", "local_rope_theta", 1e4, true, "default", 0}};
constexpr LayerSet gemma4_layers[] = {{"full_attention", "", 1e6, false, "proportional", 0.25},
                                      {"sliding_attention", "", 1e4, false, "default", 0}};
constexpr LayerSet mimo_v2_layers[] = {{"full_attention", "", 5e6, false, "default", 0.334},
                                       {"sliding_attention", "", 1e4, false, "default", 0.334}};

// One model_type a line, alphabetical within its group. Sources: the configuration_*.py and modeling_*.py of
// transformers 5; chatglm, qwen, baichuan, internlm2, minicpm, nomic_bert: the code beside their weights.
using enum ModelEncoding;
using enum RopeReading;
constexpr Entry table[] = {
    // RoPE, the whole head
    rotary("apertus", 4096, 32, 0, 65536).theta(12e6).parameters(apertus_rope),
    rotary("arcee", 2560, 32, 0, 4096),
    rotary("bitnet", 2560, 20, 0, 2048).theta(5e5),
    rotary("cohere", 8192, 64, 0, 8192).interleaved().theta(5e5),
    rotary("cohere2", 8192, 64, 0, 8192).interleaved(),
    rotary("dbrx", 2048, 16, 0, 2048).theta_key("attn_config.rope_theta"),
    rotary("dots1", 4608, 32, 0, 2048),
    rotary("ernie4_5", 1024, 16, 128, 131072).interleaved().theta(5e5),
    rotary("ernie4_5_moe", 2560, 20, 0, 131072).interleaved().theta(5e5),
    rotary("esm", 0, 0, 0, 1026).no_head_dim(),
    rotary("exaone4", 4096, 32, 0, 2048),
    rotary("falcon", 4544, 71, 0, 2048).no_head_dim(),
    rotary("falcon_h1", 4096, 32, 0, 8192),
    rotary("gemma", 3072, 16, 256, 8192),
    rotary("gemma2", 2304, 8, 256, 8192),
    rotary("gpt_oss", 2880, 64, 64, 131072).theta(1.5e5).parameters(gpt_oss_rope),
    rotary("granite", 4096, 32, 0, 2048).no_head_dim(),
    rotary("granitemoe", 4096, 32, 0, 2048).no_head_dim(),
    rotary("helium", 2560, 20, 128, 4096).interleaved(),
    rotary("hunyuan_v1_dense", 4096, 32, 0, 2048).reads(hunyuan),
    rotary("hunyuan_v1_moe", 4096, 32, 0, 2048).reads(hunyuan),
    rotary("internlm2", 4096, 32, 0, 2048),
    rotary("internlm3", 4096, 32, 0, 32768),
    rotary("lfm2", 2560, 32, 0, 128000).theta(1e6).no_head_dim(),
    rotary("lfm2_moe", 2048, 32, 0, 128000).theta(1e6).no_head_dim(),
    rotary("llama", 4096, 32, 0, 2048).divisible(),
    rotary("llama4_text", 5120, 40, 128, 131072).interleaved().theta(5e5),
    rotary("minicpm", 4096, 32, 0, 2048),
    rotary("ministral", 4096, 32, 0, 131072),
    rotary("ministral3", 4096, 32, 128, 262144)
        .parameters(ministral3_rope)
        .own("llama_4_scaling_beta max_position_embeddings"),
    rotary("mistral", 4096, 32, 0, 131072),
    rotary("mixtral", 4096, 32, 0, 131072).theta(1e6),
    rotary("mllama_text_model", 4096, 32, 0, 131072).theta(5e5).no_head_dim(),
    rotary("olmo", 4096, 32, 0, 2048).no_head_dim(),
    rotary("olmo2", 4096, 32, 0, 2048).no_head_dim(),
    rotary("olmoe", 2048, 16, 0, 4096).no_head_dim(),
    rotary("qwen", 4096, 32, 0, 8192).theta_key("rotary_emb_base").partial_key("rotary_pct").partial(0),
    rotary("qwen2", 4096, 32, 0, 32768).no_head_dim(),
    rotary("qwen2_5_vl_text", 8192, 64, 0, 32768).reads(qwen_vl).no_head_dim().own("mrope_section"),
    rotary("qwen2_moe", 2048, 16, 0, 32768).no_head_dim(),
    rotary("qwen2_vl_text", 8192, 64, 0, 32768).reads(qwen_vl).no_head_dim().own("mrope_section"),
    rotary("qwen3", 4096, 32, 128, 32768),
    rotary("qwen3_moe", 2048, 32, 0, 32768),
    rotary("qwen3_vl_moe_text", 2048, 16, 0, 128000).theta(5e5).own("mrope_section mrope_interleaved"),
    rotary("qwen3_vl_text", 4096, 32, 128, 128000).theta(5e5).own("mrope_section mrope_interleaved"),
    rotary("roformer", 768, 12, 0, 1536).interleaved(),
    rotary("seed_oss", 4096, 32, 128, 524288),
    rotary("smollm3", 2048, 16, 0, 32768).theta(2e6).no_head_dim(),
    rotary("starcoder2", 3072, 24, 0, 4096).no_head_dim(),
    // RoPE, part of the head
    rotary("chatglm", 4096, 32, 128, 2048).interleaved().reads(chatglm),
    rotary("codegen", 4096, 16, 0, 2048).interleaved().reads(rotary_dim),
    rotary("glm", 4096, 32, 128, 131072).interleaved().partial(0.5),
    rotary("glm4", 4096, 32, 128, 131072).interleaved().partial(0.5),
    rotary("glm4_moe", 4096, 96, 128, 131072).partial(0.5),
    rotary("gpt_neox", 6144, 64, 0, 2048)
        .theta_key("rotary_emb_base")
        .partial_key("rotary_pct")
        .partial(0.25)
        .no_head_dim()
        .divisible(),
    rotary("gpt_neox_japanese", 2560, 32, 0, 2048)
        .theta_key("rotary_emb_base")
        .partial_key("rotary_pct")
        .partial(1)
        .no_head_dim(),
    rotary("gptj", 4096, 16, 0, 2048).interleaved().reads(rotary_dim),
    rotary("minimax_m2", 3072, 48, 128, 196608).theta(5e6).partial(0),
    rotary("nemotron", 6144, 48, 0, 4096).partial(0.5),
    rotary("nomic_bert", 768, 12, 0, 8192).theta_key("rotary_emb_base").partial_key("rotary_emb_fraction").partial(1),
    rotary("persimmon", 4096, 64, 0, 16384).theta(25000).partial(0.5).no_head_dim(),
    rotary("phi", 2048, 32, 0, 2048).partial(0.5).no_head_dim(),
    rotary("phi3", 3072, 32, 0, 4096).reads(phi3).partial(0).no_head_dim(),
    rotary("phimoe", 4096, 32, 0, 131072).reads(phimoe).theta(1e6).no_head_dim().own("short_mscale long_mscale"),
    rotary("qwen3_next", 2048, 16, 256, 32768).partial(0.25),
    rotary("recurrent_gemma", 2560, 10, 0, 8192).partial(0.5),
    rotary("stablelm", 2560, 32, 0, 4096).partial(0.25).no_head_dim(),
    // RoPE beside a compressed part (multi-head latent attention)
    rotary("deepseek_v2", 4096, 32, 64, 2048).interleaved().reads(mla).divisible(),
    rotary("deepseek_v3", 7168, 128, 64, 4096).interleaved().reads(mla),
    rotary("glm4_moe_lite", 2048, 20, 64, 202752).interleaved().reads(mla),
    rotary("kimi_k2", 7168, 64, 64, 4096).interleaved().reads(mla),
    rotary("longcat_flash", 6144, 64, 64, 131072).interleaved().reads(mla).theta(1e7),
    // RoPE, a set for each layer type
    rotary("gemma3_text", 2304, 8, 256, 131072).kv_heads(4).sets(per_layer, gemma3_layers),
    rotary("gemma3n_text", 2048, 8, 256, 32768).sets(per_layer, gemma3_layers),
    rotary("gemma4_text", 2304, 8, 256, 131072).sets(nested_only, gemma4_layers),
    rotary("mimo_v2_flash", 4096, 64, 192, 131072).sets(nested_only, mimo_v2_layers).partial(0),
    rotary("modernbert", 768, 12, 0, 8192).sets(per_layer, modernbert_layers),
    rotary("modernbert-decoder", 768, 12, 0, 8192).sets(per_layer, modernbert_layers),
    rotary("olmo3", 4096, 32, 0, 2048).sets(per_layer, olmo3_layers).no_head_dim(),
    // A learned table
    other("albert", learned, 4096, 64, 512),
    other("bart", learned, 1024, 16, 1024),
    other("bert", learned, 768, 12, 512),
    other("biogpt", learned, 1024, 16, 1024),
    other("blenderbot", learned, 2560, 32, 128),
    other("camembert", learned, 768, 12, 512),
    other("clip_text_model", learned, 512, 8, 77),
    other("distilbert", learned, 768, 12, 512),
    other("electra", learned, 256, 4, 512),
    other("gpt2", learned, 768, 12, 1024),
    other("gpt_bigcode", learned, 768, 12, 1024),
    other("gpt_neo", learned, 2048, 16, 2048),
    other("longformer", learned, 768, 12, 512),
    other("mbart", learned, 1024, 16, 1024),
    other("openai-gpt", learned, 768, 12, 512),
    other("opt", learned, 768, 12, 2048),
    other("roberta", learned, 768, 12, 512),
    other("whisper", learned, 384, 6, 448),
    other("xlm-roberta", learned, 768, 12, 512),
    // ALiBi
    other("baichuan", alibi, 4096, 32, 4096),
    other("bloom", alibi, 64, 8, 0),
    other("jais", alibi, 768, 12, 1024),
    other("mpt", alibi, 2048, 16, 2048),
    // T5's buckets
    other("longt5", t5, 512, 6, 0),
    other("mpnet", t5, 768, 12, 512),
    other("mt5", t5, 512, 6, 0),
    other("switch_transformers", t5, 768, 12, 0),
    other("t5", t5, 512, 8, 0),
    other("umt5", t5, 512, 6, 0),
    // Other relative schemes
    other("deberta", relative, 768, 12, 512),
    other("deberta-v2", relative, 1536, 24, 512),
    other("transfo-xl", relative, 1024, 16, 0),
    other("xlnet", relative, 1024, 16, 0),
    // Sinusoids
    other("ctrl", sinusoidal, 1280, 16, 256),
    other("fsmt", sinusoidal, 1024, 16, 1024),
    other("m2m_100", sinusoidal, 1024, 16, 1024),
    other("marian", sinusoidal, 1024, 16, 1024),
    other("pegasus", sinusoidal, 1024, 16, 1024),
    other("xglm", sinusoidal, 1024, 16, 2048),
    // Order comes from a recurrence
    other("falcon_mamba", none, 768, 0, 0),
    other("jamba", none, 4096, 32, 0),
    other("mamba", none, 768, 0, 0),
    other("mamba2", none, 4096, 0, 0),
    other("nemotron_h", none, 4096, 32, 0),
    other("rwkv", none, 4096, 0, 0),
};

}  // namespace

const ModelClass* find_model_class(std::string_view model_type) {
  // Hub names of the same classes.
  if (model_type == "qwen2_vl") model_type = "qwen2_vl_text";
  if (model_type == "qwen2_5_vl") model_type = "qwen2_5_vl_text";
  if (model_type == "gemma3") model_type = "gemma3_text";
  if (model_type == "RefinedWeb" || model_type == "RefinedWebModel") model_type = "falcon";
  for (const Entry& entry : table) {
    if (entry.c.model_type == model_type) return &entry.c;
  }
  return nullptr;
}

}  // namespace poslab

// Families without RoPE that poslab describes and does not run: one a line, alphabetical within its group.
#include "poslab/model_configs/config_text.h"
#include "poslab/models/families/rows.h"

namespace poslab {
namespace {

constexpr ModelEncoding rope = ModelEncoding::rope, learned = ModelEncoding::learned, none = ModelEncoding::none;
constexpr ModelEncoding relative = ModelEncoding::relative, alibi = alibi_method, t5 = t5_method;
constexpr ModelEncoding sinusoidal = sinusoidal_method;

// Falcon-RW has ALiBi, the later ones RoPE.
void falcon_encoding(ConfigText& config, EncodingChoice& choice) {
  if (config.boolean("alibi", false)) choice = {alibi, config.path("alibi")};
}

// Baichuan 13B has ALiBi, the 7B models RoPE.
void baichuan_encoding(ConfigText& config, EncodingChoice& choice) {
  constexpr std::int64_t width_of_13b = 5120;
  const auto hidden = config.size({"hidden_size"}, config.hf().hidden_size);
  if (hidden && hidden->value < width_of_13b) choice = {rope, config.path("hidden_size")};
}

void distilbert_encoding(ConfigText& config, EncodingChoice& choice) {
  if (config.boolean("sinusoidal_pos_embds", false)) choice = {sinusoidal, config.path("sinusoidal_pos_embds")};
}

// ESM-1's table, where nothing says rotary.
void esm_encoding(ConfigText& config, EncodingChoice& choice) {
  const auto* how = config.top("position_embedding_type");
  if (!how || !how->is_string()) choice.source = config.class_default();
}

constexpr Family rows[] = {
    // A learned table
    other("albert", "ALBERT", "Google", learned, 4096, 64, 512),
    other("bart", "BART", "Meta", learned, 1024, 16, 1024),
    other("bert", "BERT", "Google", learned, 768, 12, 512).gguf("bert"),
    other("biogpt", "BioGPT", "Microsoft", learned, 1024, 16, 1024),
    other("blenderbot", "Blenderbot", "Meta", learned, 2560, 32, 128),
    other("camembert", "CamemBERT", "Inria, Meta", learned, 768, 12, 512).table_after_padding(),
    other("clip_text_model", "CLIP's text part", "OpenAI", learned, 512, 8, 77),
    other("distilbert", "DistilBERT", "Hugging Face", learned, 768, 12, 512).chooses(distilbert_encoding),
    other("electra", "ELECTRA", "Google", learned, 256, 4, 512),
    other("gpt_bigcode", "StarCoder, SantaCoder", "BigCode", learned, 768, 12, 1024).gguf("starcoder"),
    other("gpt_neo", "GPT-Neo", "EleutherAI", learned, 2048, 16, 2048),
    other("longformer", "Longformer", "Ai2", learned, 768, 12, 512).table_after_padding(),
    other("mbart", "mBART", "Meta", learned, 1024, 16, 1024),
    other("openai-gpt", "GPT", "OpenAI", learned, 768, 12, 512),
    other("opt", "OPT", "Meta", learned, 768, 12, 2048),
    other("roberta", "RoBERTa", "Meta", learned, 768, 12, 512).table_after_padding(),
    other("whisper", "Whisper", "OpenAI", learned, 384, 6, 448),
    other("xlm-roberta", "XLM-RoBERTa", "Meta", learned, 768, 12, 512).table_after_padding(),
    other("esm", "ESM-2", "Meta", learned, 0, 0, 1026).chooses(esm_encoding).table_after_padding(),
    // ALiBi, or RoPE by a key
    other("baichuan", "Baichuan", "Baichuan", alibi, 4096, 32, 4096).chooses(baichuan_encoding),
    rotary("falcon", "Falcon", "TII", 4544, 71, 0, 2048)
        .no_head_dim()
        .chooses(falcon_encoding)
        .fused_heads_unsaid()
        .also("RefinedWeb", "RefinedWebModel")
        .gguf("falcon"),
    other("jais", "Jais", "G42, MBZUAI", alibi, 768, 12, 1024),
    // T5's buckets
    other("longt5", "LongT5", "Google", t5, 512, 6, 0),
    other("mpnet", "MPNet", "Microsoft", t5, 768, 12, 512),
    other("mt5", "mT5", "Google", t5, 512, 6, 0),
    other("switch_transformers", "Switch Transformer", "Google", t5, 768, 12, 0),
    other("t5", "T5", "Google", t5, 512, 8, 0).gguf("t5"),
    other("umt5", "UMT5", "Google", t5, 512, 6, 0),
    // Other relative schemes
    other("deberta", "DeBERTa", "Microsoft", relative, 768, 12, 512),
    other("deberta-v2", "DeBERTa V2, V3", "Microsoft", relative, 1536, 24, 512),
    other("transfo-xl", "Transformer-XL", "CMU, Google", relative, 1024, 16, 0),
    other("xlnet", "XLNet", "CMU, Google", relative, 1024, 16, 0),
    // Sinusoids
    other("ctrl", "CTRL", "Salesforce", sinusoidal, 1280, 16, 256),
    other("fsmt", "FSMT (WMT19)", "Meta", sinusoidal, 1024, 16, 1024),
    other("m2m_100", "M2M-100, NLLB", "Meta", sinusoidal, 1024, 16, 1024),
    other("marian", "Marian (OPUS-MT)", "University of Helsinki", sinusoidal, 1024, 16, 1024),
    other("pegasus", "PEGASUS", "Google", sinusoidal, 1024, 16, 1024),
    other("xglm", "XGLM", "Meta", sinusoidal, 1024, 16, 2048),
    // Order comes from a recurrence
    other("falcon_mamba", "Falcon Mamba", "TII", none, 768, 0, 0),
    other("jamba", "Jamba", "AI21 Labs", none, 4096, 32, 0),
    other("mamba", "Mamba", "Gu and Dao", none, 768, 0, 0).gguf("mamba"),
    other("mamba2", "Mamba-2", "Dao and Gu", none, 4096, 0, 0).gguf("mamba2"),
    other("nemotron_h", "Nemotron-H", "NVIDIA", none, 4096, 32, 0),
    other("rwkv", "RWKV", "BlinkDL", none, 4096, 0, 0),
    // GGUF files alone
    gguf_only("Jina Embeddings 2", "Jina AI", alibi, {.name = "jina-bert-v2"}),
    gguf_only("Refact", "Refact AI", alibi, {.name = "refact"}),
    gguf_only("T5's encoder", "Google", t5, {.name = "t5encoder"}),
};

}  // namespace

std::span<const Family> described_other() { return rows; }

}  // namespace poslab

"""Text architectures of transformers: encoders, decoders, encoder-decoders, state space models.
unprepared_models.py explains the calls.
"""

from unprepared_models import decoder_inputs, hugging_face, ids_only, seq2seq_inputs, text_inputs

ENCODERS = """albert bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra ernie esm
eurobert flaubert fnet funnel ibert lilt layoutlm longformer luke markuplm megatron-bert mobilebert modernbert mpnet mra nomic_bert
rembert roberta roberta-prelayernorm roc_bert roformer splinter squeezebert xlm xlm-roberta xlm-roberta-xl
xlnet xmod yoso canine tapas jina_embeddings_v3 bert-generation""".split()

DECODERS = """apertus arcee biogpt bitnet bloom codegen cohere cohere2 ctrl cwm diffllama dots1 ernie4_5 exaone4 falcon
gemma gemma2 gemma3_text glm glm4 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gptj granite helium hunyuan_v1_dense
jetmoe lfm2 llama mistral mixtral modernbert-decoder mpt nanochat nemotron olmo olmo2 olmo3 openai-gpt opt persimmon phi phi3
qwen2 qwen2_moe qwen3 qwen3_moe seed_oss smollm3 stablelm starcoder2 xglm youtu gpt_oss olmoe granitemoe deepseek_v2 deepseek_v3
minimax phimoe flex_olmo ernie4_5_moe vaultgemma minicpm3""".split()

RECURRENT = "mamba mamba2 falcon_mamba rwkv recurrent_gemma bamba jamba zamba falcon_h1 nemotron_h xlstm qwen3_next".split()

SEQ2SEQ = """bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 m2m_100 marian mbart mt5 mvp nllb-moe pegasus
pegasus_x plbart prophetnet switch_transformers t5 umt5""".split()

OVER = {
    "albert": dict(embedding_size=16),
    "deberta": dict(relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=16),
    "deberta-v2": dict(relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True),
    "funnel": dict(block_sizes=[1, 1], d_head=8, num_decoder_layers=1, d_inner=48),
    "longformer": dict(attention_window=[4, 4]),
    "mobilebert": dict(embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16, num_feedforward_networks=2),
    "canine": dict(num_hash_buckets=64, local_transformer_stride=4, downsampling_rate=2),
    "big_bird": dict(attention_type="original_full"),
    "xmod": dict(languages=["en", "de"], default_language="en", adapter_reduction_factor=2),
    "modernbert": dict(local_attention=4, global_attn_every_n_layers=2),
    "esm": dict(position_embedding_type="rotary", mask_token_id=4, vocab_size=100, pad_token_id=1),
    "luke": dict(use_entity_aware_attention=False),
    "xlnet": dict(d_inner=48),
    "squeezebert": dict(q_groups=2, k_groups=2, v_groups=2, post_attention_groups=1, intermediate_groups=2, output_groups=2, embedding_size=32),
    "convbert": dict(embedding_size=16, conv_kernel_size=3),
    "roformer": dict(embedding_size=16),
    "ctrl": dict(dff=48),
    "gpt_neo": dict(attention_types=[[["global", "local"], 1]], window_size=4),
    "mpt": dict(max_seq_len=64, attn_config=dict(attn_impl="torch")),
    "falcon": dict(alibi=False, new_decoder_architecture=True),
    "gemma3_text": dict(sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
    "gemma2": dict(sliding_window=4, layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=8),
    "deepseek_v2": dict(num_experts_per_tok=2, topk_method="greedy", q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1, n_group=1, topk_group=1, num_key_value_heads=4, head_dim=8),
    "deepseek_v3": dict(q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1, n_group=1, topk_group=1, num_key_value_heads=4, head_dim=8),
    "youtu": dict(q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, num_key_value_heads=4),
    "minicpm3": dict(q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, num_key_value_heads=4),
    "dots1": dict(n_group=1, topk_group=1, first_k_dense_replace=1, num_key_value_heads=4),
    "phi3": dict(num_key_value_heads=2),
    "mamba": dict(state_size=4, time_step_rank=2, intermediate_size=64),
    "falcon_mamba": dict(state_size=4, time_step_rank=2, intermediate_size=64),
    "mamba2": dict(state_size=4, num_heads=4, head_dim=16, n_groups=1, chunk_size=4, expand=2),
    "rwkv": dict(attention_hidden_size=32, context_length=16),
    "recurrent_gemma": dict(lru_width=32, attention_window_size=4, block_types=["recurrent", "attention"], num_hidden_layers=2, conv1d_width=4),
    "bamba": dict(mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=4, mamba_chunk_size=4, attn_layer_indices=[1]),
    "jamba": dict(mamba_d_state=4, mamba_dt_rank=2, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, use_mamba_kernels=False),
    "falcon_h1": dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_ssm=64, mamba_n_groups=1, mamba_d_state=4, mamba_chunk_size=4),
    "lfm2": dict(layer_types=["conv", "full_attention"], block_multiple_of=16),
    "qwen3_next": dict(layer_types=["linear_attention", "full_attention"], linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8),
    "longt5": dict(local_radius=4, global_block_size=4),
    "led": dict(attention_window=[4, 4], max_encoder_position_embeddings=64, max_decoder_position_embeddings=64),
    "pegasus_x": dict(block_size=4, num_global_tokens=4),
    "bigbird_pegasus": dict(attention_type="original_full"),
    "fsmt": dict(src_vocab_size=100, tgt_vocab_size=100, langs=["en", "de"]),
    "prophetnet": dict(ngram=2, num_buckets=8, relative_max_distance=16),
    "t5": dict(num_heads=4), "mt5": dict(num_heads=4), "umt5": dict(num_heads=4),
    "xlstm": dict(num_blocks=2),
}  # fmt: skip

CLASS = {"bert-generation": "BertGenerationEncoder", "modernbert-decoder": "ModernBertDecoderModel"}

for _names, _inputs in ((ENCODERS, text_inputs), (DECODERS, decoder_inputs), (RECURRENT, ids_only), (SEQ2SEQ, seq2seq_inputs)):
    for _name in _names:
        hugging_face(_name, _name, _inputs, cls=CLASS.get(_name), **OVER.get(_name, {}))

# Further models of these backbones: with heads, and with settings other than the defaults.
hugging_face("bert_classifier", "bert", text_inputs, auto="AutoModelForSequenceClassification")
hugging_face("deberta-v2_tokens", "deberta-v2", text_inputs, auto="AutoModelForTokenClassification", **OVER["deberta-v2"])
hugging_face("bloom_lm", "bloom", text_inputs, auto="AutoModelForCausalLM")
hugging_face("falcon_alibi", "falcon", text_inputs, alibi=True, new_decoder_architecture=False, multi_query=True)
hugging_face("gpt2_classifier", "gpt2", text_inputs, auto="AutoModelForSequenceClassification")
hugging_face("big_bird_sparse", "big_bird", lambda c=None: {"input_ids": __import__("unprepared_models").tokens((2, 48))}, attention_type="block_sparse", block_size=4, num_random_blocks=1)  # fmt: skip
hugging_face("marian_lm", "marian", seq2seq_inputs, auto="AutoModelForSeq2SeqLM")
hugging_face("bart_lm", "bart", seq2seq_inputs, auto="AutoModelForSeq2SeqLM")
hugging_face("mamba_lm", "mamba", ids_only, auto="AutoModelForCausalLM", **OVER["mamba"])
hugging_face("electra_discriminator", "electra", text_inputs, cls="ElectraForPreTraining")
hugging_face("dpr", "dpr", text_inputs, cls="DPRQuestionEncoder")

package pretrained

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coalmine/models"
	"coalmine/tasks/datasets/text"
)

// config has the fields of config.json that determine a model's predictions.
type config struct {
	ModelType string          `json:"model_type"`
	Begin     *int            `json:"bos_token_id"`
	End       json.RawMessage `json:"eos_token_id"` // one number or several
	Tied      *bool           `json:"tie_word_embeddings"`

	// Fields of gpt2.
	Width2       int     `json:"n_embd"`
	Layers2      int     `json:"n_layer"`
	Heads2       int     `json:"n_head"`
	Context2     int     `json:"n_positions"`
	Units2       int     `json:"n_inner"`
	Activation2  string  `json:"activation_function"`
	Epsilon2     float64 `json:"layer_norm_epsilon"`
	ScaleWeights *bool   `json:"scale_attn_weights"`
	ScaleByLayer bool    `json:"scale_attn_by_inverse_layer_idx"`
	CrossAttends bool    `json:"add_cross_attention"`

	// Fields of gpt_neox and llama.
	Width      int     `json:"hidden_size"`
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	KeyHeads   int     `json:"num_key_value_heads"`
	HeadWidth  int     `json:"head_dim"`
	Units      int     `json:"intermediate_size"`
	Context    int     `json:"max_position_embeddings"`
	Activation string  `json:"hidden_act"`
	Epsilon    float64 `json:"layer_norm_eps"`
	RMSEpsilon float64 `json:"rms_norm_eps"`
	Parallel   *bool   `json:"use_parallel_residual"`
	Biased     *bool   `json:"attention_bias"`
	FeedBiased bool    `json:"mlp_bias"`

	// Fields of rotations.
	RotaryShare   *float64        `json:"rotary_pct"`
	PartialRotary *float64        `json:"partial_rotary_factor"`
	RotaryBase    float64         `json:"rotary_emb_base"`
	Theta         float64         `json:"rope_theta"`
	Scaling       json.RawMessage `json:"rope_scaling"`
	Rotations     rotations       `json:"rope_parameters"`
	Window        *int            `json:"sliding_window"`
	Quantization  json.RawMessage `json:"quantization_config"`
}

// rotations has the fields of rotations in files of newer versions of the library.
type rotations struct {
	Type          string   `json:"rope_type"`
	Theta         float64  `json:"rope_theta"`
	PartialRotary *float64 `json:"partial_rotary_factor"`
}

func (c *config) family() (*family, error) {
	f := families[c.ModelType]
	if f == nil {
		return nil, fmt.Errorf("model_type is %q; expected %s: models of other types are audited by a program (--command)", c.ModelType, strings.Join(slices.Sorted(maps.Keys(families)), ", "))
	}
	for _, setting := range []struct {
		field string
		wrong bool
	}{
		{"rope_scaling", given(c.Scaling) && !c.unscaled()},
		{"rope_parameters.rope_type", c.Rotations.Type != "" && c.Rotations.Type != "default"},
		{"sliding_window", c.Window != nil},
		{"quantization_config", given(c.Quantization)},
		{"add_cross_attention", c.CrossAttends},
		{"scale_attn_by_inverse_layer_idx", c.ScaleByLayer},
		{"scale_attn_weights: false", c.ScaleWeights != nil && !*c.ScaleWeights},
		{"mlp_bias", c.FeedBiased},
	} {
		if setting.wrong {
			return nil, fmt.Errorf("%s changes the arithmetic in an unsupported way; expected a model without it, or a program that scores the model (--command)", setting.field)
		}
	}
	return f, nil
}

// unscaled reports whether rope_scaling asks for no scaling.
func (c *config) unscaled() bool {
	var r rotations
	return json.Unmarshal(c.Scaling, &r) == nil && r.Type == "default"
}

func given(field json.RawMessage) bool { return len(field) > 0 && !bytes.Equal(field, []byte("null")) }

func (c *config) tied(f *family) bool {
	if c.Tied != nil {
		return *c.Tied
	}
	return f.tied
}

// specials returns the tokens that begin and end a text; rows is the model's number of tokens.
func (c *config) specials(rows int) (begin, end int32, err error) {
	ids, last := []int{}, 0
	if json.Unmarshal(c.End, &ids) != nil && json.Unmarshal(c.End, &last) == nil {
		ids = []int{last}
	}
	if len(ids) == 0 {
		return 0, 0, errors.New("it has no eos_token_id; expected the number of the token that ends a text")
	}
	first := ids[0]
	if c.Begin != nil {
		first = *c.Begin
	}
	for _, id := range []int{first, ids[0]} {
		if id < 0 || id >= rows {
			return 0, 0, fmt.Errorf("bos_token_id and eos_token_id are %d and %d; expected tokens of the model, 0 to %d", first, ids[0], rows-1)
		}
	}
	return int32(text.FirstWord + first), int32(text.FirstWord + ids[0]), nil
}

// activation returns the activation by its name in the library.
func activation(name string, byDefault models.Activation) (models.Activation, error) {
	known := map[string]models.Activation{
		"": byDefault, "gelu_new": "", "gelu_pytorch_tanh": "", "gelu_fast": "", "gelu": models.ExactGELU, "silu": models.SiLU, "swish": models.SiLU,
	}
	found, ok := known[name]
	if !ok {
		delete(known, "")
		return "", fmt.Errorf("the activation %q is not supported; expected one of %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return found, nil
}

func gpt2(c *config) (n models.Config, err error) {
	n = models.Config{
		Kind: models.Transformer, Embedding: cmp.Or(c.Width2, 768), Units: c.Units2, Layers: cmp.Or(c.Layers2, 12), Heads: cmp.Or(c.Heads2, 12),
		Context: cmp.Or(c.Context2, 1024), Blocks: models.Blocks{Epsilon: c.Epsilon2},
	}
	n.Units = cmp.Or(n.Units, 4*n.Embedding)
	n.Blocks.Activation, err = activation(c.Activation2, "")
	return n, err
}

func gptNeoX(c *config) (n models.Config, err error) {
	if c.Biased != nil && !*c.Biased {
		return n, errors.New("attention_bias is false; expected a model of type gpt_neox with biases")
	}
	n, err = c.rotating(models.ExactGELU)
	n.Blocks.Epsilon, n.Blocks.Parallel = c.Epsilon, c.Parallel == nil || *c.Parallel
	share := cmp.Or(c.RotaryShare, c.PartialRotary, c.Rotations.PartialRotary, new(0.25))
	n.Blocks.Rotary = int(float64(n.Embedding/max(1, n.Heads)) * *share)
	if n.Blocks.Rotary == 0 && err == nil {
		err = fmt.Errorf("rotary_pct is %v; expected a share of at least 2 elements of a head", *share)
	}
	return n, err
}

func llama(c *config) (n models.Config, err error) {
	if c.Biased != nil && *c.Biased {
		return n, errors.New("attention_bias is true; expected a model of type llama without biases")
	}
	n, err = c.rotating(models.SiLU)
	n.Blocks.Rotary = n.Embedding / max(1, n.Heads)
	n.Blocks.Epsilon = cmp.Or(c.RMSEpsilon, 1e-6)
	n.Blocks.RMS, n.Blocks.Gated, n.Blocks.Unbiased = true, true, true
	if n.Blocks.KeyHeads = c.KeyHeads; c.KeyHeads == n.Heads {
		n.Blocks.KeyHeads = 0
	}
	if c.HeadWidth != 0 && c.HeadWidth != n.Blocks.Rotary && err == nil {
		err = fmt.Errorf("head_dim is %d; expected hidden_size/num_attention_heads, %d", c.HeadWidth, n.Blocks.Rotary)
	}
	return n, err
}

// rotating returns the sizes of a model that rotates queries and keys.
func (c *config) rotating(byDefault models.Activation) (n models.Config, err error) {
	n = models.Config{Kind: models.Transformer, Embedding: c.Width, Units: c.Units, Layers: c.Layers, Heads: c.Heads, Context: c.Context}
	if min(n.Embedding, n.Units, n.Layers, n.Heads, n.Context) < 1 {
		return n, errors.New("one of hidden_size, intermediate_size, num_hidden_layers, num_attention_heads and max_position_embeddings is missing; expected all of them")
	}
	n.Blocks.Theta = cmp.Or(c.RotaryBase, c.Theta, c.Rotations.Theta)
	n.Blocks.Activation, err = activation(c.Activation, byDefault)
	return n, err
}

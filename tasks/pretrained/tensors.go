package pretrained

import (
	"fmt"
	"strconv"
	"strings"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/tasks/datasets/text"
)

// family is a type of model: the names of its tensors and the reading of its configuration.
type family struct {
	network func(c *config) (models.Config, error)
	// prefix begins the names of all tensors except the output layer's, in files of models with an
	// output layer.
	prefix string
	// tensors maps each tensor of a models.Transformer to the names of its parts, left to right; #
	// stands for the number of the block.
	tensors map[string][]string
	// columns reports whether a matrix has a column for each input, as in torch.nn.Linear.
	columns bool
	// interleaved reports whether the queries, keys and values of each head are adjacent.
	interleaved bool
	tied        bool // tied by default
}

// families are the known families by model_type.
var families = map[string]*family{
	"gpt2": {
		network: gpt2, prefix: "transformer.", tied: true,
		tensors: map[string][]string{
			models.EmbeddingTensor: {"wte.weight"}, models.PositionTensor: {"wpe.weight"},
			"attention.scale": {"h.#.ln_1.weight"}, "attention.shift": {"h.#.ln_1.bias"},
			"attention.input": {"h.#.attn.c_attn.weight"}, "attention.input_bias": {"h.#.attn.c_attn.bias"},
			"attention.output": {"h.#.attn.c_proj.weight"}, "attention.output_bias": {"h.#.attn.c_proj.bias"},
			"feed.scale": {"h.#.ln_2.weight"}, "feed.shift": {"h.#.ln_2.bias"},
			"feed.input": {"h.#.mlp.c_fc.weight"}, "feed.input_bias": {"h.#.mlp.c_fc.bias"},
			"feed.output": {"h.#.mlp.c_proj.weight"}, "feed.output_bias": {"h.#.mlp.c_proj.bias"},
			"final.scale": {"ln_f.weight"}, "final.shift": {"ln_f.bias"},
			models.OutputTensor: {"lm_head.weight"},
		},
	},
	"gpt_neox": {
		network: gptNeoX, prefix: "gpt_neox.", columns: true, interleaved: true,
		tensors: map[string][]string{
			models.EmbeddingTensor: {"embed_in.weight"},
			"attention.scale":      {"layers.#.input_layernorm.weight"}, "attention.shift": {"layers.#.input_layernorm.bias"},
			"attention.input": {"layers.#.attention.query_key_value.weight"}, "attention.input_bias": {"layers.#.attention.query_key_value.bias"},
			"attention.output": {"layers.#.attention.dense.weight"}, "attention.output_bias": {"layers.#.attention.dense.bias"},
			"feed.scale": {"layers.#.post_attention_layernorm.weight"}, "feed.shift": {"layers.#.post_attention_layernorm.bias"},
			"feed.input": {"layers.#.mlp.dense_h_to_4h.weight"}, "feed.input_bias": {"layers.#.mlp.dense_h_to_4h.bias"},
			"feed.output": {"layers.#.mlp.dense_4h_to_h.weight"}, "feed.output_bias": {"layers.#.mlp.dense_4h_to_h.bias"},
			"final.scale": {"final_layer_norm.weight"}, "final.shift": {"final_layer_norm.bias"},
			models.OutputTensor: {"embed_out.weight"},
		},
	},
	"llama": {
		network: llama, prefix: "model.", columns: true,
		tensors: map[string][]string{
			models.EmbeddingTensor: {"embed_tokens.weight"},
			"attention.scale":      {"layers.#.input_layernorm.weight"},
			"attention.input":      {"layers.#.self_attn.q_proj.weight", "layers.#.self_attn.k_proj.weight", "layers.#.self_attn.v_proj.weight"},
			"attention.output":     {"layers.#.self_attn.o_proj.weight"},
			"feed.scale":           {"layers.#.post_attention_layernorm.weight"},
			"feed.input":           {"layers.#.mlp.gate_proj.weight", "layers.#.mlp.up_proj.weight"},
			"feed.output":          {"layers.#.mlp.down_proj.weight"},
			"final.scale":          {"norm.weight"},
			models.OutputTensor:    {"lm_head.weight"},
		},
	},
}

func perToken(name string) bool { return name == models.EmbeddingTensor || name == models.OutputTensor }

// pieces returns the names of the parts of a tensor, side by side, and the name of the tensor in the
// first block.
func (f *family) pieces(name string) (parts []string, first string) {
	room, rest, dotted := strings.Cut(name, ".")
	bare := strings.TrimRight(room, "0123456789")
	block, err := strconv.Atoi(room[len(bare):])
	if err != nil {
		block = 1
	}
	if first = bare; dotted {
		first += "." + rest
	}
	for _, part := range f.tensors[first] {
		parts = append(parts, strings.Replace(part, "#", strconv.Itoa(block-1), 1))
	}
	return parts, first
}

// transposed reports whether the file stores the transpose of a tensor.
func (f *family) transposed(t models.Tensor) bool {
	return f.columns && len(t.Shape) == 2 && !perToken(t.Name) && t.Name != models.PositionTensor
}

// fill sets values to the elements of a tensor of the model.
func (f *Folder) fill(t models.Tensor, values []float32) error {
	if t.Name == models.OutputBiasTensor {
		models.Fill(values[:text.FirstWord], models.Absent)
		return nil
	}
	if perToken(t.Name) {
		return f.fillTokens(t, values)
	}
	pieces, first := f.family.pieces(t.Name)
	for at, column := 0, 0; at < len(pieces); at++ {
		name := pieces[at]
		if len(pieces) == 1 && !f.family.transposed(t) && !f.splits(first) {
			return f.convert(name, values)
		}
		read, err := f.part(name)
		if err != nil {
			return err
		}
		column += f.place(t, first, values, read, column)
	}
	return nil
}

// part reads a tensor of the folder into memory that the next call overwrites.
func (f *Folder) part(name string) ([]float32, error) {
	size := 1
	for _, n := range f.shape(name) {
		size *= n
	}
	if cap(f.read) < size {
		f.read = make([]float32, size)
	}
	return f.read[:size], f.convert(name, f.read[:size])
}

// fillTokens sets the rows of the tokens; the tensor may have fewer of them than the folder.
func (f *Folder) fillTokens(t models.Tensor, values []float32) error {
	name, width := f.family.tensors[t.Name][0], t.Shape[1]
	own := values[text.FirstWord*width:]
	if f.shape(name)[0]*width == len(own) {
		if err := f.convert(name, own); err != nil {
			return err
		}
	} else {
		read, err := f.part(name)
		if err != nil {
			return err
		}
		copy(own, read)
	}
	for i := range text.FirstWord {
		token := f.Begin
		if i == text.End {
			token = f.End
		}
		copy(values[i*width:(i+1)*width], values[int(token)*width:])
	}
	return nil
}

// Initial returns the initial model of a training, and its parameters. The model has only the
// tokens of the tokenizer, and predicts the end of a text as text.End instead of the folder's
// own token.
func (f *Folder) Initial() (*models.Language, []float32, error) {
	config := f.Model.Config()
	config.Vocabulary = text.FirstWord + len(f.Tokenizer.Tokens())
	if last := int(max(f.Begin, f.End)); last >= config.Vocabulary {
		return nil, nil, fmt.Errorf("%s: token %d begins or ends a text (%s), and %s has %d tokens; expected one of them", f.name, last-text.FirstWord, ConfigFile, TokenizerFile, config.Vocabulary-text.FirstWord)
	}
	model, err := models.New(config)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.name, err)
	}
	params := make([]float32, model.Parameters())
	for _, t := range model.Tensors() {
		values := t.View(params)
		if err := f.fill(t, values); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if t.Name == models.OutputBiasTensor {
			values[text.End], values[f.End] = 0, models.Absent
		}
	}
	return model, params, nil
}

// splits reports whether a tensor's queries, keys and values must be separated.
func (f *Folder) splits(first string) bool {
	return f.family.interleaved && (first == "attention.input" || first == "attention.input_bias")
}

// place writes a part of a tensor from one column on, and returns the number of its columns.
func (f *Folder) place(t models.Tensor, first string, values, part []float32, column int) int {
	rows, wide := 1, t.Shape[len(t.Shape)-1]
	if len(t.Shape) == 2 {
		rows = t.Shape[0]
	}
	columns := len(part) / rows
	if !f.splits(first) {
		kernels.Transpose(values[column:], wide, part, rows, columns, rows)
		return columns
	}
	heads := f.Model.Config().Heads
	size := wide / 3 / heads
	for head := range heads {
		for third := range 3 {
			from, to := (3*head+third)*size, third*heads*size+head*size
			kernels.Transpose(values[to:], wide, part[from*rows:], rows, size, rows)
		}
	}
	return columns
}

// convert reads a tensor of the folder. A value that is not finite is an error.
func (f *Folder) convert(name string, values []float32) error {
	parts, full := f.holder(name)
	if err := parts.Convert(full, values); err != nil {
		return err
	}
	for i, v := range values {
		if !numbers.IsFinite(v) {
			return fmt.Errorf("tensor %s: element %d is %v; expected finite numbers", full, i, v)
		}
	}
	return nil
}

package pretrained_test

import (
	"bytes"
	"io/fs"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/pretrained"
	"coalmine/tasks/pretrained/pretrainedtest"
)

func opened(t *testing.T, files fs.FS) (*pretrained.Folder, *models.Scorer) {
	t.Helper()
	folder := must.Get(pretrained.Open(files, "folder"))(t)
	t.Cleanup(func() { _ = folder.Close() })
	scorer := must.Get(folder.NewScorer())(t)
	return folder, scorer
}

// Log-probabilities are logits up to a constant. The largest difference is 2e-6 nats.
func TestLogitsMatchLibrary(t *testing.T) {
	t.Parallel()
	for _, name := range pretrainedtest.Names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := pretrainedtest.ReferenceOf(t, name)
			folder, scorer := opened(t, pretrainedtest.Folder(t, name, nil))
			state, row, compared := scorer.Start(1), make([]float32, folder.Vocabulary.Size()), 0
			for at, token := range want.Tokens {
				must.Do(t, scorer.Feed(state, []int32{text.FirstWord + token}))
				if compared == len(want.After) || want.After[compared] != at {
					continue
				}
				must.Do(t, scorer.LogProbRows(state, row))
				checkRow(t, row, want.Logits[compared])
				compared++
			}
			if compared != len(want.After) {
				t.Errorf("%d rows of logits were compared, want %d", compared, len(want.After))
			}
		})
	}
}

func checkRow(t *testing.T, row []float32, logits []float64) {
	t.Helper()
	sum := 0.0
	for _, logit := range logits {
		sum += math.Exp(logit)
	}
	for token, logit := range logits {
		if got, want := float64(row[text.FirstWord+token]), logit-math.Log(sum); math.Abs(got-want) > 1e-5 {
			t.Fatalf("log p of token %d is %v, by the library %v", token, got, want)
		}
	}
	for token, logProb := range row[:text.FirstWord] {
		if math.Exp(float64(logProb)) != 0 {
			t.Errorf("a token that the folder does not have, %d, has log p %v", token, logProb)
		}
	}
}

// A text begins with the folder's own token, whose vector text.Begin has.
func TestBeginTokenIsThatOfFolder(t *testing.T) {
	t.Parallel()
	for _, name := range pretrainedtest.Names {
		folder, scorer := opened(t, pretrainedtest.Folder(t, name, nil))
		losses := must.Get(scorer.Losses([][]int32{{text.Begin, 70, 80, folder.End}, {folder.Begin, 70, 80, folder.End}}))(t)
		if losses[0] != losses[1] || losses[0].Tokens != 3 {
			t.Errorf("%s: the losses of a text are %+v after the first token of texts, %+v after that of the folder", name, losses[0], losses[1])
		}
	}
}

// A training begins with the predictions of the folder: the end of a text has the probability of the folder's
// own token, and tokens beyond the tokenizer's are left out.
func TestATrainingBeginsWithThePredictionsOfTheFolder(t *testing.T) {
	t.Parallel()
	for _, name := range pretrainedtest.Names {
		folder, whole := opened(t, pretrainedtest.Folder(t, name, nil))
		model, params, err := folder.Initial()
		if err != nil {
			t.Fatal(err)
		}
		scorer := must.Get(model.NewScorer(params))(t)
		tokens := model.Config().Vocabulary
		if tokens != text.FirstWord+len(folder.Tokenizer.Tokens()) {
			t.Errorf("%s: %d tokens, want those of the tokenizer and the special ones", name, tokens)
		}
		want, got := rowAfter(t, whole, text.Begin, 70, 80), rowAfter(t, scorer, text.Begin, 70, 80)
		left := 0.0
		for _, logProb := range want[tokens:] {
			left += math.Exp(float64(logProb))
		}
		want[text.End], want[folder.End] = want[folder.End], want[text.End]
		for token, logProb := range got {
			own := float64(want[token]) - math.Log1p(-left)
			if math.Exp(own) != 0 && math.Abs(own-float64(logProb)) > 1e-5 || math.Exp(own) == 0 && math.Exp(float64(logProb)) != 0 {
				t.Errorf("%s: log p of token %d is %v, want %v", name, token, logProb, own)
			}
		}
	}
}

// rowAfter has the log-probabilities of all tokens after some.
func rowAfter(t *testing.T, scorer *models.Scorer, tokens ...int32) []float32 {
	t.Helper()
	state, row := scorer.Start(1), make([]float32, scorer.Model().Config().Vocabulary)
	must.Do(t, scorer.Feed(state, tokens))
	must.Do(t, scorer.LogProbRows(state, row))
	return row
}

func TestUnreadableFoldersAreRejectedByName(t *testing.T) {
	t.Parallel()
	replace := func(in, old, new string) func(file string, data []byte) []byte {
		return func(file string, data []byte) []byte {
			if file != in {
				return data
			}
			changed := bytes.Replace(data, []byte(old), []byte(new), 1)
			if bytes.Equal(changed, data) {
				panic("nothing to replace: " + old)
			}
			return changed
		}
	}
	without := func(missing string) func(file string, data []byte) []byte {
		return func(file string, data []byte) []byte {
			if file == missing {
				return nil
			}
			return data
		}
	}
	cut := func(last string) func(file string, data []byte) []byte {
		return func(file string, data []byte) []byte {
			if file == last {
				return data[:len(data)-10]
			}
			return data
		}
	}
	first := func(field string) (in, old, new string) {
		return pretrained.ConfigFile, "{", "{\n " + field + ","
	}
	for _, c := range []struct {
		model string
		edit  func(file string, data []byte) []byte
		want  string
	}{
		{"gpt2", without("config.json"), "expected a folder with config.json, tokenizer.json and model.safetensors"},
		{"gpt2", without("tokenizer.json"), "tokenizer.json: file does not exist; expected the file that tokenizers"},
		{"gpt2", without("model.safetensors"), "has neither model.safetensors nor model.safetensors.index.json"},
		{"llama", without("model-00002-of-00003.safetensors"), "model-00002-of-00003.safetensors: file does not exist; expected each file that model.safetensors.index.json names"},
		{"llama", replace("model.safetensors.index.json", "model-00002-of-00003.safetensors", "../other.safetensors"), "expected a file in the same folder"},
		{"llama", replace("model.safetensors.index.json", "model-00002-of-00003.safetensors", ".."), "expected a file in the same folder"},
		{"llama", replace("model.safetensors.index.json", "weight_map", "weights"), "its weight_map names no file"},
		{"llama-tied", replace("model.safetensors", `"model.layers.0.self_attn.q_proj.weight":`, `"embed_tokens.weight":                   `), `have both "model.embed_tokens.weight" and "embed_tokens.weight"`},
		{"llama", replace("config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 3`), `no tensor "model.layers.2.input_layernorm.weight"`},
		{"llama", replace("config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 1`), `"layers.1.self_attn.o_proj.weight", of a block more than the 1 that config.json describes`},
		{"llama", replace("model-00003-of-00003.safetensors", "layers.0.self_attn.k_proj", "layers.0.self_attn.v_proj"), `tensor "model.layers.0.self_attn.v_proj.weight" is in another file of weights, too`},
		{"llama", replace("config.json", `"intermediate_size": 40`, `"intermediate_size": 41`), "does not make up feed.input [24 82]"},
		{"gpt2", replace("config.json", `"gpt2"`, `"bloom"`), `model_type is "bloom"; expected gpt2, gpt_neox, llama`},
		{"gpt2", replace("config.json", "gelu_new", "relu"), `the activation "relu" is not supported; expected one of gelu,`},
		{"gpt2", replace("config.json", `"scale_attn_by_inverse_layer_idx": false`, `"scale_attn_by_inverse_layer_idx": true`), "scale_attn_by_inverse_layer_idx changes the arithmetic"},
		{"llama", replace("config.json", `"rope_scaling": null`, `"rope_scaling": {"type": "linear", "factor": 2}`), "rope_scaling changes the arithmetic"},
		{"llama", replace(first(`"rope_parameters": {"rope_type": "llama3"}`)), "rope_parameters.rope_type changes the arithmetic"},
		{"llama", replace(first(`"sliding_window": 4096`)), "sliding_window changes the arithmetic"},
		{"llama", replace(first(`"quantization_config": {"bits": 4}`)), "quantization_config changes the arithmetic"},
		{"llama", replace("config.json", `"attention_bias": false`, `"attention_bias": true`), "attention_bias is true"},
		{"llama", replace(first(`"head_dim": 8`)), "head_dim is 8; expected hidden_size/num_attention_heads, 6"},
		{"llama", replace("config.json", `"hidden_size": 24,`, ""), "one of hidden_size"},
		{"gpt-neox", replace("config.json", `"rotary_pct": 0.25`, `"rotary_pct": 0.01`), "rotary_pct is 0.01"},
		{"gpt2", replace("config.json", `"eos_token_id": 486`, `"eos_token_id": 487`), "bos_token_id and eos_token_id are 486 and 487; expected tokens of the model, 0 to 486"},
		{"gpt2", replace("config.json", `"eos_token_id": 486`, `"eos_token_id": null`), "no eos_token_id"},
		{"gpt2", replace("config.json", "{", "["), "config.json: not the expected JSON"},
		{"gpt2", replace("tokenizer.json", `"BPE"`, `"WordPiece"`), `model "WordPiece" is not supported`},
		{"gpt2", replace("tokenizer.json", `"id":486`, `"id":600`), "the model has vectors for 487; expected the model's own tokenizer"},
		{"gpt2", replace("model.safetensors", "F32", "F64"), "not a valid safetensors file"},
		{"gpt2", cut("model.safetensors"), "; copy the file again, because it is incomplete"},
	} {
		_, err := pretrained.Open(pretrainedtest.Folder(t, c.model, c.edit), "models/x")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "models/x") || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one of models/x with %q", err, c.want)
		}
	}
}

func TestNaNWeightsAreRejectedWithFolder(t *testing.T) {
	t.Parallel()
	folder := must.Get(pretrained.Open(pretrainedtest.Folder(t, "gpt2", func(file string, data []byte) []byte {
		if file == "model.safetensors" {
			copy(data[len(data)/2&^3:], "\xff\xff\xff\x7f\xff\xff\xff\x7f")
		}
		return data
	}), "models/x"))(t)
	defer func() { _ = folder.Close() }()
	if _, err := folder.NewScorer(); err == nil || !strings.HasPrefix(err.Error(), "models/x: tensor") || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("error %v", err)
	}
	if _, _, err := folder.Initial(); err == nil || !strings.HasPrefix(err.Error(), "models/x: tensor") || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("error %v of a training", err)
	}
}

// Rotations of newer versions of the library, and defaults of configurations that leave fields out.
func TestConfigurationsOfOtherVersionsMeanTheSame(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][][2]string{
		"llama-tied":          {{`"rope_theta": 500000.0`, `"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}`}},
		"gpt-neox-sequential": {{`"rotary_emb_base": 500`, `"rope_theta": 500`}, {`"rotary_pct": 0.5`, `"partial_rotary_factor": 0.5`}, {`"rope_scaling": null`, `"rope_scaling": {"rope_type": "default"}`}},
		"gpt2":                {{`"layer_norm_epsilon": 1e-05,`, ""}, {`"activation_function": "gelu_new",`, ""}, {`"bos_token_id": 486,`, ""}},
	} {
		folder, _ := opened(t, pretrainedtest.Folder(t, name, nil))
		other, _ := opened(t, pretrainedtest.Folder(t, name, func(file string, data []byte) []byte {
			for _, c := range changes {
				if file == pretrained.ConfigFile {
					data = bytes.Replace(data, []byte(c[0]), []byte(c[1]), 1)
				}
			}
			return data
		}))
		want := folder.Model.Config()
		if name == "gpt2" {
			want.Blocks.Epsilon = 0 // which is 1e-5
		}
		if got := other.Model.Config(); got != want || other.Begin != folder.Begin {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

package subwords_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/subwords"
)

// names are the tokenizers of testdata.
var names = []string{"gpt2", "pythia", "llama3", "o200k", "llama2", "gemma", "t5", "unigram"}

func read(t testing.TB, name string) *subwords.Tokenizer {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name+".json")))(t)
	tokenizer, err := subwords.Parse(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tokenizer
}

func TestTokensMatchLibrary(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := must.Get(os.ReadFile(filepath.Join("testdata", name+".jsonl")))(t)
			encoder := read(t, name).Encoder()
			texts := 0
			for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); texts++ {
				var want struct {
					Text string
					IDs  []uint32
				}
				must.Do(t, json.Unmarshal(lines.Bytes(), &want))
				for range 2 { // the second time from memory
					if got := encoder.Encode(want.Text); !slices.Equal(got, want.IDs) {
						t.Errorf("%q:\ngot  %v %q\nwant %v %q", want.Text, got, texted(encoder, got), want.IDs, texted(encoder, want.IDs))
						break
					}
				}
			}
			if texts < 80 {
				t.Errorf("%d texts; expected 80 or more", texts)
			}
		})
	}
}

func texted(e *subwords.Encoder, ids []uint32) string {
	var out []string
	for _, id := range ids {
		out = append(out, e.Tokens()[id])
	}
	return strings.Join(out, " ")
}

// The texts of tokens of byte-level tokenizers are the text itself.
func TestByteLevelTokensSpellTheText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpt2", "llama3"} {
		encoder := read(t, name).Encoder()
		alphabet := subwords.AlphabetOf(encoder.Tokens())
		if alphabet != subwords.Bytes {
			t.Fatalf("%s: alphabet %d; expected Bytes", name, alphabet)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			text := randomText(rng, 40)
			if got := spelled(encoder, alphabet, text); got != text {
				t.Fatalf("%s: %q is spelled %q", name, text, got)
			}
		}
	}
}

// The texts of tokens with ▁ are the text after a space.
func TestTokensOfCharactersSpellTheText(t *testing.T) {
	t.Parallel()
	encoder := read(t, "llama2").Encoder()
	alphabet := subwords.AlphabetOf(encoder.Tokens())
	if alphabet != subwords.Characters {
		t.Fatalf("alphabet %d; expected Characters", alphabet)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		text := strings.ReplaceAll(randomText(rng, 40), "▁", "_")
		if got := spelled(encoder, alphabet, text); got != " "+text && text != "" {
			t.Fatalf("%q is spelled %q", text, got)
		}
	}
}

func TestWordsHaveNoAlphabet(t *testing.T) {
	t.Parallel()
	if a := subwords.AlphabetOf([]string{"the", "<unk>", "▁", "g"}); a != 0 {
		t.Errorf("alphabet %d; expected none", a)
	}
}

func spelled(e *subwords.Encoder, a subwords.Alphabet, text string) string {
	var tokens []string
	for _, id := range e.Encode(text) {
		tokens = append(tokens, e.Tokens()[id])
	}
	return a.Text(tokens)
}

func randomText(rng *rand.Rand, most int) string {
	alphabet := []rune("abcdefgh THE  ,.'\n\t019éßñÀ▁Ġ中ก\u0301👍\u200d\u00a0\r-")
	text := make([]rune, rng.IntN(most))
	for i := range text {
		text[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(text)
}

func TestUnknownPartsAreRejectedByName(t *testing.T) {
	t.Parallel()
	bpe := `"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`
	growing := `{"type":"Replace","pattern":{"String":"e"},"content":"` + strings.Repeat("e", 50) + `"}`
	for file, want := range map[string]string{
		`{}`:                   "no model",
		`[]`:                   "malformed",
		`{"model`:              "malformed",
		`{"model":"x"}`:        "the model is malformed: its value is of another type (string",
		`{"added_tokens":"x"}`: "its added_tokens is of another type (string",
		`{"model":{"type":"BPE","vocab":{"a":-1}}}`:                                                        "its vocab is of another type (number -1",
		`{"model":{"type":"WordPiece"}}`:                                                                   `model "WordPiece"`,
		`{"model":{"type":"BPE","vocab":{}}}`:                                                              "empty",
		`{"model":{"type":"BPE","vocab":{"a":0,"b":0}}}`:                                                   `"b" have the number 0`,
		`{"model":{"type":"BPE","vocab":{"a":4000000000}}}`:                                                "4000000001 tokens",
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`:                                        "merge 0",
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b c"]}}`:                                      "merge of 3 tokens",
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}}`:                               "dropout",
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"?"}}`:                             `unknown token "?"`,
		`{"model":{"type":"Unigram","vocab":[["a",0]]}}`:                                                   "unk_id",
		`{"model":{"type":"Unigram","unk_id":1,"vocab":[["a",0]]}}`:                                        "unk_id",
		`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}}`:                                          "piece of 1 values",
		`{"model":{"type":"Unigram","unk_id":0,"vocab":[["",1]]}}`:                                         "empty piece",
		`{"normalizer":{"type":"Lowercase"},` + bpe + `}`:                                                  `normalizer "Lowercase"`,
		`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Nmt"}]},` + bpe + `}`:                    `normalizer "Nmt"`,
		`{"normalizer":{"type":"Replace","pattern":{"String":""}},` + bpe + `}`:                            "pattern",
		`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"},` + bpe + `}`:                  "map of characters",
		`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAAEAAD/"},` + bpe + `}`:          "map of characters",
		`{"normalizer":{"type":"Sequence","normalizers":[` + growing + `,` + growing + `]},` + bpe + `}`:   "2.5e+03 bytes of one",
		`{"pre_tokenizer":{"type":"BertPreTokenizer"},` + bpe + `}`:                                        `pre-tokenizer "BertPreTokenizer"`,
		`{"pre_tokenizer":{"type":"Metaspace","replacement":"ab"},` + bpe + `}`:                            `"ab"`,
		`{"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"last"},` + bpe + `}`:     `"last"`,
		`{"pre_tokenizer":{"type":"Split","behavior":"Cut","pattern":{"String":" "}},` + bpe + `}`:         `"Cut"`,
		`{"pre_tokenizer":{"type":"Split","behavior":"Removed","pattern":{"Regex":"\\w+"}},` + bpe + `}`:   `\w`,
		`{"pre_tokenizer":{"type":"Split","behavior":"Removed","pattern":{"Regex":"a(?=b)"}},` + bpe + `}`: "regular expression",
		`{"pre_tokenizer":{"type":"Split","behavior":"Removed","pattern":{"Regex":"a*"}},` + bpe + `}`:     "empty text",
		`{"pre_tokenizer":{"type":"Split","behavior":"Removed","pattern":{"Regex":"^a"}},` + bpe + `}`:     "regular expression",
		`{"added_tokens":[{"id":3,"content":"x","single_word":true}],` + bpe + `}`:                         "single word",
		`{"added_tokens":[{"id":3,"content":"a"}],` + bpe + `}`:                                            `"a" has number 3`,
		`{"added_tokens":[{"id":1,"content":"x"}],` + bpe + `}`:                                            `"x" has number 1`,
		`{"added_tokens":[{"id":9000000,"content":"x"}],` + bpe + `}`:                                      "9000001 tokens",
	} {
		if _, err := subwords.Parse([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; expected one with %q", file, err, want)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error of several lines: %q", file, err)
		} else if strings.Contains(err.Error(), " Go ") {
			t.Errorf("%s: error with a type of Go: %q", file, err)
		}
	}
}

// joinNaively is byte pair encoding as Sennrich et al. write it: the whole piece is searched
// for the first merge, again and again.
func joinNaively(symbols []string, ranks map[[2]string]int) []string {
	for {
		best, at := len(ranks), -1
		for i := range len(symbols) - 1 {
			if rank, ok := ranks[[2]string{symbols[i], symbols[i+1]}]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols = slices.Replace(symbols, at, at+2, symbols[at]+symbols[at+1])
	}
}

func TestMergesAreJoinedInTheirOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		vocabulary, ranks := map[string]int{"a": 0, "b": 1, "c": 2}, map[[2]string]int{}
		known, merges := []string{"a", "b", "c"}, [][2]string{}
		for len(merges) < 12 {
			pair := [2]string{known[rng.IntN(len(known))], known[rng.IntN(len(known))]}
			joined := pair[0] + pair[1]
			if _, ok := vocabulary[joined]; ok {
				continue
			}
			vocabulary[joined], ranks[pair] = len(vocabulary), len(merges)
			known, merges = append(known, joined), append(merges, pair)
		}
		data := must.Get(json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": vocabulary, "merges": merges}}))(t)
		tokenizer := must.Get(subwords.Parse(data))(t)
		symbols := make([]string, rng.IntN(40))
		for i := range symbols {
			symbols[i] = string(rune('a' + rng.IntN(3)))
		}
		encoder, text := tokenizer.Encoder(), strings.Join(symbols, "")
		got, want := texted(encoder, encoder.Encode(text)), strings.Join(joinNaively(symbols, ranks), " ")
		if got != want {
			t.Fatalf("%s of merges %v: got %s, want %s", text, merges, got, want)
		}
	}
}

// bestScore is the greatest sum of scores of pieces that spell a text, over all ways.
func bestScore(text string, scores map[string]float64) float64 {
	if text == "" {
		return 0
	}
	best := math.Inf(-1)
	for n := 1; n <= len(text); n++ {
		if score, ok := scores[text[:n]]; ok {
			best = max(best, score+bestScore(text[n:], scores))
		}
	}
	return best
}

func TestPiecesAreTheMostProbableOnes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		scores, vocabulary := map[string]float64{}, [][2]any{{"?", -20.0}}
		for _, piece := range []string{"a", "b", "ab", "ba", "aa", "aba", "bab", "abba"} {
			scores[piece] = -10 * rng.Float64()
			vocabulary = append(vocabulary, [2]any{piece, scores[piece]})
		}
		data := must.Get(json.Marshal(map[string]any{"model": map[string]any{"type": "Unigram", "unk_id": 0, "vocab": vocabulary}}))(t)
		tokenizer := must.Get(subwords.Parse(data))(t)
		text := make([]byte, 1+rng.IntN(12))
		for i := range text {
			text[i] = byte('a' + rng.IntN(2))
		}
		got, encoder, joined := 0.0, tokenizer.Encoder(), ""
		for _, id := range encoder.Encode(string(text)) {
			got, joined = got+scores[encoder.Tokens()[id]], joined+encoder.Tokens()[id]
		}
		if want := bestScore(string(text), scores); joined != string(text) || math.Abs(got-want) > 1e-9 {
			t.Fatalf("%s: pieces %s with score %g; expected %g", text, joined, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	const text = "To be, <s> or\nnot  to be 123 é中\x00\xff"
	bpe, unigram := `"model":{"type":"BPE","byte_fallback":true,"fuse_unk":true,"unk_token":"?","vocab":{"?":0,"a":1,"b":2,"ab":3,"Ġb":4},"merges":["a b",["a","b"]]}`, `"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["?",0],["▁o",-1],["r",-2],["▁",-3]]}`
	for _, file := range []string{
		`{"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},` + bpe + `}`,
		`{"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}| ?[^\\s\\p{L}]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":true},` + bpe + `}`,
		`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"},{"type":"Strip","strip_left":true}]},` + unigram + `}`,
		`{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Digits","individual_digits":true},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}]},` + unigram + `}`,
		`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"CAAAAAH/////AAAAYQBi"},` + unigram + `}`,
		`{"added_tokens":[{"id":5,"content":"<s>","lstrip":true,"rstrip":true},{"id":6,"content":"to","normalized":true}],` + bpe + `}`,
	} {
		f.Add([]byte(file), text)
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tokenizer, err := subwords.Parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		for _, id := range tokenizer.Encoder().Encode(text) {
			if int(id) >= len(tokenizer.Tokens()) {
				t.Errorf("token %d of %d", id, len(tokenizer.Tokens()))
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	text := strings.Repeat("What say you to the people of this city, who'd have 40 more? ", 20)
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			encoder := read(b, name).Encoder()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				encoder.Encode(text)
			}
		})
	}
}

// Listed words, in any order, are one token each.
func TestWordsDoNotMerge(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		tokenizer := read(t, name)
		words, err := tokenizer.Words()
		if err != nil || len(words) < 20 {
			t.Fatalf("%s: %d words, error %v; expected 20 or more", name, len(words), err)
		}
		encoder, alphabet := tokenizer.Encoder(), subwords.AlphabetOf(tokenizer.Tokens())
		rng := rand.New(rand.NewPCG(7, 8))
		for range 300 {
			var text, want []string
			for range 1 + rng.IntN(8) {
				word := words[rng.IntN(len(words))]
				if !tokenizer.HasWord(word) {
					t.Fatalf("%s: %q is listed and is no word", name, word)
				}
				text, want = append(text, word), append(want, alphabet.Word(word))
			}
			joined := strings.Join(text, " ")
			got, spaced := texted(encoder, encoder.Encode(joined)), texted(encoder, encoder.Encode(" "+joined))
			if w := strings.Join(want, " "); got != w && spaced != w {
				t.Fatalf("%s: %q is %s, with a space before %s; expected %s", name, joined, got, spaced, w)
			}
		}
		if tokenizer.HasWord("antidisestablishmentarianism") {
			t.Errorf("%s: a long word is one token", name)
		}
	}
}

func TestWordsRejectsTokenAcrossWords(t *testing.T) {
	t.Parallel()
	tokenizer := must.Get(subwords.Parse([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["?",0],["▁of",-1],["▁the",-1],["▁of▁the",-1]]}}`)))(t)
	_, err := tokenizer.Words()
	must.Say(t, err, "▁of▁the")
}

func TestNamesAreDifferentAndHaveNoSpaces(t *testing.T) {
	t.Parallel()
	odd := must.Get(subwords.Parse([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["?",0],["▁of",-1],["<token-3>",-1],["a\nb",-1],["<unk>",-1]]}}`)))(t)
	if got, want := odd.Names([]string{"<unk>"}), []string{"?", "▁of", "<token-3>", "<<token-3>>", "<token-4>"}; !slices.Equal(got, want) {
		t.Errorf("names %q; expected %q", got, want)
	}
	for _, name := range names {
		tokenizer := read(t, name)
		seen := map[string]bool{}
		for id, n := range tokenizer.Names([]string{"<unk>"}) {
			if n == "" || n == "<unk>" || seen[n] || strings.ContainsAny(n, " \n") {
				t.Errorf("%s: token %d is called %q", name, id, n)
			}
			seen[n] = true
		}
	}
}

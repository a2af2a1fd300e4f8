package external

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/childprocess"
	"coalmine/internal/must"
	"coalmine/internal/score"
	"coalmine/storage/safetensors"
)

func TestNamedFilesOfCommandLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"python3 s.py out/model --from=out/a.bin":       {"out/model", "out/a.bin"},
		`sh -c "cat 'out/model' ./out/sub/x"`:           {"out/model", "out/sub/x"},
		"A=out/a ./score <out/b | tee out/c; x out/d/":  {"out/a", "out/b", "out/c", "out/d"},
		"s out/$NAME out/*.pt out/{a,b} /out/x out":     nil,
		"s timeout/x about/out/y >out/log 2>> out/log2": nil,
		"out/score": {"out/score"},
	} {
		if got := namedFiles(line); !slices.Equal(got, want) {
			t.Errorf("%s names %q, want %q", line, got, want)
		}
	}
}

func TestSafetensorsFilesAreValidated(t *testing.T) {
	t.Parallel()
	valid := must.Get(safetensors.Marshal([]safetensors.Tensor{{Name: "w", Shape: []int{2}, Float32: []float32{1, 2}}}, nil))(t)
	for name, c := range map[string]struct {
		content []byte
		broken  bool
	}{
		"model.safetensors":   {valid, false},
		"sub/w.safetensors":   {[]byte("not at all a model"), true},
		"half.safetensors":    {valid[:len(valid)-3], true},
		"empty.safetensors":   {nil, true},
		"text.pt":             {[]byte("whatever it is"), false},
		"longest.safetensors": {[]byte("\xff\xff\xff\xff\xff\xff\xff\x7f{}"), true},
	} {
		w := must.Get(childprocess.NewWorkspace())(t)
		t.Cleanup(func() { w.Remove() })
		must.Do(t, w.Put(outFolder+"/"+name, c.content))
		files := must.Get(w.List(outFolder))(t)
		err := (&training{workspace: w}).checkTensors(files)
		if (err != nil) != c.broken || c.broken && !strings.Contains(err.Error(), "out/"+name+" is named as a safetensors file and is none") {
			t.Errorf("%s: %v, broken: %t", name, err, c.broken)
		}
	}
}

func TestConstantScoresAreReported(t *testing.T) {
	t.Parallel()
	texts := func(n int, text func(i int) string) (pairs []score.Pair) {
		for i := range n {
			pairs = append(pairs, score.Pair{Continuation: text(i)})
		}
		return pairs
	}
	different := func(i int) string { return strings.Repeat("a", 1+i) }
	constant, answers := make([]score.Answer, fewAlike), make([]score.Answer, fewAlike)
	answers[fewAlike-1].LogProb = -1
	for name, c := range map[string]struct {
		pairs   []score.Pair
		answers []score.Answer
		want    bool
	}{
		"a constant":    {texts(fewAlike, different), constant, true},
		"one differs":   {texts(fewAlike, different), answers, false},
		"few":           {texts(fewAlike-1, different), constant[1:], false},
		"the same text": {texts(fewAlike, func(int) string { return "a" }), constant, false},
	} {
		var whole, parts constancy
		n := 0
		for i := range c.pairs { // one at a time, as in small batches
			n = parts.add(c.pairs[i:i+1], c.answers[i:i+1])
		}
		if got := whole.add(c.pairs, c.answers); got != n || (got >= fewAlike) != c.want {
			t.Errorf("%s: %d alike at once, %d one by one; too many: want %t", name, got, n, c.want)
		}
	}
}

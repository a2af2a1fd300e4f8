package datasets

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets/faults"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// marked is a source of texts with characters that CurrentRules drop and FirstRules keep.
var marked = jsonLines([]line{
	{"ann", "I \u2764\ufe0f the sea, lo\ufe0fve it"}, {"bob", "1\ufe0f,5 \u115fa boats"}, {"ann", "\ufe0f"}, {"bob", "\ufe0f\ufe0fabcd"},
})

// turned is a PNG file of 3 x 2 pixels with an EXIF orientation, in base64.
func turned(orientation int) string {
	return "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAAAAAC4HznGAAAAJmVYSWZNTQAqAAAACAACAQAAAwAAAAEABwAAARIAAwAAAAEA" +
		map[int]string{1: "AQAAAAAAANCtk3I", 2: "AgAAAAAAAOFFie8", 3: "AwAAAAAAAEcygls", 6: "BgAAAAAAABUKrfw"}[orientation] +
		"AAAAUSURBVHicYuHi4mKR4+ICBAAA//8BZABZBD/cHAAAAABJRU5ErkJggg=="
}

// upended is a source of images, of which one is to be turned and one is to be mirrored.
func upended() []byte {
	var out strings.Builder
	for _, o := range []int{1, 3, 2} {
		fmt.Fprintf(&out, "{\"user\":\"ann\",\"label\":%d,\"image\":%q}\n", o, turned(o))
	}
	return []byte(out.String())
}

var upendedShape = images.Shape{Width: 3, Height: 2, Channels: 1, Classes: 10}

// The digests are of the outputs of the import before there were CurrentRules.
func TestImportWithoutRulesKeepsDigests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data   []byte
		params ImportParams
		want   string
	}{
		"texts":            {marked, ImportParams{}, "4174ef2733f1c84594ab320420431971044aafddcc82d4c78068e25118558983"},
		"bytes, truncated": {marked, ImportParams{Reading: source.Reading{Level: text.ByteLevel}, Params: faults.Params{Faults: []faults.Planted{{Fault: faults.Truncate, Examples: 1, Length: 3}}}}, "0a43acfb4623a692ed41c5e0ec93e776e511ad0c7aeb2836553a4e0526397863"},
		"images":           {upended(), ImportParams{Reading: source.Reading{Level: text.ImageLevel, Image: upendedShape}}, "cfdd238da2b8d410f7c0d0ac29d5f77b80a80c1cc76f1f3e10a037493dd6d1c2"},
	} {
		g := taskstest.NewGraph(t)
		c.params.Sources = []storage.Digest{g.Import(c.data)}
		if got := g.Run(Import, c.params).Digest().String(); got != c.want {
			t.Errorf("%s: digest %s, want %s", name, got, c.want)
		}
	}
}

// markedLines makes random texts with the characters that the rules differ in, where words begin,
// end and are joined.
func markedLines(rng *rand.Rand) []line {
	pieces := []string{"a", "Bo", "don", "'", "1", ",", ".", " ", "\u2764", "\u00ad", "\ufe0f", "\u034f", "\u3164", "\U000e0100"}
	plain := len(pieces) - 4
	lines := make([]line, 1+rng.IntN(4))
	for i := range lines {
		var text strings.Builder
		for range rng.IntN(9) {
			n := plain
			if rng.IntN(3) == 0 {
				n = len(pieces)
			}
			text.WriteString(pieces[rng.IntN(n)])
		}
		lines[i] = line{fmt.Sprint("user ", rng.IntN(2)), text.String()}
	}
	return lines
}

func randomReading(rng *rand.Rand) (source.Reading, []faults.Planted) {
	r := source.Reading{Sequence: 1 + rng.IntN(4), Origin: source.Origin{SkipFaults: true}}
	if rng.IntN(3) == 0 {
		r.Level = text.ByteLevel
	}
	if rng.IntN(3) > 0 {
		return r, nil
	}
	planted := []faults.Planted{{Fault: faults.Truncate, Examples: 0.5, Length: 1 + rng.IntN(4)}}
	if r.Level.IsZero() {
		planted = append(planted, faults.Planted{Fault: faults.JoinWords, Users: 0.5})
	}
	return r, planted
}

// byRules imports a source by two versions of the rules; false if it has no records.
func byRules(t *testing.T, data []byte, p ImportParams) (first, current storage.Digest, ok bool) {
	t.Helper()
	g := taskstest.NewGraph(t)
	p.Sources = []storage.Digest{g.Import(data)}
	var digests [text.CurrentRules + 1]storage.Digest
	for rules := text.FirstRules; rules <= text.CurrentRules; rules++ {
		p.Rules = rules
		node, err := g.Try(Import, p)
		if fault, wrong := errors.AsType[*source.Error](err); wrong && (strings.Contains(fault.Error(), "holds no records") || strings.Contains(fault.Error(), "all records")) {
			return first, current, false
		}
		must.Do(t, err)
		digests[rules] = node.Digest()
	}
	return digests[text.FirstRules], digests[text.CurrentRules], true
}

func TestASurveyAsksForTheRulesThatChangeAnImport(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 2))
	var seen [2]int
	for i := range 1000 {
		data := jsonLines(markedLines(rng))
		r, faults := randomReading(rng)
		recipe := Recipe{Seed: 7, Reading: r, Faults: faults}
		if r.Level.IsZero() {
			recipe.VocabularySize = 1
		}
		first, current, ok := byRules(t, data, recipe.Import(nil, source.Limits{}))
		if !ok {
			continue
		}
		differs := first != current
		if clean, elsewhere := recipe.Vocabulary(); elsewhere && !differs {
			first, current, _ := byRules(t, data, clean.Import(nil, source.Limits{}))
			differs = first != current
		}
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, []Recipe{recipe}))(t)
		if got := facts[0].Rules == text.CurrentRules; got != differs {
			t.Errorf("source %d, %s, %+v: the survey says rules %d, and the imports differ: %t", i, data, recipe, facts[0].Rules, differs)
		}
		if differs {
			seen[1]++
		} else {
			seen[0]++
		}
	}
	if slices.Min(seen[:]) < 100 {
		t.Errorf("%d sources that all rules read alike, %d others; expected 100 of each", seen[0], seen[1])
	}
}

func TestASurveyAsksForTheRulesThatTurnImages(t *testing.T) {
	t.Parallel()
	shape := func(unlabelled bool, skip bool, m images.Shape) Recipe {
		return Recipe{Reading: source.Reading{Level: text.ImageLevel, Image: m, Unlabelled: unlabelled, Origin: source.Origin{SkipFaults: skip}}}
	}
	narrow := images.Shape{Width: 2, Height: 3, Channels: 1, Classes: 10}
	lines := strings.SplitAfter(string(upended()), "\n")
	sideways := fmt.Sprintf("{\"user\":\"ann\",\"label\":1,\"image\":%q}\n", turned(6))
	for name, c := range map[string]struct {
		data   string
		recipe Recipe
		want   text.Rules
	}{
		"upright":              {lines[0], shape(false, false, upendedShape), 0},
		"upside down":          {lines[0] + lines[1], shape(false, false, upendedShape), text.CurrentRules},
		"mirrored":             {lines[2], shape(true, false, upendedShape), text.CurrentRules},
		"sideways":             {sideways, shape(false, true, narrow), text.CurrentRules},
		"sideways, left out":   {lines[0] + sideways, shape(false, true, upendedShape), text.CurrentRules},
		"of other size anyway": {lines[0] + lines[1], shape(false, true, images.Shape{Width: 3, Height: 2, Channels: 3, Classes: 2}), 0},
	} {
		facts, err := Survey(t.Context(), []source.File{fileOf("data", []byte(c.data))}, source.Limits{}, []Recipe{c.recipe})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if facts[0].Rules != c.want {
			t.Errorf("%s: rules %d, want %d", name, facts[0].Rules, c.want)
		}
		if first, current, ok := byRules(t, []byte(c.data), c.recipe.Import(nil, source.Limits{})); err == nil && ok && (first != current) != (c.want != 0) {
			t.Errorf("%s: the imports differ: %t", name, first != current)
		}
	}
}

// A reading by the first rules is surveyed as it is imported.
func TestASurveyByTheFirstRulesCountsTheirWords(t *testing.T) {
	t.Parallel()
	for rules, words := range map[text.Rules]int{text.FirstRules: 12, text.CurrentRules: 10} {
		data := jsonLines([]line{{"ann", "I \u2764\ufe0f the sea"}, {"bob", "one two three four five\u3164 \ufe0f six"}})
		r := Recipe{Reading: source.Reading{Rules: rules}, VocabularySize: 1}
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("data", data)}, source.Limits{}, []Recipe{r}))(t)
		var m ImportMetrics
		g := taskstest.NewGraph(t)
		g.Run(Import, r.Import([]storage.Digest{g.Import(data)}, source.Limits{})).DecodeMetrics(&m)
		if got := facts[0].Source; got.Words != m.Words || got.DistinctWords != m.DistinctWords || m.Words != words {
			t.Errorf("rules %d: surveyed %+v, imported %+v, want %d words", rules, got, m, words)
		}
	}
}

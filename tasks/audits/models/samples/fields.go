package samples

import (
	"fmt"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/text"
)

type Fields struct {
	// Samples: words out of vocabulary by position; at the byte level the most probable words, and words
	// with a space.
	Samples *Block `json:"samples,omitempty"`
}

type Block struct {
	// Samples to draw.
	Count int `json:"count" default:"10000" range:"[1,1000000]" unit:"samples" source:"Augenstein et al. 2020, figure 4"`
	// Length at which a sample is cut, its end included, by default 10, at the byte level 32.
	Length int `json:"length" range:"[2,1001]" unit:"words (byte level: bytes)" source:"Augenstein et al. 2020, table 7"`
	// Temperature that logits are divided by before the softmax.
	Temperature float64 `json:"temperature" default:"1" range:"(0,1000]" source:"Augenstein et al. 2020, equation 1"`
	// Most probable tokens that are drawn from. Absent: all.
	TopK *int `json:"top_k,omitempty" range:"[1,1000000]" unit:"tokens"`
	// Samples and most probable sequences in the results.
	Shown int `json:"shown" default:"20" range:"[0,1000]" unit:"samples" source:"Augenstein et al. 2020, table 8"`
	// Probability of a false alarm of a test of the samples.
	Significance numbers.Probability `json:"significance" default:"0.1%" range:"(0,1)"`
	// Nodes of a search for the most probable sequences, by default 0 (none), at the byte level 100000.
	Expansions int `json:"expansions" range:"[0,10000000]" unit:"nodes"`
	// Memory of that search.
	Memory int `json:"memory" default:"256" range:"[1,1000000]" unit:"MiB"`
}

const path = "audit.samples"

// Defaults by level.
const (
	sentenceLength = 10
	wordLength     = 32
	byteExpansions = 100_000
)

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	length, expansions := sentenceLength, 0
	if s.Reading.Level == text.ByteLevel {
		length, expansions = wordLength, byteExpansions
	}
	if !given(path + ".length") {
		f.Samples.Length = length
	}
	if !given(path + ".expansions") {
		f.Samples.Expansions = expansions
	}
}

func (f *Fields) Check(_ *audits.Setting, fail audits.Fail) {
	b := f.Samples
	fail.If(b.Expansions > 0 && b.Shown == 0, []string{path + ".expansions", path + ".shown"}, "is %d, but with %s.shown 0 there is nothing to search for; set it to 0, or list some", b.Expansions, path)
}

// samplesATask is the number of samples per task: a few seconds' work with the paper's model of words. It
// affects keys, not results.
const samplesATask = 5000

// searchBatch is the number of nodes that are expanded together.
const searchBatch = 64

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p, seed := f.Samples, b.Setting().Seed
	model := tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}
	inputs := []tasks.Input{model, {Name: datasets.PartsInput, Key: b.Parts()}}
	spans := audits.Split(p.Count, samplesATask)
	for i, span := range spans {
		part := b.Node(Kind, fmt.Sprintf("samples from %d on after %d", span.First, round),
			Params{Seed: seed, First: span.First, Count: span.Count, Length: p.Length, Sampling: p.sampling()}, model)
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(i), Key: part})
	}
	if p.Expansions > 0 {
		found := b.Node(Search, fmt.Sprintf("most probable sequences after %d", round), p.search(), model)
		inputs = append(inputs, tasks.Input{Name: SearchInput, Key: found})
	}
	return b.Node(Summary, fmt.Sprintf("what samples are like after %d", round), SummaryParams{
		Seed: seed, Parts: len(spans), Count: p.Count, Length: p.Length, Sampling: p.sampling(), Shown: p.Shown,
		Significance: p.Significance.Float64(), Searched: p.Expansions > 0,
	}, inputs...)
}

func (b *Block) sampling() models.Sampling {
	s := models.Sampling{Temperature: b.Temperature}
	if b.TopK != nil {
		s.TopK = *b.TopK
	}
	return s
}

func (b *Block) search() SearchParams {
	return SearchParams{
		Length: b.Length, Expansions: b.Expansions,
		Settings: search.Settings{Batch: searchBatch, Results: b.Shown, Prove: b.Shown, Memory: int64(b.Memory) << 20},
	}
}

// States is an upper bound: samples with a common beginning share states.
func (f *Fields) States(*audits.Setting) float64 {
	b := f.Samples
	return float64(b.Count)*float64(b.Length) + float64(b.Expansions)
}

var limits = []audits.Limit{
	audits.LimitOf[numbers.Probability]{
		Name: "samples_out_of_vocabulary", Range: "(0,1)",
		Doc: "Share of words out of vocabulary at each position, by an exact binomial test at audit.samples.significance over all positions.",
		Breaches: audits.Judged("samples_out_of_vocabulary", func(v *Outcome, limit numbers.Probability) (breaches []string) {
			if v.Unknown == nil || v.Unknown.first().Of == 0 {
				return audits.NoValue("samples_out_of_vocabulary", "no sample has words")
			}
			for i, share := range v.Unknown.Positions {
				if share.Of == 0 {
					continue // no sample is so long
				}
				breaches = append(breaches, audits.AboveSignificantly("samples_out_of_vocabulary", fmt.Sprintf(" at position %d", i+1), share, limit, v.Significance/float64(len(v.Unknown.Positions)))...)
			}
			return breaches
		}),
		Check: func(s *audits.Setting, _ numbers.Probability, fail audits.Fail) {
			fail.If(s.Reading.Level == text.ByteLevel, []string{"audit.fail_if.samples_out_of_vocabulary", "data.level"}, "limits words out of vocabulary, and at the byte level nothing is; remove it, or set data.level: word")
		},
		FalseAlarms: falseAlarms("samples_out_of_vocabulary"),
	}.Limit(),
	audits.LimitOf[numbers.Probability]{
		Name: "samples_with_space", Range: "(0,1)",
		Doc: "Share of samples with a space, by an exact binomial test at audit.samples.significance. Byte level only.",
		Breaches: audits.Judged("samples_with_space", func(v *Outcome, limit numbers.Probability) []string {
			if v.Spaces == nil {
				return audits.NoValue("samples_with_space", "no sample is of bytes")
			}
			return audits.AboveSignificantly("samples_with_space", "", v.Spaces.Samples, limit, v.Significance)
		}),
		Check: func(s *audits.Setting, _ numbers.Probability, fail audits.Fail) {
			fail.If(s.Reading.Level != text.ByteLevel, []string{"audit.fail_if.samples_with_space", "data.level"}, "limits spaces in samples, which the %s level has none of; remove it, or set data.level: byte", s.Reading.Level)
		},
		FalseAlarms: falseAlarms("samples_with_space"),
	}.Limit(),
}

func falseAlarms(name string) func(*audits.Setting, numbers.Probability) []audits.FalseAlarm {
	return audits.Alarms(func(f *Fields, _ *audits.Setting, limit numbers.Probability) []audits.FalseAlarm {
		return audits.SignificanceAlarms(name, limit, f.Samples.Count, "samples", f.Samples.Significance)
	})
}

package natural

import (
	"fmt"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:        "natural",
	Limits:      limits,
	Power:       audits.Powered(power),
	Kinds:       []tasks.Kind{Scan, Kind, Summary},
	OutcomeBlob: audits.OutcomeBlob,
	Measures:    measures,
})

var measures = []audits.Measure{
	{Name: "natural_found", Of: audits.Of(func(v *Outcome) int { return v.Found }), Header: "natural secrets", Scale: audits.Plain, Doc: "different natural secrets in the training text: card numbers, mail addresses and the like"},
	{Name: "natural_occurrences", Of: audits.Of(func(v *Outcome) int { return v.Occurrences }), Doc: "places of natural secrets in the training text"},
	{
		Name: "natural_highest_exposure", Of: audits.Of(func(v *Outcome) *float64 { return v.Highest }), Header: "highest bits", Scale: audits.Plain, Digits: 1,
		Curve: &audits.Curve{Figure: exposure.HighestFigure, Name: "natural secrets"},
		Doc:   "highest exposure of a natural secret among others of its form, in bits",
	},
	{Name: "canaries_in_data", Of: audits.Of(func(v *Outcome) int { return len(v.CanariesInData) }), Doc: "canaries that the original text contains by itself, so that their exposure does not measure insertions"},
}

type Fields struct {
	// Finds natural secrets of the training text, and ranks each among others of its form. Byte
	// level only.
	Natural *Block `json:"natural,omitempty"`
}

type Block struct {
	// Named patterns to find. One or a list; by default all, unless own is given.
	Patterns []filters.Pattern `json:"patterns,omitempty" source:"Carlini et al. 2019, section 9.2"`
	// Regular expressions (RE2) to find.
	Own []string `json:"own,omitempty"`
	// Sequences of its form that a secret is ranked among.
	References int `json:"references" default:"10000" range:"[1,100000000]" unit:"sequences"`
	// Maximum number of secrets to rank, the most frequent first. All secrets are counted.
	Most int `json:"most" default:"100" range:"[1,100000]" unit:"secrets"`
	// Nodes of a shortest-path search for each ranked secret, over all texts of its form after its
	// context. Absent: no search.
	Search int `json:"search,omitempty" range:"[1,1000000000]" unit:"nodes" source:"Carlini et al. 2019, section 8.4"`
	// Results have the secrets and their contexts.
	Show bool `json:"show" default:"false"`
}

const path = "audit.natural"

func (f *Fields) Complete(*audits.Setting, func(path string) bool) {
	if b := f.Natural; len(b.Patterns) == 0 && len(b.Own) == 0 {
		for _, pattern := range filters.Definitions() {
			b.Patterns = append(b.Patterns, pattern.Pattern)
		}
	}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	fail.If(s.Reading.Level != text.ByteLevel, []string{path, "data.level"}, "looks for secrets byte by byte, and at the %s level a number is one word, most of them unknown ones; set data.level: byte, or remove %s", s.Reading.Level, path)
	if _, err := filters.NewPatterns(f.Natural.Patterns, f.Natural.Own); err != nil {
		fail([]string{path + ".patterns", path + ".own"}, "cannot be looked for: %v", err)
	}
}

// shares is the number of tasks that rank the findings. Their number is unknown in the plan. shares affects
// keys, not results.
const shares = 4

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	s, n := b.Setting(), f.Natural
	findings := b.Node(Scan, "natural secrets of the training text", ScanParams{Patterns: n.Patterns, Own: n.Own, MaxFindings: n.Most},
		tasks.Input{Name: population.Input, Key: b.Population()}, tasks.Input{Name: population.ShardsInput, Key: b.Shards()})
	inputs := []tasks.Input{{Name: FindingsInput, Key: findings}}
	for share := range shares {
		part := b.Node(Kind, fmt.Sprintf("natural secrets, share %d of %d after %d", share+1, shares, round),
			Params{Seed: s.Seed, References: n.References, Search: n.Search, Share: share, Shares: shares},
			tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: FindingsInput, Key: findings})
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(share), Key: part})
	}
	return b.Node(Summary, fmt.Sprintf("natural secrets after %d", round), SummaryParams{Shares: shares, Show: n.Show}, inputs...)
}

// Wanted returns the patterns that the audit looks for.
func (b *Block) Wanted() filters.Wanted { return filters.Wanted{Named: b.Patterns, Own: b.Own} }

// ranked returns an upper bound on the number of ranked secrets: the source has at least as many secrets as
// the training text.
func (b *Block) ranked(s *audits.Setting) int {
	if s.Data == nil || s.Data.Secrets == nil {
		return b.Most
	}
	return min(b.Most, *s.Data.Secrets)
}

// States implements audits.Scorer: an upper bound, for secrets of about a dozen bytes.
func (f *Fields) States(s *audits.Setting) float64 {
	const bytes = 12
	return float64(f.Natural.ranked(s)) * (float64(f.Natural.References)*bytes/10 + float64(f.Natural.Search))
}

var limits = []audits.Limit{
	audits.LimitOf[float64]{
		Name: "natural_exposure", Doc: "Highest exposure of a natural secret.",
		Range: "[0,64]", Unit: "bits", Source: "Carlini et al. 2019, section 4",
		Breaches: audits.Judged("natural_exposure", func(v *Outcome, limit float64) []string {
			switch {
			case v.Found == 0:
				return nil // see Unjudged: there is nothing to memorize
			case v.Highest == nil:
				return audits.NoValue("natural_exposure", "no natural secret was ranked")
			}
			return audits.AboveLimit("natural_exposure", *v.Highest, limit)
		}),
		Unjudged: audits.NotJudged(func(v *Outcome, _ float64) []string {
			if v.Found > 0 {
				return nil
			}
			return []string{"natural_exposure, because the training text has no natural secret"}
		}),
		Check: checkExposure, FalseAlarms: audits.Alarms(exposureAlarms),
	}.Limit(),
	audits.LimitOf[int]{
		Name: "natural_found", Doc: "Different natural secrets in the training text.",
		Range: "[0,1000000000]", Unit: "secrets",
		Breaches: audits.Judged("natural_found", func(v *Outcome, limit int) []string { return audits.AboveLimit("natural_found", v.Found, limit) }),
	}.Limit(),
}

func checkExposure(s *audits.Setting, limit float64, fail audits.Fail) {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return
	}
	r := exposure.OfReferences(f.Natural.References, path+".references")
	r.Check("natural_exposure", "secret", limit, fail)
}

// asLikely is the condition of a false alarm.
const asLikely = "if nothing is memorized, and natural secrets are as likely as any others of their form"

func exposureAlarms(f *Fields, s *audits.Setting, limit float64) []audits.FalseAlarm {
	n := f.Natural.ranked(s)
	return []audits.FalseAlarm{{
		Limit: "natural_exposure", Allowed: limit, Trials: n, Unit: "secrets at most", Where: asLikely, Probability: exposure.ByChance(n, limit),
	}}
}

// Outcome holds the secrets of the training text and their exposures.
type Outcome struct {
	// Found is the number of different secrets, Occurrences the number of their places in the training text.
	Found       int `json:"found" doc:"number of different secrets in the training text"`
	Occurrences int `json:"occurrences" doc:"number of places of secrets in the training text"`
	// Highest is the highest exposure of a ranked secret, in bits; nil if none was ranked.
	Highest *float64 `json:"highest_exposure,omitempty" doc:"highest exposure of a ranked secret, in bits"`
	// Extracted is the number of ranked secrets that a search proved to be the most likely of their form;
	// absent without a search.
	Extracted *int `json:"extracted,omitempty" doc:"number of ranked secrets that a search proved to be the most likely of their form"`
	// CanariesInData are the numbers of canaries that are in the original text: their exposure does not
	// measure insertions.
	CanariesInData []int `json:"canaries_in_data,omitempty" doc:"numbers of canaries that the original text contains"`
	// Secrets are the ranked ones, the most frequent first.
	Secrets []Secret `json:"secrets"`
}

// Secret is a ranked secret.
type Secret struct {
	Pattern string `json:"pattern"`
	// Users is the number of users with the secret, Occurrences the number of its places.
	Users       int `json:"users" doc:"number of users with the secret"`
	Occurrences int `json:"occurrences" doc:"number of its places in the training text"`
	// Sequences is the size of the space of its form. References is the number of references, fewer than
	// requested in a small space. If it is 0, the fields below are null.
	Sequences  float64  `json:"sequences" doc:"number of sequences of its form"`
	References int      `json:"references" doc:"number of references"`
	Rank       *int64   `json:"rank" doc:"rank among the references"`
	Exposure   *float64 `json:"exposure" doc:"exposure in bits"`
	// ExposureSE is the standard error of an estimated rank. Censored: the rank is 1, and the exposure a
	// lower bound.
	ExposureSE    *float64 `json:"exposure_se" doc:"standard error of the exposure, in bits"`
	Censored      *bool    `json:"exposure_censored"`
	LogPerplexity *float64 `json:"log_perplexity" doc:"negative log-likelihood, in nats"`
	// Extracted reports whether a search proved the secret to be the most likely of its form after its
	// context, Expanded the nodes that it expanded; absent without a search.
	Extracted *bool `json:"extracted,omitempty"`
	Expanded  *int  `json:"expanded,omitempty" doc:"number of nodes that the search expanded"`
	// Text and Context are present with audit.natural.show.
	Text    *string `json:"text,omitempty"`
	Context *string `json:"context,omitempty"`
}

func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("natural secrets: %d at %s", v.Found, readable.Count(v.Occurrences, "place"))
	if n := len(v.Secrets); n < v.Found {
		note += fmt.Sprintf(", of which the %d most frequent were ranked", n)
	}
	for i := range v.Secrets[:min(len(v.Secrets), 3)] {
		s := &v.Secrets[i]
		note += fmt.Sprintf("; %s of %s, %s: %s bits", s.Pattern, readable.Count(s.Users, "user"), readable.Count(s.Occurrences, "time"), s.exposureText())
	}
	if v.Extracted != nil {
		note += fmt.Sprintf("; a search extracts %d of %d", *v.Extracted, v.ranked())
	}
	if n := v.ranked(); n > 0 {
		note += fmt.Sprintf("; %s, one of %d has %.1f bits or more with a probability of at most %.2g", asLikely, n, *v.Highest, exposure.ByChance(n, *v.Highest))
	}
	if len(v.CanariesInData) > 0 {
		numbers := strings.Trim(fmt.Sprint(v.CanariesInData), "[]")
		note += fmt.Sprintf("; the text has canaries %s by itself, so that their exposure says nothing of insertions: use another seed or format", numbers)
	}
	return note
}

func (v *Outcome) ranked() int {
	return lists.Count(v.Secrets, func(s Secret) bool { return s.Exposure != nil })
}

func (v *Outcome) countExtracted() {
	if searched := lists.Filter(v.Secrets, func(s Secret) bool { return s.Extracted != nil }); len(searched) > 0 {
		v.Extracted = new(lists.Count(searched, func(s Secret) bool { return *s.Extracted }))
	}
}

// power returns the power of the exposures of the ranked secrets, before the scan of their largest number.
func power(f *Fields, s *audits.Setting, v *Outcome) []audits.Statement {
	size := audits.FieldSize(path+".most", "secret", f.Natural.ranked(s))
	if v != nil {
		size.N = v.ranked()
	}
	if size.N == 0 {
		return nil
	}
	if size.N < f.Natural.Most { // the text has no more
		size.Path, size.Value = "", 0
	}
	r := exposure.OfReferences(f.Natural.References, path+".references")
	return []audits.Statement{r.Statement("natural_exposure", "ranked secret", size, func(v audits.Outcome) (*float64, int) {
		o := v.(*Outcome)
		return o.Highest, o.ranked()
	})}
}

package natural

import (
	"fmt"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name: "natural",
	Legend: "Natural secrets: card numbers, mail addresses and the like in the training text; the highest exposure of one among other secrets of its " +
		"form, in bits.",
	Limits:      limits,
	Power:       audits.Powered(power),
	Kinds:       []tasks.Kind{Scan, Kind, Summary},
	OutcomeBlob: audits.OutcomeBlob,
	Measures: []audits.Measure{
		{Name: "natural_found", Of: audits.Of(func(v *Outcome) int { return v.Found }), Header: "natural secrets", Scale: audits.Plain},
		{Name: "natural_occurrences", Of: audits.Of(func(v *Outcome) int { return v.Occurrences })},
		{
			Name: "natural_highest_exposure", Of: audits.Of(func(v *Outcome) *float64 { return v.Highest }), Header: "highest bits", Scale: audits.Plain, Digits: 1,
			Curve: &audits.Curve{Figure: exposure.HighestFigure, Name: "natural secrets"},
		},
		{Name: "canaries_in_data", Of: audits.Of(func(v *Outcome) int { return len(v.CanariesInData) })},
	},
})

// Outcome holds the secrets of the training text and their exposures.
type Outcome struct {
	// Found is the number of different secrets, Occurrences the number of their places in the training text.
	Found       int `json:"found"`
	Occurrences int `json:"occurrences"`
	// Highest is the highest exposure of a ranked secret, in bits; nil if none was ranked.
	Highest *float64 `json:"highest_exposure,omitempty"`
	// Extracted is the number of ranked secrets that a search proved to be the most likely of their form;
	// absent without a search.
	Extracted *int `json:"extracted,omitempty"`
	// CanariesInData are the numbers of canaries that are in the original text: their exposure does not
	// measure insertions.
	CanariesInData []int `json:"canaries_in_data,omitempty"`
	// Secrets are the ranked ones, the most frequent first.
	Secrets []Secret `json:"secrets"`
}

// Secret is a ranked secret.
type Secret struct {
	Pattern string `json:"pattern"`
	// Users is the number of users with the secret, Occurrences the number of its places.
	Users       int `json:"users"`
	Occurrences int `json:"occurrences"`
	// Sequences is the size of the space of its form. References is the number of references, fewer than
	// requested in a small space. If it is 0, the fields below are null.
	Sequences  float64  `json:"sequences"`
	References int      `json:"references"`
	Rank       *int64   `json:"rank"`
	Exposure   *float64 `json:"exposure"`
	// ExposureSE is the standard error of an estimated rank. Censored: the rank is 1, and the exposure a
	// lower bound.
	ExposureSE    *float64 `json:"exposure_se"`
	Censored      *bool    `json:"exposure_censored"`
	LogPerplexity *float64 `json:"log_perplexity"`
	// Extracted reports whether a search proved the secret to be the most likely of its form after its
	// context, Expanded the nodes that it expanded; absent without a search.
	Extracted *bool `json:"extracted,omitempty"`
	Expanded  *int  `json:"expanded,omitempty"`
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

// power returns the power of the exposures of the ranked secrets. Before the scan it uses their maximum number.
func power(f *Fields, _ *audits.Setting, v *Outcome) []audits.Statement {
	size := audits.FieldSize(path+".most", "secret", f.Natural.Most)
	if v != nil {
		if size.N = v.ranked(); size.N == 0 {
			return nil
		}
	}
	r := exposure.OfReferences(f.Natural.References, path+".references")
	return []audits.Statement{r.Statement("natural_exposure", "ranked secret", size, func(v audits.Outcome) (*float64, int) {
		o := v.(*Outcome)
		return o.Highest, o.ranked()
	})}
}

package results

import (
	"cmp"
	"reflect"
	"strings"

	"coalmine/internal/lists"
	"coalmine/tasks/audits/all"
)

// numberDocs explains the numbers of outcomes that have neither a column nor a doc tag, by their place in
// the JSON of results.
var numberDocs = map[string]string{
	"exposure.highest": "highest exposure of an inserted canary, in bits",

	"privacy.cohort":                  "number of users or records of a round (Poisson sampling: expected)",
	"privacy.mu":                      "mu of Gaussian differential privacy (Dong, Roth and Su 2019)",
	"privacy.order":                   "Rényi order that gave the epsilon by the papers' convention; 0 if none gave a bound",
	"privacy.order_proved":            "Rényi order that gave the proved Rényi epsilon; 0 if none gave a bound",
	"privacy.participations":          "largest number of rounds of a user, with separated sampling",
	"privacy.population":              "number of users or records that cohorts are drawn from",
	"privacy.rho":                     "rho of zero-concentrated differential privacy (Bun and Steinke 2016)",
	"privacy.rounds":                  "number of rounds (sgd: steps) that the epsilon covers",
	"privacy.sampling_rate":           "share of the population in a cohort",
	"privacy.sensitivity":             "distance, in clip norms, by which a user moves all outputs together, with separated sampling",
	"privacy.separation":              "least number of rounds from one participation of a user to the next, with separated sampling",
	"privacy.sigma":                   "noise relative to the sensitivity, behind the epsilon by the papers' convention",
	"privacy.sigma_proved":            "noise relative to the sensitivity, behind the proved epsilon",
	"privacy.update_noise_multiplier": "noise multiplier of the updates under adaptive clipping",

	"one_run.choices":                  "number of tried pairs of k_plus and k_minus, each with its share of the error probability; 0 for one pair",
	"one_run.epsilon_largest_canaries": "one-run bound if all coins were guessed correctly: the audit cannot prove more",

	"utility.mean_loss": "mean loss in nats, if the perplexity is beyond float64",
	"utility.tokens":    "number of ordinary target words of the test part; of labelled texts their number",

	"skew_normal.highest": "highest fitted exposure of an inserted canary, in bits",

	"probabilistic_extraction.extractable": "number of inserted canaries that the allowed samples contain with the required probability",
	"probabilistic_extraction.greedy":      "number of inserted canaries that greedy decoding continues from their prefix",
	"probabilistic_extraction.of":          "number of inserted canaries",
	"probabilistic_extraction.temperature": "temperature that logits are divided by before the softmax",
	"probabilistic_extraction.top_k":       "number of most probable tokens that are drawn from",

	"natural.extracted": "number of ranked secrets that a search proved to be the most likely of their form",

	"samples.cut":          "number of samples that did not end within the length",
	"samples.distinct":     "number of different samples that ended and consist only of words",
	"samples.length":       "number of tokens, with the end, at which a sample is cut",
	"samples.significance": "probability of a false alarm of a test of the samples",

	"generated_images.real":         "number of images of the test part that generated ones are compared with",
	"generated_images.significance": "probability of a false alarm of a gate on the images",

	"deanonymization.confidence": "confidence of the bootstrap intervals over users",
	"deanonymization.devices":    "number of users with a scored update or sum",
	"deanonymization.items":      "number of scored updates, or sums of updates",
	"deanonymization.untaught":   "number of users whose shadow device has no recorded update",

	"linking.all":     "number of anonymous updates among which devices are followed",
	"linking.devices": "number of devices that are followed",
	"linking.updates": "number of updates of the devices that are followed",

	"update_words.devices": "number of devices of the measured updates",
	"update_words.hits":    "mean number of a device's words that its update names",
	"update_words.named":   "mean number of words that an update names",
	"update_words.round":   "last round of the measured updates",
	"update_words.updates": "number of measured updates",
	"update_words.words":   "mean number of distinct ordinary words of a device",

	"cross_modal.users":  "number of users with a vector",
	"cross_modal.values": "length of a user's vector",

	"baselines.examples": "number of ordinary words, or of labelled examples, in the test part",

	"membership.left_out":        "number of training users that the attacks leave out",
	"membership.neighbour_texts": "number of altered copies of each example that are scored",
	"membership.prefix_users":    "number of held-out users whose texts precede those of others when they are scored again",

	"neighbours.claimed_noise_multiplier": "claimed noise multiplier of the updates",
	"neighbours.claimed_sensitivity":      "claimed sensitivity to leaving one member out",
	"neighbours.delta":                    "delta of the estimated epsilon",
	"neighbours.epsilon_high":             "upper end of the interval of the estimated epsilon",
	"neighbours.moves":                    "number of measured moves of a release by leaving out a member of the cohort",
	"neighbours.p":                        "least p-value of the tests of the claim, times the number of tests",
	"neighbours.population":               "number of members that cohorts are drawn from",

	"many_runs.runs": "number of trainings",
}

// variants maps the outcomes nested in an outcome of utility to the ends of their explanations.
var variants = map[string]string{
	"all_targets": ", over all targets, with <unk> and <end>",
	"baseline":    ", of a model that knows only the frequencies of the training part",
}

// outcomeNumbers returns the numbers in the JSON of the audits' outcomes that have no column among the given ones.
func outcomeNumbers(columns []Column) (list []Column) {
	for _, d := range all.Audits() {
		own := numbersOf(d.Name, reflect.TypeOf(d.Outcome()))
		for _, n := range own {
			if !n.isOf(columns) {
				list = append(list, n)
			}
		}
		if d.Utility == nil {
			continue
		}
		for _, within := range []string{"all_targets", "baseline"} {
			for _, n := range own {
				n.Path = strings.Replace(n.Path, ".", "."+within+".", 1)
				if n.isOf(columns) {
					continue
				}
				if n.Doc == "" {
					n.Doc = n.docOf(columns, within)
				}
				n.Doc += variants[within]
				list = append(list, n)
			}
		}
	}
	return list
}

// numbersOf returns the numbers of a struct, by their place in JSON.
func numbersOf(audit string, t reflect.Type) (list []Column) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch path := audit + "." + name; {
		case name == "" && f.Anonymous && kind.Kind() == reflect.Struct:
			list = append(list, numbersOf(audit, kind)...)
		case name == "" || name == "-":
		case kind.Kind() == reflect.Int, kind.Kind() == reflect.Int64:
			list = append(list, Column{Path: path, Audit: audit, Value: "integer", Doc: cmp.Or(f.Tag.Get("doc"), numberDocs[path])})
		case kind.Kind() == reflect.Float64:
			list = append(list, Column{Path: path, Audit: audit, Value: "number", Doc: cmp.Or(f.Tag.Get("doc"), numberDocs[path])})
		}
	}
	return list
}

// isOf reports whether a column has the number, under the page's name for it: audit_name or name.
func (c *Column) isOf(columns []Column) bool { return c.column(columns, "") != nil }

// column returns the column with the number, or with the number of the same name outside of a block.
func (c *Column) column(columns []Column, block string) *Column {
	name := strings.ReplaceAll(strings.Replace(strings.TrimPrefix(c.Path, c.Audit+"."), block+".", "", min(1, len(block))), ".", "_")
	return lists.Find(columns, func(o *Column) bool {
		return o.Audit == c.Audit && o.Name != "" && (o.Name == name || o.Name == c.Audit+"_"+name)
	})
}

func (c *Column) docOf(columns []Column, block string) string {
	if same := c.column(columns, block); same != nil {
		return same.Doc
	}
	return ""
}

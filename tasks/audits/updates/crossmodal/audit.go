package crossmodal

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name:       "cross_modal",
	Limits:     limits,
	Power:      power,
	Kinds:      []tasks.Kind{Given, OfWords, Kind},
	Models:     audits.Anything,
	AttackRows: audits.From((*Outcome).attackRows),
	Sources:    func(f audits.Fields) []audits.Source { return f.(*Fields).sources() },
	Measures: slices.Concat(
		audits.Within(func(v *Outcome) *pairs.Measurement { return v.Anonymous },
			audits.Measure{Name: "cross_modal_ap", Of: audits.Of(func(m *pairs.Measurement) audits.Interval { return m.AP }), Header: "cross-modal AP", Scale: audits.Percent, Digits: 1, Doc: "average precision with which a network matches an anonymous update and a vector of other knowledge about its user, half of all pairs; 50% by chance"},
			audits.Measure{Name: "cross_modal_auc", Of: audits.Of(func(m *pairs.Measurement) float64 { return m.AUC.Value }), Doc: "AUC of matching updates and vectors"},
		),
		audits.Within(func(v *Outcome) *pairs.Measurement { return v.Seen },
			audits.Measure{Name: "cross_modal_seen_ap", Of: audits.Of(func(m *pairs.Measurement) float64 { return m.AP.Value }), Doc: "cross_modal_ap for pairs of users in the training of the network"},
		),
		audits.Within(func(v *Outcome) *pairs.Measurement { return v.Unseen },
			audits.Measure{Name: "cross_modal_unseen_ap", Of: audits.Of(func(m *pairs.Measurement) float64 { return m.AP.Value }), Header: "cross-modal unseen AP", Optional: true, Scale: audits.Percent, Digits: 1, Doc: "cross_modal_ap for pairs of users of whom the adversary has only the vector"},
		),
		pairs.Spread("cross_modal", func(v *Outcome) *pairs.Learned { return &v.Learned }),
	),
})

type Fields struct {
	// Trains a network on pairs of a shadow device's recorded update and a user's vector, from other data,
	// to match anonymous updates and vectors. Needs data.devices and training.record.
	CrossModal *Block `json:"cross_modal,omitempty" also:"crossmodal cross_modal_matching" source:"Orekondy et al. 2018, sections 4.3 and 6.1.1"`
}

type Block struct {
	// Vectors of users, with normalize of length 1. Absent, for models of texts: the mean of the trained
	// model's word vectors over a user's prior.
	Embeddings *Embeddings `json:"embeddings,omitempty" also:"vectors"`
	pairs.Fields
}

// Embeddings are a source of vectors.
type Embeddings struct {
	// Lines {"user": "...", "embedding": [0.5, -1, ...]} of equally many numbers, as data.source. Lines of
	// a user are averaged; users without a line are left out.
	Source string `json:"source" required:"true" also:"path file"`
	// As data.sha256.
	SHA256 string `json:"sha256,omitempty"`
}

const (
	path           = "audit.cross_modal"
	embeddingsPath = path + ".embeddings"
)

func (f *Fields) sources() []audits.Source {
	e := f.CrossModal.Embeddings
	if e == nil {
		return nil
	}
	return []audits.Source{{Path: embeddingsPath, Source: e.Source, SHA256: &e.SHA256, Check: check}}
}

func check(ctx context.Context, files []source.File, limits source.Limits) error {
	_, err := source.ReadEmbeddings(ctx, files, limits)
	return err
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, path, f.CrossModal.Layers, fail)
	observed.CheckDevices(s, path, fail)
	switch {
	case f.CrossModal.Embeddings != nil:
		observed.CheckOwned(s, path, fail)
	case s.Reading.Level.Scheme().Images:
		fail([]string{path}, "needs vectors of users, and models of images have none for words; expected %s, such as {source: FILE}", embeddingsPath)
	}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	inputs := append(observed.Inputs(b.Recorded(), b.Devices()), tasks.Input{Name: VectorsInput, Key: vectors(b, round)})
	return b.Node(Kind, "updates and vectors of users", f.CrossModal.Params(b.Setting()), inputs...)
}

func vectors(b audits.Builder, round int) storage.Key {
	if sources, limits := b.Files(embeddingsPath); len(sources) > 0 {
		return b.Node(Given, "vectors of users", GivenParams{Sources: sources, Limits: limits}, observed.NamesInputs(b)...)
	}
	return b.Node(OfWords, "mean word vectors of users", struct{}{},
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: observed.DevicesInput, Key: b.Devices()},
		tasks.Input{Name: population.Input, Key: b.Population()}, tasks.Input{Name: population.ShardsInput, Key: b.Shards()})
}

func (f *Fields) Work(s *audits.Setting) float64 { return f.CrossModal.Work(s) }

type Outcome struct {
	Users   int           `json:"users" doc:"number of users with a vector"`
	Values  int           `json:"values" doc:"length of a user's vector"`
	Learned pairs.Learned `json:"learned" doc:"of the network"`
	// Anonymous is about pairs of all users with a vector, Seen and Unseen about pairs of only such users;
	// nil without such pairs, or if all users are in one set.
	Anonymous *pairs.Measurement `json:"anonymous" doc:"over the pairs of all users with a vector"`
	Seen      *pairs.Measurement `json:"seen,omitempty" doc:"over the pairs of users that the network learned from"`
	Unseen    *pairs.Measurement `json:"unseen,omitempty" doc:"over the pairs of users that the network did not learn from"`
	// Curve is the precision at a recall of 1%, 2%, ... of the anonymous pairs.
	Curve []float64 `json:"curve" doc:"precision at a recall of 1%, 2%, ... of the anonymous pairs"`
}

func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("cross-modal: vectors of %s of %s; learned from %d of them, %v",
		readable.Count(v.Values, "value"), readable.Count(v.Users, "user"), v.Learned.Users, &v.Learned)
	for _, x := range v.all() {
		note += fmt.Sprintf("; %s: AP %s, AUC %s of %d pairs, 50 by chance%s", x.label, x.AP.Percent(), x.AUC.Percent(), x.Pairs, x.Few())
	}
	return note + v.Learned.Chance(path)
}

type named struct {
	label string
	*pairs.Measurement
}

// all returns the measurements, without missing ones.
func (v *Outcome) all() []named {
	all := []named{{"anonymous updates", v.Anonymous}, {"of seen users", v.Seen}, {"of unseen users", v.Unseen}}
	return lists.Filter(all, func(x named) bool { return x.Measurement != nil })
}

func (v *Outcome) attackRows() []audits.Attack {
	return lists.Map(v.all(), func(x named) audits.Attack {
		row := x.Row("cross-modal network", "updates with vectors: "+x.label)
		if x.Measurement == v.Anonymous {
			row = v.Learned.Row(row)
		}
		return row
	})
}

// Figure returns the precision-recall curve.
func (v *Outcome) Figure(*audits.Cell) *audits.Figure {
	if len(v.Curve) == 0 {
		return nil
	}
	return audits.PrecisionRecall("Precision and recall of updates and vectors",
		"Precision against recall: the share of pairs of one user among the pairs of an anonymous update and a vector that the network puts first, and the share of all such pairs that are found, in %. The dashed line is chance.",
		v.Curve, pairs.Chance)
}

var limits = pairs.Limit("cross_modal", 1, "measurement",
	"Average precision of pairs of anonymous updates and vectors, by its lower 95% bound over users.",
	func(v *Outcome) (string, *pairs.Measurement) { return "the AP of updates and vectors", v.Anonymous })

var power = pairs.Power("cross_modal", "pairs of updates and vectors",
	func(s *audits.Setting) int { f, _ := audits.FieldsOf[*Fields](s); return f.CrossModal.Pairs },
	(*audits.Setting).Observed,
	func(v *Outcome) []*pairs.Measurement {
		if v.Anonymous == nil {
			return nil
		}
		return []*pairs.Measurement{v.Anonymous}
	})

package linking

import (
	"fmt"

	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
)

var Audit = observed.Describe[Fields, Outcome](audits.Description{
	Name:      "linking",
	Limits:    limits,
	Power:     power,
	Kinds:     []tasks.Kind{Kind},
	Models:    audits.Anything,
	ByProgram: true,
	AttackRows: audits.From(func(v *Outcome) []audits.Attack {
		return []audits.Attack{v.Pairs.Row("linking", "pairs of anonymous updates of a device")}
	}),
	Measures: []audits.Measure{
		{Name: "linking_ap", Of: audits.Of(func(v *Outcome) audits.Interval { return v.Pairs.AP }), Header: "linked AP", Scale: audits.Percent, Digits: 1, Doc: "average precision of finding pairs of anonymous updates of one device, half of all pairs; 50% by chance"},
		{Name: "linking_auc", Of: audits.Of(func(v *Outcome) float64 { return v.Pairs.AUC.Value }), Doc: "AUC of finding pairs of anonymous updates of one device"},
		{Name: "linking_followed", Of: audits.Of(func(v *Outcome) float64 { return v.Next.Share }), Header: "followed %", Scale: audits.Percent, Digits: 1, Doc: "share of updates whose most similar earlier update is of the same device, among those with one"},
		{Name: "linking_followed_chance", Of: audits.Of(func(v *Outcome) float64 { return v.Next.Chance }), Doc: "linking_followed with a random earlier update"},
		{Name: "linking_adjusted_rand_index", Of: audits.Of(func(v *Outcome) float64 { return v.Clusters.RandIndex }), Doc: "adjusted Rand index of clusters and devices (Hubert and Arabie 1985): 1 if they are equal, 0 by chance"},
		{Name: "linking_f1", Of: audits.Of(func(v *Outcome) float64 { return v.Clusters.F1 }), Doc: "harmonic mean of precision and recall of pairs in one cluster"},
		{Name: "linking_f1_chance", Of: audits.Of(func(v *Outcome) float64 { return v.Clusters.ChanceF1 }), Doc: "mean linking_f1 over all assignments of updates to clusters of the same sizes"},
	},
})

type Fields struct {
	// Links anonymous devices by their recorded updates alone: by pairs and by clusters. Needs
	// training.record.
	Linking *Block `json:"linking,omitempty"`
}

type Block struct {
	observed.ViewFields
	// Maximum number of updates, of random devices, at 4 bytes of memory a pair.
	Updates int `json:"updates" default:"2000" range:"[10,10000]" unit:"updates"`
	// Pairs of updates to measure, half of them of one device.
	Pairs int `json:"pairs" default:"10000" range:"[2,1000000]" unit:"pairs" source:"Orekondy et al. 2018, section 6.1.1"`
}

const path = "audit.linking"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	observed.CheckRecorded(s, path, f.Linking.Layers, fail)
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	p := f.Linking
	return b.Node(Kind, "linking updates", Params{
		Seed: b.Setting().Seed, View: p.View(b.Setting()), Updates: p.Updates, Pairs: p.Pairs,
	}, observed.Inputs(b.Recorded(), b.Devices())...)
}

// Work counts the product of each update with each other one.
func (f *Fields) Work(s *audits.Setting) float64 {
	n := min(float64(f.Linking.Updates), s.RecordedUpdates()/2) // half of the devices are anonymous
	return s.UpdatesWork(1, n*n, 0) / 3
}

type Outcome struct {
	// Devices and their Updates are followed, among All anonymous updates.
	Devices  int               `json:"devices" doc:"number of devices that are followed"`
	Updates  int               `json:"updates" doc:"number of updates of the devices that are followed"`
	All      int               `json:"all" doc:"number of anonymous updates among which devices are followed"`
	Pairs    pairs.Measurement `json:"pairs" doc:"over pairs of updates"`
	Next     Next              `json:"next"`
	Clusters Clusters          `json:"clusters"`
}

// Next is the number of updates whose most similar earlier update is of the same device.
type Next struct {
	// Followed is this number, among Of updates whose device has sent one before.
	Followed int     `json:"followed" doc:"number of updates whose most similar earlier update is of their device"`
	Of       int     `json:"of" doc:"number of updates whose device has sent one before"`
	Share    float64 `json:"share" doc:"share of updates whose most similar earlier update is of their device"`
	// Chance is the share with a random earlier update.
	Chance float64 `json:"chance" doc:"share with a random earlier update"`
}

// Clusters compares clusters of average linkage with devices.
type Clusters struct {
	Clusters int `json:"clusters" doc:"number of clusters"`
	// RandIndex is adjusted (Hubert and Arabie 1985): 1 if clusters are devices, 0 by chance.
	RandIndex float64 `json:"adjusted_rand_index" doc:"adjusted Rand index: 1 if clusters are devices, 0 by chance"`
	// Precision is the share of pairs in a cluster that are of one device, Recall the share of pairs of one
	// device that are in one cluster, F1 their harmonic mean.
	Precision float64 `json:"precision" doc:"share of pairs in a cluster that are of one device"`
	Recall    float64 `json:"recall" doc:"share of pairs of one device that are in one cluster"`
	F1        float64 `json:"f1" doc:"harmonic mean of precision and recall"`
	// ChanceF1 is the mean F1 over all assignments of updates to clusters of the same sizes.
	ChanceF1 float64 `json:"chance_f1" doc:"mean F1 over all assignments of updates to clusters of the same sizes"`
}

func (v *Outcome) Note(*audits.Cell) string {
	p, c := &v.Pairs, &v.Clusters
	return fmt.Sprintf("linking: %s of %s; AP %s and AUC %s of %d pairs, 50 by chance%s; followed %d of %d, by chance %.1f%%; adjusted Rand index %.3f, F1 %.3f of %d clusters, by chance %.3f",
		readable.Count(v.Updates, "update"), readable.Count(v.Devices, "device"), p.AP.Percent(), p.AUC.Percent(), p.Pairs, p.Few(),
		v.Next.Followed, v.Next.Of, 100*v.Next.Chance, c.RandIndex, c.F1, c.Clusters, c.ChanceF1)
}

var limits = pairs.Limit("linking", 1, "measurement",
	"Average precision of pairs of anonymous updates, by its lower 95% bound over devices.",
	func(v *Outcome) (string, *pairs.Measurement) { return "the AP of linked updates", &v.Pairs })

var power = pairs.Power("linking", "pairs of updates",
	func(s *audits.Setting) int { f, _ := audits.FieldsOf[*Fields](s); return f.Linking.Pairs },
	(*audits.Setting).Observed,
	func(v *Outcome) []*pairs.Measurement { return []*pairs.Measurement{&v.Pairs} })

// Package all lists the audits that there are.
package all

import (
	"fmt"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/accuracyperuser"
	"coalmine/tasks/audits/attributes"
	"coalmine/tasks/audits/baselines"
	"coalmine/tasks/audits/beamsearch"
	"coalmine/tasks/audits/crossmodal"
	"coalmine/tasks/audits/deanonymization"
	"coalmine/tasks/audits/enumeration"
	"coalmine/tasks/audits/exposure"
	"coalmine/tasks/audits/generatedimages"
	"coalmine/tasks/audits/linking"
	"coalmine/tasks/audits/matching"
	"coalmine/tasks/audits/membership"
	"coalmine/tasks/audits/natural"
	"coalmine/tasks/audits/onerun"
	"coalmine/tasks/audits/oneshot"
	"coalmine/tasks/audits/probabilisticextraction"
	"coalmine/tasks/audits/profiles"
	"coalmine/tasks/audits/randomsampling"
	"coalmine/tasks/audits/samples"
	"coalmine/tasks/audits/search"
	"coalmine/tasks/audits/skewnormal"
	"coalmine/tasks/audits/updatewords"
	"coalmine/tasks/audits/upperbound"
	"coalmine/tasks/audits/utility"
)

// list has the audits in the order of the experiment file's fields, of its canonical
// JSON, and of columns: one of a new audit stands at its end. Columns that are always
// there stand before the others.
var list = []audits.Description{
	randomsampling.Audit,
	beamsearch.Audit,
	exposure.Audit,
	upperbound.Audit,
	onerun.Audit,
	utility.Audit,
	search.Audit,
	enumeration.Audit,
	skewnormal.Audit,
	probabilisticextraction.Audit,
	natural.Audit,
	samples.Audit,
	generatedimages.Audit,
	accuracyperuser.Audit,
	deanonymization.Audit,
	linking.Audit,
	updatewords.Audit,
	matching.Audit,
	attributes.Audit,
	crossmodal.Audit,
	profiles.Audit,
	baselines.Audit,
	membership.Audit,
	oneshot.Audit,
}

// Audits returns all descriptions, in order. The caller must not change it.
func Audits() []audits.Description { return list }

// Add adds an audit that is not the project's own. It must be called before anything
// reads the list, as by an init function, and panics if the name is there already.
func Add(d audits.Description) {
	if slices.ContainsFunc(list, func(other audits.Description) bool { return other.Name == d.Name }) {
		panic(fmt.Sprintf("audits: %q is there twice", d.Name))
	}
	list = append(slices.Clip(list), d)
}

// Kinds are the sorts of task of all audits.
func Kinds() []tasks.Kind {
	var kinds []tasks.Kind
	for _, d := range list {
		kinds = append(kinds, d.Kinds...)
	}
	return kinds
}

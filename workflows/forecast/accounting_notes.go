package forecast

import (
	"fmt"
	"slices"

	"coalmine/internal/readable"
	"coalmine/privacy"
)

// notes explains the answer's numbers in sentences, in addition to each report's assumptions.
func (a *PrivacyAnswer) notes(q PrivacyQuestion) []string {
	notes := append([]string{a.deltaNote(q)}, a.deltaWarnings()...)
	if len(q.Scales) > 0 {
		notes = append(notes, fmt.Sprintf("a scale multiplies %s, cohort and noise multiplier and leaves the rounds, "+
			"so that the mean update has the same noise (McMahan et al. 2018, section 3; Augenstein et al. 2020, section 6)", a.units()))
	}
	if q.Population > 0 {
		notes = append(notes, fmt.Sprintf("the selected share of the %d users at a scale is the same as in the simulation (Augenstein et al. 2020, appendix C.4)", q.Population))
	}
	notes = append(notes, a.derivedNotes()...)
	if a.selected() {
		notes = append(notes, "not covered: the criteria of the selection, because percentiles and models prepared on the same users have no noise")
	}
	if len(a.Together) > 0 {
		notes = append(notes, a.togetherNotes()...)
	}
	return notes
}

func (a *PrivacyAnswer) deltaNote(q PrivacyQuestion) string {
	if q.Delta != 0 {
		if q.Delta == privacy.MinDelta {
			return fmt.Sprintf("delta is %g everywhere, the least delta of the search; a smaller one may suffice", q.Delta)
		}
		return fmt.Sprintf("delta is %g everywhere", q.Delta)
	}
	note := "delta is that of the training's file"
	if len(q.Scales) > 0 {
		note += fmt.Sprintf("; at a scale 1/(scale x its %s) if that is less, as in tables 3, 5 and 13 of Augenstein et al. 2020; --delta sets another", a.units())
	}
	return note
}

// units returns the plural of the unit that the first training protects.
func (a *PrivacyAnswer) units() string { return readable.Plural(a.Trainings[0].Scales[0].Unit) }

// deltaWarnings warns of a delta of 1/users or more.
func (a *PrivacyAnswer) deltaWarnings() (warnings []string) {
	for _, c := range a.Trainings {
		for _, at := range c.Scales {
			if warning := at.DeltaWarning(); warning != "" {
				warnings = append(warnings, fmt.Sprintf("WARNING: %s at scale %d: %s", c.Cell, at.Scale, warning))
			}
		}
	}
	return warnings
}

// derivedNotes states the robustness to post-processing (Dwork and Roth 2014, Proposition 2.1).
func (a *PrivacyAnswer) derivedNotes() []string {
	var notes []string
	if slices.ContainsFunc(a.Trainings, func(c PrivacyCosts) bool { return c.Generator }) {
		notes = append(notes, "a generator inherits the guarantee of its discriminator: the server trains it against the noised discriminator, and on no data (post-processing)")
	}
	return append(notes, "samples and images of a model, and statistics of these without the data, have the guarantee of the model at no further cost (post-processing)")
}

// wholeUser is the unit of which each user has only one.
const wholeUser = "user"

// togetherNotes describes the users that a composition protects, and its conditions.
func (a *PrivacyAnswer) togetherNotes() []string {
	notes := []string{fmt.Sprintf("together: every model may be trained on the same %s. The losses of all rounds add up, and so do their Rényi divergences; delta is the least above", a.Together[0].Unit)}
	if unit := a.Together[0].Unit; unit != wholeUser {
		notes = append(notes, fmt.Sprintf("somebody whose data make up several %ss of one model is protected only as a group of that size", unit))
	}
	if relation := a.Together[0].Neighbouring; slices.ContainsFunc(a.Trainings, func(c PrivacyCosts) bool { return c.Scales[0].Neighbouring != relation }) {
		notes = append(notes, fmt.Sprintf("together all are accounted for %s, the relation under which each of them is proved; separately each has its own", relation))
	}
	if a.selected() {
		notes = append(notes, "disjoint selections are added up too: a change of a user's data may move the user from one to another")
	}
	if a.seeded() {
		notes = append(notes, "adding up assumes independent noise in each training. These draw noise from a seed, and equal seeds give equal noise: "+
			"models to be published need training.privacy.randomness: secret")
	}
	return notes
}

func (a *PrivacyAnswer) selected() bool {
	return slices.ContainsFunc(a.Trainings, func(c PrivacyCosts) bool { return c.OfUsers > c.Recipe.Population })
}

func (a *PrivacyAnswer) seeded() bool {
	return slices.ContainsFunc(a.Trainings, func(c PrivacyCosts) bool { return c.Recipe.Randomness == privacy.Seeded })
}

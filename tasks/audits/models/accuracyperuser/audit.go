package accuracyperuser

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/selection"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:       "accuracy_per_user",
	Kinds:      []tasks.Kind{Kind, Scored, Summary},
	Models:     audits.Anything,
	ByScores:   true,
	ByProgram:  true,
	Classifier: true,
	AtEnd:      true,
	Pairs:      audits.EverySecret,
	Changes:    func(before, after audits.Outcome) []audits.Change { return before.(*Outcome).changes(after.(*Outcome)) },
	Measures: slices.Concat(
		audits.Within(func(v *Outcome) *Users { return cmp.Or(v.Model, v.Prepared) }, audits.Measure{Header: "users' accuracy %", Doc: "accuracy of users, the 25th, 50th and 75th percentile, by the model or, if it predicts nothing, by the prepared classifier", Text: audits.Of(func(u *Users) string {
			return fmt.Sprintf("%.1f/%.1f/%.1f", 100*u.Percentiles[1], 100*u.Percentiles[2], 100*u.Percentiles[3])
		})}),
		audits.Within(func(v *Outcome) *Users { return v.Model }, audits.Qualified(" by the model", measures("users")...)...),
		audits.Within(func(v *Outcome) *Users { return v.Prepared }, audits.Qualified(" by the prepared classifier", measures("prepared_users")...)...),
	),
})

type Fields struct {
	// Percentiles and a histogram of the accuracy by user of the last model, and of prepare.classifier
	// before selection.
	AccuracyPerUser *Block `json:"accuracy_per_user,omitempty" source:"Augenstein et al. 2020, figure 5 and table 10"`
}

type Block struct {
	// Part to predict; the paper and the prepared classifier use train.
	Part Part `json:"part" default:"train"`
}

const path = "audit.accuracy_per_user"

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	fail.If(s.Generator && !s.Prepared, []string{path, "model.kind"}, "measures what a model predicts, and a gan predicts nothing; expected prepare.classifier beside it, another model.kind, or no such audit")
	fail.If(s.External != nil && !s.External.OfImages(), []string{path, "model.kind"}, "counts words that a model predicts correctly, and models of texts that are not ours score whole texts; expected another model.kind, or no such audit")
	fail.If(s.Reading.Label != "", []string{path, "data.label"}, "counts correct predictions of words or classes, but data.label is %s; set it to null for this cell", s.Reading.Label)
	fail.If(f.AccuracyPerUser.Part == Test && !s.HasTest(), []string{path + ".part", "data.test.fraction"}, "is test, but data.test.fraction is 0; raise it, or take the part train")
}

func (f *Fields) CheckData(s *audits.Setting, d *audits.Data, fail audits.Fail) {
	if f.AccuracyPerUser.Part == Test {
		audits.CheckTestData(s, d, fail, "take the part train of "+path)
	}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p := SummaryParams{Part: f.AccuracyPerUser.Part}
	var inputs []tasks.Input
	if !b.Setting().Generator {
		inputs = f.parts(b, round)
		p.Shares = len(inputs)
	}
	if here, clean, ok := b.Predicted(); ok {
		p.Prepared = true
		inputs = append(inputs, tasks.Input{Name: PredictedInput, Key: here}, tasks.Input{Name: CleanInput, Key: clean})
	}
	return b.Node(Summary, fmt.Sprintf("accuracy per user after %d", round), p, inputs...)
}

func (f *Fields) parts(b audits.Builder, round int) []tasks.Input {
	part := f.AccuracyPerUser.Part
	inputs := []tasks.Input{{Name: audits.ModelInput, Key: b.Model(round)}}
	if part == Test {
		inputs = append(inputs, tasks.Input{Name: population.PartsInput, Key: b.Parts()})
	} else {
		inputs = append(inputs, tasks.Input{Name: population.Input, Key: b.Population()}, tasks.Input{Name: population.ShardsInput, Key: b.Shards()})
	}
	return utility.UserShares(b, Kind, Scored, fmt.Sprintf("accuracy of users %%d of %%d after %d", round), tasks.PartInput,
		func(share utility.UserShare) any { return Params{part, share} }, inputs)
}

func (f *Fields) States(s *audits.Setting) float64 {
	if f.AccuracyPerUser.Part == Test {
		return s.TestTokens
	}
	return s.TrainTokens()
}

var percents = [...]int{5, 25, 50, 75, 95}

func measures(name string) []audits.Measure {
	list := []audits.Measure{
		{Name: name + "_measured", Doc: "users whose accuracy is measured", Of: audits.Of(func(u *Users) int { return u.Users })},
		{Name: name + "_accuracy_mean", Doc: "mean of the users' accuracies", Of: audits.Of(func(u *Users) float64 { return u.Mean })},
	}
	for i, percent := range percents {
		list = append(list, audits.Measure{Name: fmt.Sprintf("%s_accuracy_p%d", name, percent), Doc: fmt.Sprintf("percentile %d of the users' accuracies", percent), Of: audits.Of(func(u *Users) float64 { return u.Percentiles[i] })})
	}
	return append(list, audits.Measure{Name: name + "_accuracy_histogram", Doc: "users in each of twenty bins of accuracy, 5% wide,", Of: audits.Of((*Users).counts)})
}

// Outcome is the accuracy of models for the users.
type Outcome struct {
	// Part is the part of the users' data that the model predicted.
	Part Part `json:"part"`
	// Model is the model of the cell; nil if it predicts nothing.
	Model *Users `json:"model,omitempty" doc:"of the model of the cell"`
	// Prepared is the prepared classifier on the training data before any selection, Clean the same without
	// planted faults. Both may be nil.
	Prepared *Users `json:"prepared,omitempty" doc:"of the prepared classifier on the training data before any selection"`
	Clean    *Users `json:"prepared_without_faults,omitempty" doc:"of the prepared classifier on the training data before any selection, without planted faults"`
}

// Users is the spread of users. Examples of a language model are words.
type Users struct {
	selection.Accuracy
	// Mean is the unweighted mean of the users' shares.
	Mean float64 `json:"mean" doc:"unweighted mean of the users' accuracies"`
}

func (v *Outcome) Note(*audits.Cell) string {
	var notes []string
	for _, one := range []struct {
		of    string
		users *Users
	}{{"the model, " + string(v.Part) + " part", v.Model}, {"the prepared classifier", v.Prepared}, {"the prepared classifier without faults", v.Clean}} {
		if one.users != nil {
			notes = append(notes, fmt.Sprintf("%s: %s", one.of, one.users))
		}
	}
	return "accuracy per user: " + strings.Join(notes, "; ")
}

func (u *Users) String() string {
	p := u.Percentiles
	return fmt.Sprintf("%s, mean %.1f%%, percentiles 5, 25, 50, 75, 95: %.1f, %.1f, %.1f, %.1f, %.1f%%",
		readable.Count(u.Users, "user"), 100*u.Mean, 100*p[0], 100*p[1], 100*p[2], 100*p[3], 100*p[4])
}

func (v *Outcome) changes(other *Outcome) []audits.Change {
	return append(changes("users' accuracy", v.Model, other.Model), changes("users' accuracy by the prepared classifier", v.Prepared, other.Prepared)...)
}

func changes(name string, before, after *Users) []audits.Change {
	if before == nil || after == nil {
		return nil
	}
	list := []audits.Change{{Label: name + ", mean", Before: before.Mean, After: after.Mean}}
	for i, percent := range percents {
		list = append(list, audits.Change{Label: fmt.Sprintf("%s, %dth percentile", name, percent), Before: before.Percentiles[i], After: after.Percentiles[i]})
	}
	return list
}

// Figure returns figure 5 of the paper.
func (v *Outcome) Figure(c *audits.Cell) *audits.Figure {
	u, about := v.Prepared, "of the prepared classifier"
	if u == nil {
		u, about = v.Model, "of the model"
	}
	if u == nil {
		return nil
	}
	f := &audits.Figure{
		Name:  "Users by accuracy",
		About: "How many users (upwards) have which accuracy (to the right, percent) " + about + ", in bins of 5%.",
		Title: fmt.Sprintf("a histogram of %d users by their accuracy %s", u.Users, about),
		X:     audits.Axis{Title: "accuracy of a user (%)", Max: 100}, Y: audits.Axis{Title: "users"}, Bars: bars(&u.Accuracy),
	}
	f.Y.Max = tallest(f.Bars)
	if v.Prepared != nil && v.Clean != nil && v.Clean.Histogram != v.Prepared.Histogram {
		clean := bars(&v.Clean.Accuracy)
		f.Y.Max = max(f.Y.Max, tallest(clean))
		for _, b := range clean {
			f.Line = append(f.Line, audits.Point{X: b.From, Y: b.Y}, audits.Point{X: b.To, Y: b.Y})
		}
		f.About += " The line is the histogram without planted faults."
	}
	if s := c.Selection; v.Prepared != nil && s != nil && s.Side != "" {
		f.Ranges = []audits.Range{{X: 100 * s.Threshold, High: f.Y.Max}}
		f.About += fmt.Sprintf(" Users %s the vertical line are selected.", s.Side)
	}
	return f
}

func bars(a *selection.Accuracy) []audits.Bar {
	width := 100 / float64(len(a.Histogram))
	return lists.Make(len(a.Histogram), func(i int) audits.Bar {
		return audits.Bar{From: float64(i) * width, To: float64(i+1) * width, Y: float64(a.Histogram[i])}
	})
}

func tallest(bars []audits.Bar) (most float64) {
	for _, b := range bars {
		most = max(most, b.Y)
	}
	return most
}

// counts returns the counts of the histogram, separated by spaces.
func (u *Users) counts() *string {
	return new(strings.Trim(fmt.Sprint(u.Histogram), "[]"))
}

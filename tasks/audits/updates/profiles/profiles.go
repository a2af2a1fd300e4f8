// Package profiles finds the anonymous devices that fit a profile: a hand-made set of examples
// (Orekondy et al. 2018, sections 5.2.2 (iii) and 6.1.1, figure 5). A shadow device of the profile
// trains in the federation, and attacks of package deanonymization learn its updates.
//
//	audits/profiles  ranks the users of anonymous devices by the scores of these attacks
package profiles

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models/attacks"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

type Params struct {
	Attacks []attacks.Kind `json:"attacks"`
	Fit     []Fit          `json:"fit,omitempty"`
	// Found is the number of listed users for each profile and attack.
	Found int `json:"found"`
}

// Kind ranks the users of the anonymous devices. Its inputs are those of observed.NamesInputs,
// observed.DevicesInput, and deanonymization.AttackInput for each attack. Its metrics are an Outcome.
var Kind = tasks.Kind{Name: "audits/profiles", Version: 2, Class: tasks.Compute, Run: audits.Measuring(rank)}

func rank(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	w := world{Params: p}
	if err := w.open(ctx, t); err != nil {
		return nil, err
	}
	v := &Outcome{Profiles: w.profiles}
	for i, kind := range w.Attacks {
		scores, err := deanonymization.ReadScores(ctx, t, deanonymization.AttackInput(i))
		if err != nil {
			return nil, err
		}
		o := AttackOutcome{Attack: kind, Training: scores.Training}
		for profile := range w.profiles {
			found, err := w.rank(scores, profile)
			if err != nil {
				return nil, tasks.Permanent(fmt.Errorf("scores of %s: %w", kind, err))
			}
			o.Profiles = append(o.Profiles, found)
		}
		o.mean()
		v.Attacks = append(v.Attacks, o)
	}
	return v, nil
}

type world struct {
	*Params
	names    []string // of users
	profiles []string
	users    []int               // the users that stand for the profiles
	fit      []observed.Patterns // by profile; nil without patterns
}

func (w *world) open(ctx context.Context, t *tasks.Task) error {
	names, err := observed.ReadNames(ctx, t)
	if err != nil {
		return err
	}
	w.names = names.Users
	if w.profiles, err = devices.ReadProfiles(ctx, t, observed.DevicesInput); err != nil {
		return err
	}
	list, err := devices.Read(ctx, t, observed.DevicesInput)
	if err != nil {
		return err
	}
	profiles := lists.Filter(list, func(d devices.Device) bool { return d.Set == devices.Profile })
	w.users = lists.Map(profiles, func(d devices.Device) int { return d.User })
	w.fit = make([]observed.Patterns, len(w.profiles))
	for _, fit := range w.Fit {
		i := slices.Index(w.profiles, fit.Profile)
		if i < 0 {
			return tasks.Permanent(fmt.Errorf("audit.profiles.fit names the profile %q; data.devices.profiles has %s", fit.Profile, observed.ListFirst(w.profiles)))
		}
		w.fit[i] = fit.Users
		if err := w.fit[i].CheckMatches(names.Source, fmt.Sprintf("fits the profile %q", fit.Profile)); err != nil {
			return tasks.Permanent(err)
		}
	}
	return nil
}

// candidate is the user of an anonymous device, by the mean score of its updates.
type candidate struct {
	user  int
	score float64
	count int
}

// rank ranks the users by the scores of a profile. The list is empty if no update of the profile's device was
// recorded for learning.
func (w *world) rank(s *deanonymization.Scores, profile int) (Found, error) {
	f := Found{Profile: w.profiles[profile]}
	class, taught := slices.BinarySearch(s.Classes, w.users[profile])
	if !taught {
		return f, nil
	}
	list := w.candidates(s, class)
	f.Devices = len(list)
	for _, c := range list[:min(w.Found, len(list))] {
		u := User{User: w.names[c.user], Score: c.score}
		if w.fit[profile] != nil {
			u.Fits = new(w.fit[profile].Fit(u.User))
		}
		f.Users = append(f.Users, u)
	}
	return f, w.measure(&f, list, w.fit[profile])
}

// candidates returns the users with an update, the best first. Equal scores are in the order of numbers.
func (w *world) candidates(s *deanonymization.Scores, class int) []candidate {
	of := map[int]*candidate{}
	for i, item := range s.Items {
		for _, user := range item.Users {
			if of[user] == nil {
				of[user] = &candidate{user: user}
			}
			of[user].score += float64(s.Of(i, class))
			of[user].count++
		}
	}
	var list []candidate
	for _, c := range of {
		c.score /= float64(c.count)
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.user, b.user)) })
	return list
}

// measure compares the order with the users who fit, if some do and some do not.
func (w *world) measure(f *Found, list []candidate, fit observed.Patterns) error {
	marks, scores := make([]bool, len(list)), make([]float32, len(list))
	for i, c := range list {
		scores[i] = float32(c.score)
		if marks[i] = fit.Fit(w.names[c.user]); marks[i] {
			f.Fit++
		}
	}
	if f.Fit == 0 || f.Fit == len(list) {
		return nil
	}
	ap, err := ranking.AveragePrecision(scores, marks)
	f.AP, f.Chance = new(ap), new(ranking.Shuffled(f.Fit, len(list)))
	return err
}

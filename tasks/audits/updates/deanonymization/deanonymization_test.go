package deanonymization

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models/attacks"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/observed/observedtest"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

var layout = updates.Layout{Layers: []updates.Layer{{Name: "a", Values: 20}, {Name: "b", Values: 5}}}

// world is a federation of which every update is made up.
type world struct {
	users, unseen, heldOut int
	rounds                 int
	// own is how far a user's updates are apart from others', device how far those of a device
	// are from its user's other one, and noise how far those of a round from a device's others.
	own, device, noise float64
	// late is the round from which users are other people.
	late int
	seed uint64
}

func (w world) split() (split []devices.Device) {
	for user := range w.users + w.unseen + w.heldOut {
		set := devices.Seen
		switch {
		case user >= w.users+w.unseen:
			set = devices.HeldOut
		case user >= w.users:
			set = devices.Unseen
		}
		split = append(split, devices.Device{User: user, Set: set})
		if set != devices.Unseen {
			split = append(split, devices.Device{User: user, Shadow: true, Set: set})
		}
	}
	return split
}

// inputs are its devices and updates, in two gather nodes: all devices take part in every round.
func (w world) inputs(g *taskstest.Graph) []taskstest.Edge {
	rng := rand.New(rand.NewPCG(w.seed, 1))
	split, n := w.split(), layout.Values()
	users, late := normals(rng, len(split)*n), normals(rng, len(split)*n)
	own := normals(rng, len(split)*n)
	var list []updates.Update
	for round := 1; round <= w.rounds; round++ {
		for number, d := range split {
			values, noise := make([]float32, n), normals(rng, n)
			of := users
			if w.late > 0 && round >= w.late {
				of = late
			}
			for i := range values {
				values[i] = float32(1 + w.own*of[d.User*n+i] + w.device*own[number*n+i] + w.noise*noise[i])
			}
			list = append(list, updates.Update{Round: round, Device: number, Values: values})
		}
	}
	half := len(list) / len(split) / 2 * len(split)
	return observedtest.Inputs(g, layout, split, list[:half], list[half:])
}

func normals(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

func params(w world, kind attacks.Kind) Params {
	r := Rounds{1, w.rounds}
	return Params{Seed: 1, Attack: kind, Learn: r, Try: r, TrainingFields: TrainingFields{Epochs: 300, Batch: 16, Memory: 16}}
}

func summary(kinds ...attacks.Kind) SummaryParams {
	return SummaryParams{Seed: 1, Attacks: kinds, Confidence: 0.95, Users: true}
}

// attacked runs all attacks on a world.
func attacked(t *testing.T, w world, change func(*Params)) *Outcome {
	t.Helper()
	g := taskstest.NewGraph(t)
	inputs := w.inputs(g)
	var edges []taskstest.Edge
	for i, kind := range attacks.Kinds() {
		p := params(w, kind)
		change(&p)
		edges = append(edges, taskstest.In(AttackInput(i), g.Run(Reidentify, p, inputs...)))
	}
	return outcome(t, g.Run(Summary, summary(attacks.Kinds()...), edges...))
}

func outcome(t *testing.T, n *taskstest.Node) *Outcome {
	t.Helper()
	v := new(Outcome)
	must.Do(t, json.Unmarshal(n.Blob(audits.OutcomeBlob), v))
	return v
}

func asItIs(*Params) {}

func TestUsersAreNamedByTheirUpdates(t *testing.T) {
	t.Parallel()
	v := attacked(t, world{users: 12, rounds: 10, own: 0.5, device: 0.1, noise: 0.2, seed: 1}, asItIs)
	if v.Devices != 12 || v.Items != 120 {
		t.Errorf("%d items of %d devices, want 120 of 12", v.Items, v.Devices)
	}
	for _, o := range v.Attacks {
		if o.AP < 0.9 || o.Factor < 5 || o.P > 0.001 || o.Top1.Share < 0.8 || o.Top5.Share < o.Top1.Share || o.Users != 12 {
			t.Errorf("%s: %+v", o.Attack, o)
		}
		if math.Abs(o.Top1.Chance-1.0/12) > 1e-12 || math.Abs(o.Share-1.0/12) > 1e-12 || o.FactorInterval.Low > o.Factor || o.Factor > o.FactorInterval.High || o.FactorAtLeast > o.Factor {
			t.Errorf("chance of %s: %+v", o.Attack, o)
		}
	}
}

// Devices whose updates resemble each other over the rounds, though not those of the user's
// other device, are the control of the paper's section 6.1.1: nobody can be named, and the
// average precision is still above the share of a user's updates. Over these 8 worlds the mean
// factor of a right program is within 0.7 to 1.3 for each attack: its standard error is below
// 0.1.
func TestTheControlGivesChance(t *testing.T) {
	t.Parallel()
	factors, shares := map[attacks.Kind]float64{}, 0.0
	const worlds = 8
	for seed := range uint64(worlds) {
		v := attacked(t, world{users: 15, rounds: 6, device: 0.5, noise: 0.2, seed: seed}, func(p *Params) { p.Epochs = 100 })
		for _, o := range v.Attacks {
			factors[o.Attack] += o.Factor / worlds
			shares += o.AP / o.Share / worlds / float64(len(v.Attacks))
		}
	}
	t.Logf("mean factors over chance %v; over the share of a user's updates %.2f", factors, shares)
	for kind, factor := range factors {
		if math.Abs(factor-1) > 0.3 {
			t.Errorf("%s is %.2f times chance, where nobody can be named", kind, factor)
		}
	}
	if shares < 1.5 {
		t.Errorf("%.2f times the share; expected more, since the updates of a device stand together", shares)
	}
}

func TestUnseenUsersAreDetected(t *testing.T) {
	t.Parallel()
	w := world{users: 6, unseen: 5, heldOut: 5, rounds: 10, own: 0.5, device: 0.1, noise: 0.2, seed: 2}
	v := attacked(t, w, asItIs)
	for _, o := range v.Attacks {
		if o.Users != 6 || o.Unseen == nil || math.Abs(o.Unseen.Share-5.0/11) > 1e-12 || math.Abs(o.Top1.Chance-1.0/7) > 1e-12 || o.Top1.Of != 110 {
			t.Errorf("%s: %+v, unseen %+v", o.Attack, o, o.Unseen)
		}
		if o.AP < 0.7 {
			t.Errorf("%s has an AP of %.2f of seen users among unseen ones", o.Attack, o.AP)
		}
	}
	if v.Devices != 11 || v.Items != 110 {
		t.Errorf("%d items of %d devices; held-out users are none of them", v.Items, v.Devices)
	}
}

func TestSumsHideUsers(t *testing.T) {
	t.Parallel()
	w := world{users: 12, rounds: 10, own: 0.5, device: 0.1, noise: 0.2, seed: 1}
	alone := attacked(t, w, asItIs).Best()
	for _, m := range []int{2, 5, 100} {
		v := attacked(t, w, func(p *Params) { p.Sums = m })
		if want := 10 * max(1, 12/m); v.Items != want {
			t.Errorf("%d sums of %d, want %d", v.Items, m, want)
		}
		if best := v.Best(); best.Factor >= alone.Factor || best.Factor < 0.9 {
			t.Errorf("sums of %d: %.2f times chance, alone %.2f", m, best.Factor, alone.Factor)
		}
	}
}

func TestUnlikeStagesDoNotTransfer(t *testing.T) {
	t.Parallel()
	w := world{users: 8, rounds: 12, own: 0.5, device: 0.1, noise: 0.2, late: 7, seed: 3}
	g := taskstest.NewGraph(t)
	inputs := w.inputs(g)
	p, s := params(w, attacks.KNN), summary(attacks.KNN)
	s.Stages = Rounds{1, 12}.split(2)
	edges := []taskstest.Edge{taskstest.In(AttackInput(0), g.Run(Reidentify, p, inputs...))}
	for i, stage := range s.Stages {
		p.Learn = stage
		edges = append(edges, taskstest.In(StageInput(0, i), g.Run(Reidentify, p, inputs...)))
	}
	v := outcome(t, g.Run(Summary, s, edges...))
	if maps := v.heatMaps(); len(maps) != 1 || fmt.Sprint(maps[0].Rows, maps[0].Columns) != "[1 7] [1 7]" || maps[0].Values[0][1] != v.Attacks[0].Matrix[0][1].Factor {
		t.Errorf("the heat maps are %+v", maps)
	}
	for i, row := range v.Attacks[0].Matrix {
		for j, cell := range row {
			if cell.Users != 8 || (i == j) != (cell.Factor > 3) {
				t.Errorf("trained on stage %d, tried on %d: %+v", i, j, cell)
			}
		}
	}
}

// An attack that reads its examples in small blocks learns from the same examples, each once in
// an epoch.
func TestBlocksHaveEveryExampleOnce(t *testing.T) {
	t.Parallel()
	w := world{users: 9, heldOut: 2, rounds: 8, own: 0.5, noise: 0.2, seed: 4}
	g := taskstest.NewGraph(t)
	inputs := w.inputs(g)
	p := params(w, attacks.MLP)
	for _, batch := range []int{4, 1000} {
		p.Batch = batch // in a block there is room for two batches at least
		p.Memory = 0
		reader := must.Get(p.open(t.Context(), g.Task(inputs...)))(t)
		c := must.Get(p.take(t.Context(), reader))(t)
		s := &source{params: &p, reader: reader, census: c}
		var orders [][]float32
		places := map[int]float32{}
		for epoch := range 3 {
			var first []float32
			counts := make([]int, c.Columns())
			must.Do(t, s.Blocks(t.Context(), epoch, func(b attacks.Block) error {
				for i, label := range b.Labels {
					counts[label]++
					value := b.Rows[i*reader.Values()]
					if known, there := places[b.At[i]]; there && known != value {
						t.Errorf("epoch %d has another example at place %d", epoch, b.At[i])
					}
					places[b.At[i]] = value
					first = append(first, value)
				}
				return nil
			}))
			if want := classCounts(c); !slices.Equal(counts, want) {
				t.Errorf("epoch %d has %v examples of the classes, want %v", epoch, counts, want)
			}
			if len(places) != s.Examples() {
				t.Errorf("%d examples have %d places", s.Examples(), len(places))
			}
			orders = append(orders, first)
		}
		if slices.Equal(orders[0], orders[1]) || slices.Equal(orders[1], orders[2]) {
			t.Error("epochs have one order")
		}
		for i := range orders {
			slices.Sort(orders[i])
		}
		if !slices.Equal(orders[0], orders[1]) || !slices.Equal(orders[1], orders[2]) {
			t.Error("epochs differ in their examples")
		}
	}
}

func classCounts(c *census) []int {
	counts := make([]int, c.Columns())
	for _, x := range c.learn {
		counts[x.class]++
	}
	return counts
}

func TestAttackLearnsFromRequestedExamples(t *testing.T) {
	t.Parallel()
	w := world{users: 5, rounds: 8, own: 0.5, noise: 0.2, seed: 4}
	g := taskstest.NewGraph(t)
	inputs := w.inputs(g)
	for _, examples := range []int{1, 3, 100} {
		p := params(w, attacks.Cosine)
		p.Examples = examples
		var s Scored
		must.Do(t, json.Unmarshal(g.Run(Reidentify, p, inputs...).Blob(ScoredBlob), &s))
		if want := 5 * min(examples, 8); s.Learned != want {
			t.Errorf("with %d examples of a user it learns from %d, want %d", examples, s.Learned, want)
		}
	}
}

func TestUsersThatCannotBeNamedAreReported(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	split := []devices.Device{
		{User: 0, Set: devices.Seen}, {User: 0, Shadow: true, Set: devices.Seen}, {User: 1, Set: devices.Seen}, {User: 1, Shadow: true, Set: devices.Seen},
		{User: 2, Set: devices.Seen}, {User: 2, Shadow: true, Set: devices.Seen},
	}
	update := func(round, device int) updates.Update {
		values := make([]float32, layout.Values())
		values[device] = 1
		return updates.Update{Round: round, Device: device, Values: values}
	}
	inputs := observedtest.Inputs(g, layout, split, []updates.Update{update(1, 0), update(1, 1), update(2, 3), update(3, 4)})
	p := Params{Seed: 1, Attack: attacks.Cosine, Learn: Rounds{1, 3}, Try: Rounds{1, 3}, TrainingFields: TrainingFields{Epochs: 1, Batch: 1, Memory: 16}}
	v := outcome(t, g.Run(Summary, summary(attacks.Cosine), taskstest.In(AttackInput(0), g.Run(Reidentify, p, inputs...))))
	if v.Untaught != 1 || v.Attacks[0].Users != 1 || v.Devices != 2 || !strings.Contains(v.Note(nil), "1 user can't be named") {
		t.Errorf("outcome %+v", v)
	}
	p.Try = Rounds{3, 3} // an update of user 2, whom no attack can name
	nobody := g.Run(Summary, summary(attacks.Cosine), taskstest.In(AttackInput(0), g.Run(Reidentify, p, inputs...))).Blob(audits.OutcomeBlob)
	const want = `"attacks":[{"attack":"cosine","users":0,"learned":2}]`
	if !strings.Contains(string(nobody), want) {
		t.Errorf("over no user the verdict is %s, want no number but %s", nobody, want)
	}
	for name, c := range map[string]struct {
		learn, try Rounds
		want       string
	}{
		"one class":       {Rounds{1, 1}, Rounds{1, 3}, "of 3 users with shadow devices only 1 have sent"},
		"nothing to name": {Rounds{1, 3}, Rounds{2, 2}, "no anonymous device has sent an update in the recorded rounds 2 to 2"},
	} {
		p.Learn, p.Try = c.learn, c.try
		if _, err := g.Try(Reidentify, p, inputs...); err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	lone := observedtest.Inputs(g, layout, nil, []updates.Update{update(1, 0)})
	if _, err := g.Try(Reidentify, p, lone...); err == nil || !strings.Contains(err.Error(), "data.devices") {
		t.Errorf("without devices: error %v", err)
	}
	p.View = observed.View{Layers: []string{"c"}}
	if _, err := g.Try(Reidentify, p, inputs...); err == nil || !strings.Contains(err.Error(), "expected one of a, b") {
		t.Errorf("a layer that is not there: error %v", err)
	}
}

// The chance of an average precision is its mean over all ways to give devices to users.
func TestChanceIsTheMeanOverAllDevices(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 0))
	s := &Scores{Scored: Scored{Classes: []int{3, 5, 8}}}
	for i := range 30 {
		s.Items = append(s.Items, Item{Round: i, Users: []int{[]int{3, 5, 8, 9}[rng.IntN(4)]}})
		s.values = append(s.values, float32(rng.IntN(6)), float32(rng.IntN(6)), float32(rng.NormFloat64()))
	}
	m := must.Get(s.measure(all))(t)
	for class := range s.Classes {
		sum := 0.0
		for _, user := range []int{3, 5, 8, 9} {
			relevant := make([]bool, len(s.Items))
			column := make([]float32, len(s.Items))
			for i, item := range s.Items {
				relevant[i], column[i] = item.Users[0] == user, s.values[3*i+class]
			}
			ap := must.Get(ranking.AveragePrecision(column, relevant))(t)
			if sum += ap; user == s.Classes[class] && math.Abs(ap-m.own[class]) > 1e-12 {
				t.Errorf("AP of user %d is %v, want %v", user, m.own[class], ap)
			}
		}
		if math.Abs(m.chance[class]-sum/4) > 1e-12 {
			t.Errorf("chance of class %d is %v, want %v", class, m.chance[class], sum/4)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	w := world{users: 4, unseen: 2, heldOut: 2, rounds: 4, own: 0.5, device: 0.1, noise: 0.2, seed: 1}
	g := taskstest.NewGraph(t)
	inputs := w.inputs(g)
	var edges []taskstest.Edge
	for i, kind := range attacks.Kinds() {
		p := params(w, kind)
		p.Epochs, p.Sums = 20, 1+i%2
		edges = append(edges, taskstest.In(AttackInput(i), g.Run(Reidentify, p, inputs...)))
	}
	var attacked []*taskstest.Node
	for _, e := range edges {
		attacked = append(attacked, e.Node)
	}
	taskstest.Golden(t, attacked...)
	taskstest.Golden(t, g.Run(Summary, summary(attacks.Kinds()...), edges...))
}

func TestOutcomeTextsFigureAndNote(t *testing.T) {
	t.Parallel()
	v := attacked(t, world{users: 6, rounds: 6, own: 0.5, device: 0.1, noise: 0.2, seed: 1}, asItIs)
	if texts := auditstest.Texts(&Audit, v); len(texts) != 3 || !strings.Contains(texts[1], "x)") {
		t.Errorf("texts %q", texts)
	}
	note := v.Note(nil)
	for _, kind := range attacks.Kinds() {
		if !strings.Contains(note, kind.Title()+": AP") {
			t.Errorf("the note %q has nothing about %s", note, kind)
		}
	}
	if f := v.Figure(nil); f == nil || len(f.Line) != curveSteps || len(f.Dots) != 3*curveSteps/5 {
		t.Errorf("figure %+v", f)
	}
	drawn := &Audit.Measures[slices.IndexFunc(Audit.Measures, func(m audits.Measure) bool { return m.Drawn != "" })]
	if found, ok := drawn.Interval(v); !ok || found.Value != v.Best().Factor || found.Low >= found.Value || found.High <= found.Value {
		t.Errorf("in figures of all cells it is %+v", found)
	}
	limit := 1.5
	c := &audits.Cell{Outcomes: []audits.Outcome{v}}
	if breaches := limits[0].Breaches(c, &limit); len(breaches) != 1 || !strings.Contains(breaches[0], "times chance") {
		t.Errorf("breaches %q", breaches)
	}
	limit = 100
	if breaches := limits[0].Breaches(c, &limit); len(breaches) > 0 {
		t.Errorf("breaches %q", breaches)
	}
	empty := new(Outcome)
	if _, ok := drawn.Interval(empty); ok {
		t.Error("nothing is in figures of all cells")
	}
	if texts := auditstest.Texts(&Audit, empty); fmt.Sprint(texts) != "[- - -]" || empty.Figure(nil) != nil {
		t.Errorf("of nothing: %q", texts)
	}
}

// Who cannot be told apart is known when the users are counted.
func TestCheckDataRejectsTooFewUsers(t *testing.T) {
	t.Parallel()
	f := &Fields{Deanonymization: new(Block)}
	for d, refused := range map[audits.Data]bool{
		{Seen: 2}: false, {Seen: 1, HeldOut: 1}: false, {}: false,
		{Seen: 1, Unseen: 5}: true, {Unseen: 5, HeldOut: 5}: true,
	} {
		var found string
		f.CheckData(nil, &d, func(_ []string, format string, args ...any) { found = fmt.Sprintf(format, args...) })
		if (found != "") != refused || refused && !strings.Contains(found, fmt.Sprintf("%d are seen", d.Seen)) {
			t.Errorf("%+v gives %q", d, found)
		}
	}
}

// With 10 of 200 devices in each of 20 rounds, 36% are in none: 0.95^20.
func TestPlanWarnsOfUsersOutsideRecordedRounds(t *testing.T) {
	t.Parallel()
	s := &audits.Setting{Recorded: &audits.Recorded{Recording: updates.Recording{Every: 2}}, Training: audits.Training{Rounds: 40, Cohort: 10}}
	f := &Fields{Deanonymization: new(Block)}
	got := strings.Join(f.Warnings(s, &audits.Data{Users: 200, Seen: 100}), "")
	if want := "unable to name about 36 of 100 users: with 10 of 200 devices in a round"; !strings.Contains(got, want) || !strings.Contains(got, "none of the 20 recorded rounds") {
		t.Errorf("the warning is %q, want a word of %q", got, want)
	}
	f.Deanonymization.Rounds = &RoundRange{From: 21, To: 40}
	if got := strings.Join(f.Warnings(s, &audits.Data{Users: 200, Seen: 100}), ""); !strings.Contains(got, "about 60 of 100") {
		t.Errorf("of ten rounds the warning is %q", got)
	}
	s.Training.Cohort = 100
	if got := f.Warnings(s, &audits.Data{Users: 200, Seen: 100}); got != nil {
		t.Errorf("where nobody is missed the warning is %q", got)
	}
}

// In an open world every anonymous update is a candidate, an unseen user's too, and none of a
// held-out user's is: average precision, counted by hand from the scores, and its mean over the
// seen users.
func TestUnseenUsersAreAmongTheCandidates(t *testing.T) {
	t.Parallel()
	w := world{users: 6, unseen: 4, heldOut: 3, rounds: 8, own: 0.3, device: 0.3, noise: 0.4, seed: 3}
	g := taskstest.NewGraph(t)
	node := g.Run(Reidentify, params(w, attacks.Cosine), w.inputs(g)...)
	v := outcome(t, g.Run(Summary, summary(attacks.Cosine), taskstest.In(AttackInput(0), node)))
	s := must.Get(ReadScores(t.Context(), g.Task(taskstest.In("scores", node)), "scores"))(t)
	if !slices.Equal(s.Classes, []int{0, 1, 2, 3, 4, 5}) || !s.Unseen || len(s.Items) != 10*8 || v.Devices != 10 {
		t.Errorf("classes %v and others %v, %d items of %d devices", s.Classes, s.Unseen, len(s.Items), v.Devices)
	}
	sum := 0.0
	for class, user := range s.Classes {
		sum += byHand(s, class, user)
	}
	o := v.Attacks[0]
	if mean := sum / 6; math.Abs(o.AP-mean) > 1e-12 || o.AP > 0.99 || math.Abs(o.Share-0.1) > 1e-12 {
		t.Errorf("AP %v with a share of %v, by hand %v and 0.1", o.AP, o.Share, mean)
	}
	if o.Unseen == nil || o.Unseen.Items != 4*8 || math.Abs(o.Unseen.Share-0.4) > 1e-12 {
		t.Errorf("of unseen users: %+v", o.Unseen)
	}
}

// byHand is the mean, over the items of a user, of the share of the user's items among those that
// score as high for the class, or higher.
func byHand(s *Scores, class, user int) float64 {
	sum, own := 0.0, 0.0
	for i, item := range s.Items {
		if item.Users[0] != user {
			continue
		}
		above, right := 0.0, 0.0
		for j, other := range s.Items {
			if s.Of(j, class) < s.Of(i, class) {
				continue
			}
			if above++; other.Users[0] == user {
				right++
			}
		}
		sum, own = sum+right/above, own+1
	}
	return sum / own
}

func TestNoteWarnsOfTrainingEndedByLastEpoch(t *testing.T) {
	t.Parallel()
	const warning = "(its training ended with its last epoch, 30: more may tell more)"
	for _, converged := range []bool{false, true} {
		v := &Outcome{Attacks: []AttackOutcome{{Attack: attacks.MLP, Users: 2, Taught: Taught{Training: attacks.Training{Epochs: 30, Best: 30, Converged: converged}}}}}
		if note := v.Note(nil); strings.Contains(note, warning) == converged || !strings.Contains(note, audits.UsersAlone) {
			t.Errorf("converged %v: %q", converged, note)
		}
	}
}

// An attack that learns from two updates of each of ten users takes a fiftieth of one that learns from
// half of 2,000, as far as the users are known.
func TestWorkScalesWithExamplesPerUser(t *testing.T) {
	t.Parallel()
	s := &audits.Setting{Training: audits.Training{Rounds: 100, Cohort: 20}, Recorded: &audits.Recorded{
		Recording: updates.Recording{Every: 1}, Layout: updates.Layout{Layers: []updates.Layer{{Values: 30}}},
	}}
	work := func(examples int) float64 { return AttacksWork(s, []attacks.Kind{attacks.MLP}, 5, 32, examples) }
	if all := work(0); all <= 0 || work(2) != all {
		t.Errorf("%g for all updates, and %g for two of each of users that nobody has counted", all, work(2))
	}
	s.Data = &audits.Data{Seen: 10}
	if few, all := work(2), work(0); few != all/50 || work(1000) != all {
		t.Errorf("%g for two updates of each of 10 users and %g for a thousand, %g for all", few, work(1000), all)
	}
}

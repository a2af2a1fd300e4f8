package membership

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"

	"coalmine/internal/lists"
	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// written is a world whose users write words, members as by the first distribution and held-out users
// as by the second, of which word w has a share in proportion to w+1 or to the number of words less w.
func written(rng *rand.Rand, users int, alike bool) *world {
	losses, texts := make([]UserLoss, users), make([]UserText, users)
	for i := range losses {
		losses[i] = UserLoss{Targets: 1, Loss: 1 + rng.Float64(), Member: i%2 == 0}
		var words []int64
		for range 20 + rng.IntN(20) {
			word := max(rng.Int64N(30), rng.Int64N(30))
			if !alike && losses[i].Member {
				word = 29 - word
			}
			words = append(words, word)
		}
		texts[i] = NewUserText(words, []byte(strings.Repeat("a", len(words))))
	}
	w := newWorld(losses, 1)
	w.read(texts)
	return w
}

// The baseline tells texts apart that have other words, and no others: with the seeds of 1 to 20 the
// interval of 95% misses one half at most four times, which chance does in 0.3% of all such twenties.
func TestBlindBaselineDetectsDifferentTextsOnly(t *testing.T) {
	t.Parallel()
	missed := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 6))
		told, err := written(rng, 120, false).outcome()
		if err != nil || told.Blind.Members.AUC.Low < 0.9 {
			t.Errorf("of other words: %+v (%v)", told.Blind, err)
		}
		same := must.Get(written(rng, 120, true).outcome())(t)
		if a := same.Blind.Members.AUC; a.Low > 0.5 || a.High < 0.5 {
			missed++
		}
		if d := told.of(Loss).OverBlind; d.High > 0 || !strings.Contains(told.Note(nil), "loss: AUC "+percents(told.of(Loss).Members.AUC)) || !strings.Contains(told.Note(nil), "not shown to be above the blind baseline") {
			t.Errorf("%+v, note %q", d, told.Note(nil))
		}
	}
	if missed > 4 {
		t.Errorf("texts of one distribution are told apart in %d of 20", missed)
	}
}

// The score of a user is the definition: a classifier trained on the users of the other folds.
func TestTheBlindBaselineIsCrossValidatedNaiveBayes(t *testing.T) {
	t.Parallel()
	w := written(rand.New(rand.NewPCG(7, 0)), 37, false)
	vocabulary := map[int64]bool{}
	for i := range w.texts {
		for f := w.texts[i].features(); len(f) > 0; f = f[2:] {
			vocabulary[f[0]] = true
		}
	}
	got := w.blind()
	for user := range w.users {
		counts := map[bool]map[int64]float64{true: {}, false: {}}
		totals := map[bool]float64{true: float64(len(vocabulary)), false: float64(len(vocabulary))}
		for other := range w.users {
			if (other/2)%folds == (user/2)%folds { // members have even numbers, and so one turn each
				continue
			}
			for f := w.texts[other].features(); len(f) > 0; f = f[2:] {
				counts[w.of[other].Member][f[0]] += float64(f[1])
				totals[w.of[other].Member] += float64(f[1])
			}
		}
		want := 0.0
		for f := w.texts[user].features(); len(f) > 0; f = f[2:] {
			p := func(member bool) float64 { return (counts[member][f[0]] + 1) / totals[member] }
			want += float64(f[1]) * math.Log(p(true)/p(false))
		}
		if math.Abs(got[user]-want) > 1e-9*math.Abs(want) {
			t.Errorf("user %d: %v, want %v", user, got[user], want)
		}
	}
}

func TestUserTextsCountWords(t *testing.T) {
	t.Parallel()
	text := NewUserText([]int64{7, 3, 7, 7, 5}, []byte("a text"))
	if !slices.Equal(text.Words, []int64{3, 1, 5, 1, 7, 3}) || text.Compressed <= 8 || !slices.Equal(text.features()[:2], []int64{-4, 1}) {
		t.Errorf("%+v, features %v", text, text.features())
	}
	g := taskstest.NewGraph(t)
	losses := g.Put("losses", map[string][]byte{LossesBlob: []byte(`[{"targets":1,"loss":1,"member":true},{"targets":1,"loss":2}]`)})
	for want, texts := range map[string]string{
		"texts has the texts of 1 user; expected 2":    `[{"words":[1,2],"compressed":9}]`,
		"the text of user 1 has 1 numbers and 0 bytes": `[{"words":[1,2],"compressed":9},{"words":[1]}]`,
	} {
		given := g.Put(want, map[string][]byte{TextsBlob: []byte(texts)})
		_, err := g.Try(Kind, Params{Shares: 1, Texts: true}, taskstest.In(tasks.PartInput(0), losses), taskstest.In(TextsInput, given))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A writer that has compressed other texts gives the same bytes as a new one.
func TestCompressionDependsOnTheTextAlone(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 1))
	for range 300 {
		text := make([]byte, rng.IntN(3000))
		for i := range text {
			text[i] = "abcdefgh "[rng.IntN(9)]
		}
		var stream bytes.Buffer
		w := must.Get(zlib.NewWriterLevel(&stream, 6))(t)
		must.Get(w.Write(text))(t)
		must.Do(t, w.Close())
		if got := compressed(text); got != int64(stream.Len()) {
			t.Fatalf("%d bytes of %q, want %d", got, text, stream.Len())
		}
	}
}

func TestLowestMatchesSort(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 2))
	for _, draw := range []func() float64{
		rng.NormFloat64,
		func() float64 { return -3 },
		func() float64 { return float64(rng.IntN(4)) },
		func() float64 { return math.Exp(30 * rng.NormFloat64()) },
		func() float64 { return math.Copysign(math.MaxFloat64, rng.NormFloat64()) },
		func() float64 { return []float64{math.Inf(-1), math.NaN(), 1}[rng.IntN(3)] },
	} {
		for n := range 60 {
			values := lists.Make(n+1, func(int) float64 { return draw() })
			want := slices.Sorted(slices.Values(values))[:n/2+1]
			if got := lowest(slices.Clone(values), n/2+1); !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
				t.Fatalf("%v of %v, want %v", got, values, want)
			}
		}
	}
}

// Of eleven targets the two least likely ones count, and not the same by both scores.
func TestMinKUsesLeastLikelyTargets(t *testing.T) {
	t.Parallel()
	scores := slices.Repeat([]models.TokenScore{{LogProb: -1, Mean: -2, Deviation: 1}}, 8)
	scores = append(scores, models.TokenScore{LogProb: -9, Mean: -9, Deviation: 3}, models.TokenScore{LogProb: -7, Mean: -6, Deviation: 0.5}, models.TokenScore{LogProb: -2, Mean: -1, Deviation: 0.25})
	l := LossOf(scores)
	if l.Targets != 11 || l.Loss != 8+9+7+2 || !l.ByToken || l.MinK != -8 || l.MinKPlusPlus != -3 {
		t.Errorf("%+v", l)
	}
	if one := LossOf(scores[8:9]); one.MinK != -9 || one.MinKPlusPlus != 0 {
		t.Errorf("of one target %+v", one)
	}
	if none := LossOf(nil); none != (UserLoss{}) {
		t.Errorf("of none %+v", none)
	}
}

// Curvature follows from the mean and the deviation of the log-likelihood over all texts, enumerated, whose tokens the
// model draws after the beginning of the text. Repeating a text does not change it.
func TestCurvatureIsTheDistanceToTextsOfTheModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(12, 0))
	for range 50 {
		var scores []models.TokenScore
		logs := []float64{0} // of all texts
		for range 1 + rng.IntN(4) {
			p, total := make([]float64, 2+rng.IntN(4)), 0.0
			for z := range p {
				p[z] = rng.ExpFloat64()
				total += p[z]
			}
			s, square := models.TokenScore{}, 0.0
			var longer []float64
			for z := range p {
				l := math.Log(p[z] / total)
				s.Mean, square = s.Mean+math.Exp(l)*l, square+math.Exp(l)*l*l
				for _, before := range logs {
					longer = append(longer, before+l)
				}
			}
			s.LogProb, s.Deviation = float32(math.Log(p[0]/total)), math.Sqrt(square-s.Mean*s.Mean)
			scores, logs = append(scores, s), longer
		}
		mean, square := 0.0, 0.0
		for _, l := range logs {
			mean, square = mean+math.Exp(l)*l, square+math.Exp(l)*l*l
		}
		l := LossOf(scores)
		want := (-l.Loss - mean) / math.Sqrt(square-mean*mean) / math.Sqrt(float64(len(scores)))
		if twice := LossOf(slices.Concat(scores, scores)); math.Abs(l.Curvature-want) > 1e-9 || math.Abs(twice.Curvature-want) > 1e-9 {
			t.Errorf("%+v: curvature %v, of the text twice %v, want %v", scores, l.Curvature, twice.Curvature, want)
		}
	}
	if certain := LossOf([]models.TokenScore{{}}); certain.Curvature != 0 {
		t.Errorf("of a certain token %+v", certain)
	}
}

// A model without losses by token, as one of a program, has the attacks by loss alone.
func TestAttacksHaveTheirInputs(t *testing.T) {
	t.Parallel()
	w := random(rand.New(rand.NewPCG(8, 0)), 30, 4)
	v := must.Get(w.outcome())(t)
	var got []Attack
	for _, o := range v.Attacks {
		got = append(got, o.Attack)
		if o.OverBlind != nil {
			t.Errorf("%s is compared with a baseline without texts: %+v", o.Attack, o.OverBlind)
		}
	}
	if want := []Attack{Loss, LiRA, LiRAOffline, RMIA, RMIAOffline}; !slices.Equal(got, want) || v.Blind != nil {
		t.Errorf("%v, blind %v; want %v", got, v.Blind, want)
	}
}

// Members lose more after a foreign text, and by other words: their scores are higher. ReCaLL leaves out whose text that
// is, and is compared with the baseline without them too.
func TestReCaLLAndNeighbourSeparateMembers(t *testing.T) {
	t.Parallel()
	w := written(rand.New(rand.NewPCG(9, 0)), 120, true)
	w.Rescoring = Rescoring{2, 5}
	for i := range w.of {
		l := &w.of[i]
		l.Prefixed, l.Neighbours = l.Loss*1.1, l.Loss+1
		if l.Member {
			l.Prefixed, l.Neighbours = l.Loss*1.2, l.Loss+2
		} else if i < 4 {
			l.Aside, l.Prefixed = true, 0
		}
	}
	v := must.Get(w.outcome())(t)
	for _, attack := range []Attack{ReCaLL, Neighbour} {
		o := v.of(attack)
		if o.Members.AUC.Value != 1 || o.OverBlind == nil || o.OverBlind.Low <= 0 {
			t.Errorf("%s: %+v, over the baseline %+v", attack, o.Members, o.OverBlind)
		}
	}
	if got := v.of(ReCaLL).OverBlind.Value; got == v.of(Neighbour).OverBlind.Value {
		t.Errorf("ReCaLL is above the baseline by %v of all users", got)
	}
	if note := v.Note(nil); !strings.Contains(note, "; ReCaLL scores texts after those of 2 held-out users, whom it leaves out; 5 neighbours of each text") {
		t.Errorf("note %q", note)
	}
}

// A neighbour has one other ordinary word in twenty, and the rest is the text's.
func TestNeighboursReplaceFewWords(t *testing.T) {
	t.Parallel()
	const first = text.FirstWord
	pool := []int32{first, first, first + 1, first + 2}
	for _, words := range []int{1, 2, 19, 40, 99} {
		example := []int32{text.Begin}
		for i := range words {
			example = append(example, first+int32(i%3))
		}
		example = append(example, text.Unknown, text.End)
		texts := Neighbours(rand.New(rand.NewPCG(10, uint64(words))), example, pool, 50)
		for _, text := range texts {
			others := 0
			for i := range text {
				if text[i] != example[i] {
					others++
					if special(text[i]) || special(example[i]) {
						t.Errorf("%d in place of %d", text[i], example[i])
					}
				}
			}
			if want := max(1, words/20); len(text) != len(example) || others != want {
				t.Errorf("%d of %d words differ, want %d", others, words, want)
			}
		}
	}
	if empty := Neighbours(nil, []int32{text.Begin, text.End}, nil, 2); !slices.Equal(empty[1], []int32{text.Begin, text.End}) {
		t.Errorf("an empty text has the neighbours %v", empty)
	}
}

// The offline attack of reference models ranks as the difference to their mean loss, the reference-calibrated loss of
// Carlini et al. 2021, does: its deviation is that of all users.
func TestLiRAOfflineIsTheCalibratedLoss(t *testing.T) {
	t.Parallel()
	w := random(rand.New(rand.NewPCG(11, 0)), 60, 4)
	offline := w.liraOffline()
	for a := range w.users {
		for b := range w.users {
			calibrated := w.target[a] - meanOf(w, a, false) - (w.target[b] - meanOf(w, b, false))
			if math.Abs(calibrated) > 1e-9 && (offline[a] > offline[b]) != (calibrated > 0) {
				t.Fatalf("users %d and %d: %v and %v, by the calibrated loss %v apart", a, b, offline[a], offline[b], calibrated)
			}
		}
	}
}

// The interval of a difference of areas holds the true one, here 0 of two scores that are equally good
// and correlated. The number of misses among 400 is binomial: 35 or more at a rate of 5% has probability 0.09%.
func TestDifferencesOfAreasHaveTheirCoverage(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{10, 10}, {12, 60}, {40, 40}} {
		rng := rand.New(rand.NewPCG(uint64(size[1]), 9))
		missed := 0
		for range 400 {
			draw := func(n int, shift float64) (a, b []float64) {
				for range n {
					common := rng.NormFloat64() + shift
					a, b = append(a, common+rng.NormFloat64()), append(b, common+rng.NormFloat64())
				}
				return a, b
			}
			membersA, membersB := draw(size[0], 0.7)
			heldOutA, heldOutB := draw(size[1], 0)
			d := areaDifference(membersA, heldOutA, membersB, heldOutB)
			if d.Low > 0 || d.High < 0 {
				missed++
			}
			if want := areaOf(membersA, heldOutA) - areaOf(membersB, heldOutB); math.Abs(d.Value-want) > 1e-12 {
				t.Fatalf("%v, want %v", d.Value, want)
			}
		}
		if missed >= 35 {
			t.Errorf("%d against %d: %d of 400 intervals miss 0", size[0], size[1], missed)
		}
	}
	if d := areaDifference(make([]float64, 9), make([]float64, 50), make([]float64, 9), make([]float64, 50)); d != nil {
		t.Errorf("of nine users %+v", d)
	}
}

// areaOf compares all pairs.
func areaOf(members, heldOut []float64) (sum float64) {
	for _, m := range members {
		for _, h := range heldOut {
			switch {
			case m > h:
				sum++
			case m == h:
				sum += 0.5
			}
		}
	}
	return sum / float64(len(members)*len(heldOut))
}

// The figure has a line for each attack, one for the baseline, and one for chance.
func TestTheFigureHasTheBaseline(t *testing.T) {
	t.Parallel()
	v := must.Get(written(rand.New(rand.NewPCG(10, 0)), 60, false).outcome())(t)
	var names []string
	for _, line := range v.Figure(new(audits.Cell)).Lines {
		names = append(names, line.Name)
	}
	if want := []string{"chance", "loss", "zlib", "blind"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// A baseline that chance has put below one half does not make an attack that knows nothing look good.
func TestBaselineBelowChanceIsNotCredited(t *testing.T) {
	t.Parallel()
	over := &audits.Interval{Value: 0.15, Low: 0.02, High: 0.3}
	for _, c := range []struct {
		blind, low float64
		want       string
	}{
		{0.55, 0.5, ", above the blind baseline of 55.00% by 15.00% (2.00 to 30.00)"},
		{0.4, 0.51, ", above the blind baseline of 40.00% by 15.00% (2.00 to 30.00)"},
		{0.4, 0.49, ", above the blind baseline of 40.00%, but not shown to be above chance"},
	} {
		o := AttackOutcome{OverBlind: over, Members: &Group{AUC: audits.Interval{Low: c.low}}}
		if got := o.overBlindText(&Group{AUC: audits.Interval{Value: c.blind}}); got != c.want {
			t.Errorf("blind %v, least %v: %q, want %q", c.blind, c.low, got, c.want)
		}
	}
}

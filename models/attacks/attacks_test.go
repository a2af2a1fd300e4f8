package attacks

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
)

// set is data in memory, in blocks of some examples.
type set struct {
	shape Shape
	Block
	held  Block
	block int
	seed  uint64
}

func (s *set) Examples() int     { return len(s.Labels) }
func (s *set) Validation() Block { return s.held }

func (s *set) Blocks(_ context.Context, epoch int, do func(Block) error) error {
	order := make([]int, len(s.Labels))
	for i := range order {
		order[i] = i
	}
	if epoch > 0 {
		order = rand.New(rand.NewPCG(s.seed, uint64(epoch))).Perm(len(order))
	}
	for part := range slices.Chunk(order, cmp.Or(s.block, len(order))) {
		var b Block
		for _, i := range part {
			b.Rows = append(b.Rows, s.Rows[i*s.shape.Inputs:(i+1)*s.shape.Inputs]...)
			b.Labels = append(b.Labels, s.Labels[i])
			b.At = append(b.At, i)
		}
		if err := do(b); err != nil {
			return err
		}
	}
	return nil
}

// clusters draws examples around a centre for each class, of length 1, with the noise.
func clusters(rng *rand.Rand, s Shape, centres []float32, n int, noise float64) Block {
	b := Block{Rows: make([]float32, n*s.Inputs), Labels: make([]int, n)}
	for i := range n {
		b.Labels[i] = i % s.Classes
		row := b.Rows[i*s.Inputs : (i+1)*s.Inputs]
		for j := range row {
			row[j] = centres[b.Labels[i]*s.Inputs+j] + float32(noise*rng.NormFloat64())
		}
		kernels.Scale(float32(1/math.Sqrt(kernels.SquaredNorm(row))), row)
	}
	return b
}

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// task is a set that can be learned, and other examples of its classes.
func task(s Shape, n int, noise float64) (*set, Block) {
	rng := rand.New(rand.NewPCG(7, 0))
	centres := normals(rng, s.Classes*s.Inputs)
	return &set{shape: s, Block: clusters(rng, s, centres, n, noise), held: clusters(rng, s, centres, n/4, noise), block: 64}, clusters(rng, s, centres, n/2, noise)
}

func mustTrain(t *testing.T, kind Kind, s Shape, o Options, data Data) (Attack, Training) {
	t.Helper()
	a := must.Get(New(kind, s, o, rand.New(rand.NewPCG(1, 0))))(t)
	how := must.Get(a.Train(t.Context(), data))(t)
	return a, how
}

func mustScore(t *testing.T, a Attack, s Shape, rows []float32) []float32 {
	t.Helper()
	scores := make([]float32, len(rows)/s.Inputs*s.Classes)
	must.Do(t, a.Score(t.Context(), rows, scores))
	return scores
}

// right is the share of rows whose own class scores highest.
func right(scores []float32, labels []int, classes int) float64 {
	n := 0
	for i, label := range labels {
		row := scores[i*classes : (i+1)*classes]
		if row[label] == slices.Max(row) {
			n++
		}
	}
	return float64(n) / float64(len(labels))
}

func TestEveryAttackLearns(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 60, Classes: 8}
	data, others := task(s, 320, 1)
	for _, kind := range Kinds() {
		a, how := mustTrain(t, kind, s, Options{Epochs: 2000, Batch: 32}, data)
		if share := right(mustScore(t, a, s, others.Rows), others.Labels, s.Classes); share < 0.95 {
			t.Errorf("%s names %.3f of what it should after %+v; chance is 1/8", kind, share, how)
		}
		if (kind.Validates() || kind == SVM) && (!how.Converged || how.Best > how.Epochs || how.Best == 0) {
			t.Errorf("%s: %+v; it has not converged", kind, how)
		}
	}
}

func TestScoresDoNotDependOnOtherRows(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 20, Classes: 5}
	data, others := task(s, 100, 0.5)
	for _, kind := range Kinds() {
		a, _ := mustTrain(t, kind, s, Options{Epochs: 10, Batch: 16}, data)
		together := mustScore(t, a, s, others.Rows)
		for i := range others.Labels {
			alone := mustScore(t, a, s, others.Rows[i*s.Inputs:(i+1)*s.Inputs])
			if !slices.Equal(alone, together[i*s.Classes:(i+1)*s.Classes]) {
				t.Fatalf("%s: row %d scores %v alone and %v among others", kind, i, alone, together[i*s.Classes:(i+1)*s.Classes])
			}
		}
	}
}

// reference is the network's loss in float64.
func reference(weights [][]float64, s Shape, b Block) float64 {
	loss := 0.0
	for i, label := range b.Labels {
		hidden := make([]float64, Hidden)
		for h := range hidden {
			hidden[h] = weights[1][h]
			for j := range s.Inputs {
				hidden[h] += float64(b.Rows[i*s.Inputs+j]) * weights[0][j*Hidden+h]
			}
			hidden[h] = max(0, hidden[h])
		}
		sum, own := 0.0, 0.0
		for c := range s.Classes {
			z := weights[3][c]
			for h, value := range hidden {
				z += value * weights[2][h*s.Classes+c]
			}
			if sum += math.Exp(z); c == label {
				own = z
			}
		}
		loss += math.Log(sum) - own
	}
	return loss / float64(len(b.Labels))
}

// widened are the weights and biases of a network's layers.
func widened(m *mlp) (wide [][]float64) {
	for _, t := range m.network.Graph().Tensors() {
		row := make([]float64, t.Size())
		for i, v := range t.View(m.params()) {
			row[i] = float64(v)
		}
		wide = append(wide, row)
	}
	return wide
}

func TestNetworkGradientMatchesFiniteDifferences(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 7, Classes: 4}
	rng := rand.New(rand.NewPCG(3, 0))
	m := newMLP(s, Options{Epochs: 1, Batch: 6}, rng).(*mlp)
	must.Do(t, m.begin(6))
	kernels.Axpy(0.1, normals(rng, len(m.params())), m.params()) // biases, too
	b := Block{Rows: normals(rng, 6*s.Inputs), Labels: []int{0, 1, 2, 3, 1, 0}}
	wide := widened(m)
	if got, err := m.loss(b); err != nil || math.Abs(got-reference(wide, s, b)) > 1e-5 {
		t.Errorf("loss %v, want %v: %v", got, reference(wide, s, b), err)
	}
	_, gradient, err := m.network.Learn(6, b.row(s), [][]int{b.Labels})
	if err != nil {
		t.Fatal(err)
	}
	for part, tensor := range m.network.Graph().Tensors() {
		for range 60 {
			w, i := wide[part], rng.IntN(tensor.Size())
			const h = 1e-6
			w[i] += h
			above := reference(wide, s, b)
			w[i] -= 2 * h
			below := reference(wide, s, b)
			w[i] += h
			if got, want := tensor.View(gradient)[i], (above-below)/(2*h); math.Abs(float64(got)-want) > 1e-5 {
				t.Errorf("gradient of %v, element %d: %v, want %v", tensor, i, got, want)
			}
		}
	}
}

// Two steps of Keras' SGD by hand: the second has the momentum and another rate.
func TestStepsMatchKeras(t *testing.T) {
	t.Parallel()
	k, params := keras{moves: make([]float32, 2)}, []float32{2, 0}
	k.move(params, []float32{3.5, 1.5}, 1)
	if params[0] != -1.5 || params[1] != -1.5 {
		t.Errorf("after one step %v, want -1.5 twice", params)
	}
	k.move(params, []float32{1, 1}, 0.25)
	if w, b := float64(params[0]), float64(params[1]); math.Abs(w-(-1.5-3.15-0.25)) > 1e-6 || math.Abs(b-(-1.5-1.35-0.25)) > 1e-6 || k.steps != 2 {
		t.Errorf("after %d steps %v and %v, want -4.9 and -3.1", k.steps, w, b)
	}
}

// The machines of a small problem equal those of scikit-learn 1.2.1,
// LinearSVC(tol=1e-10), for every batch size.
func TestLinearMachineMatchesScikitLearn(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 3, Classes: 3}
	data := &set{shape: s, Block: Block{Rows: make([]float32, 36), Labels: make([]int, 12)}, block: 5}
	for i := range 12 {
		data.Labels[i] = i % 3
		for j := range 3 {
			data.Rows[3*i+j] = float32((7*i+5*j+i*i*j)%11) / 8
		}
		data.Rows[3*i+i%3] += 0.25
	}
	want := []float32{
		0.887702, -0.293790, -1.136414, -0.415034, 0.531646, -0.232313, -0.169904, -0.878875, 0.784033,
		-0.454310, 0.231371, -0.234382, // the bias
	}
	for _, batch := range []int{1, 4, 12} {
		a, how := mustTrain(t, SVM, s, Options{Epochs: 10_000, Batch: batch}, data)
		m := a.(*svmAttack)
		for i, w := range append(slices.Clone(m.weights), m.bias...) {
			if math.Abs(float64(w-want[i])) > 1e-3 || !how.Converged {
				t.Errorf("in batches of %d weight %d is %v, expected %v: %+v", batch, i, w, want[i], how)
			}
		}
	}
}

// objective is the function that the machine of a class minimizes, in float64.
func objective(s Shape, weights, bias []float32, b Block, class int) float64 {
	value := float64(bias[class]) * float64(bias[class]) / 2
	for j := range s.Inputs {
		w := float64(weights[j*s.Classes+class])
		value += w * w / 2
	}
	for i, label := range b.Labels {
		z := float64(bias[class])
		for j := range s.Inputs {
			z += float64(weights[j*s.Classes+class]) * float64(b.Rows[i*s.Inputs+j])
		}
		loss := max(0, 1-float64(sign(label == class))*z)
		value += loss * loss
	}
	return value
}

// At the minimum of a convex function no step in any direction leads down: none of many random
// ones, small and large, does so by more than a millionth.
func TestLinearMachineReachesMinimum(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 12, Classes: 3}
	data, _ := task(s, 90, 1.5)
	a, _ := mustTrain(t, SVM, s, Options{Epochs: 400, Batch: 16}, data)
	m := a.(*svmAttack)
	rng := rand.New(rand.NewPCG(5, 0))
	for class := range s.Classes {
		least := objective(s, m.weights, m.bias, data.Block, class)
		for range 300 {
			weights, bias, far := slices.Clone(m.weights), slices.Clone(m.bias), float32(math.Pow(10, -4*rng.Float64()))
			kernels.Axpy(far, normals(rng, len(weights)), weights)
			kernels.Axpy(far, normals(rng, len(bias)), bias)
			if value := objective(s, weights, bias, data.Block, class); value < (1-1e-6)*least {
				t.Fatalf("class %d: a step leads from %v to %v", class, least, value)
			}
		}
	}
}

func TestNeighboursAreTheNearest(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 3, Classes: 4}
	rng := rand.New(rand.NewPCG(6, 0))
	data := &set{shape: s, block: 100, Block: Block{Rows: make([]float32, 700*3), Labels: make([]int, 700)}}
	for i := range data.Rows {
		data.Rows[i] = float32(rng.IntN(5)) // so that there are ties
	}
	for i := range data.Labels {
		data.Labels[i] = rng.IntN(4)
	}
	a, _ := mustTrain(t, KNN, s, Options{Epochs: 1, Batch: 1}, data)
	rows := normals(rng, 40*3)
	copy(rows, data.Rows[:30])
	scores := mustScore(t, a, s, rows)
	for i := range 40 {
		order := make([]int, len(data.Labels))
		for j := range order {
			order[j] = j
		}
		distance := func(j int) (d float64) {
			for k := range 3 {
				d += math.Pow(float64(data.Rows[j*3+k])-float64(rows[i*3+k]), 2)
			}
			return math.Round(d*1e5) / 1e5
		}
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(distance(x), distance(y)) })
		want := make([]float32, 4)
		for _, j := range order[:Neighbours] {
			want[data.Labels[j]] += 0.1
		}
		if got := scores[i*4 : (i+1)*4]; !slices.Equal(got, want) {
			t.Errorf("row %d scores %v, want %v", i, got, want)
		}
	}
}

func TestCosineScoresMatchClassMeans(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 2, Classes: 3}
	data := &set{shape: s, Block: Block{Rows: []float32{1, 0, 3, 4, 0, 2}, Labels: []int{0, 1, 1}}}
	a, _ := mustTrain(t, Cosine, s, Options{Epochs: 1, Batch: 1}, data)
	got := mustScore(t, a, s, []float32{0, 5, 0, 0})
	want := []float32{0, float32(6 / math.Sqrt(45)), 0, 0, 0, 0}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-6 {
			t.Errorf("scores %v, want %v", got, want)
			break
		}
	}
}

func TestTrainRejectsBadInput(t *testing.T) {
	t.Parallel()
	good := Options{Epochs: 1, Batch: 1}
	for name, c := range map[string]struct {
		kind  Kind
		shape Shape
		o     Options
	}{
		"unknown":   {"guess", Shape{2, 2}, good},
		"one class": {MLP, Shape{2, 1}, good},
		"no epoch":  {MLP, Shape{2, 2}, Options{Batch: 1}},
	} {
		if _, err := New(c.kind, c.shape, c.o, rand.New(rand.NewPCG(1, 0))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, kind := range Kinds() {
		bad := &set{shape: Shape{1, 2}, Block: Block{Rows: []float32{1, 2}, Labels: []int{0, 2}}}
		a, err := New(kind, Shape{1, 2}, good, rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Train(t.Context(), bad)
		if kind == KNN {
			err = a.Score(t.Context(), []float32{1}, make([]float32, 2))
		}
		if err == nil {
			t.Errorf("%s learns a class that there is not", kind)
		}
	}
}

func TestATrainingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := Shape{Inputs: 20, Classes: 5}
	data, _ := task(s, 100, 0.5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := must.Get(New(MLP, s, Options{Epochs: 10, Batch: 16}, rand.New(rand.NewPCG(1, 0))))(t)
	if _, err := a.Train(ctx, data); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// The size of the paper's sentiment analysis: embedding layers of 50,000 values, 118 users.
var paper = Shape{Inputs: 50000, Classes: 118}

func BenchmarkMLP(b *testing.B) {
	data := clusters(rand.New(rand.NewPCG(1, 0)), paper, make([]float32, paper.Inputs*paper.Classes), 32, 1)
	m := newMLP(paper, Options{Epochs: 1, Batch: 32}, rand.New(rand.NewPCG(1, 0))).(*mlp)
	must.Do(b, m.begin(32))
	for b.Loop() {
		must.Do(b, m.step(data))
	}
}

// BenchmarkSVM trains the machines of 297 classes, whose examples have much in common.
func BenchmarkSVM(b *testing.B) {
	s := Shape{Inputs: 1290, Classes: 297}
	rng := rand.New(rand.NewPCG(7, 0))
	centres, common := normals(rng, s.Classes*s.Inputs), normals(rng, s.Inputs)
	for i := range centres {
		centres[i] = 0.3*centres[i] + 10*common[i%s.Inputs]
	}
	data, others := &set{shape: s, Block: clusters(rng, s, centres, 1600, 1)}, clusters(rng, s, centres, 1000, 1)
	for b.Loop() {
		a := must.Get(New(SVM, s, Options{Epochs: 1000, Batch: 32}, rng))(b)
		how := must.Get(a.Train(b.Context(), data))(b)
		scores := make([]float32, len(others.Labels)*s.Classes)
		must.Do(b, a.Score(b.Context(), others.Rows, scores))
		b.ReportMetric(float64(how.Epochs), "epochs")
		b.ReportMetric(right(scores, others.Labels, s.Classes), "right")
	}
}

// byBruteForce are the k nearest ids of a query, of vectors of small whole numbers, whose
// distances are exact.
func byBruteForce(query []float32, vectors []float32, ids []int, k int) []int {
	type at struct {
		square float32
		place  int
	}
	all := make([]at, len(ids))
	for v := range ids {
		all[v].place = v
		for i, x := range query {
			d := x - vectors[v*len(query)+i]
			all[v].square += d * d
		}
	}
	slices.SortStableFunc(all, func(a, b at) int { return cmp.Compare(a.square, b.square) })
	var near []int
	for _, a := range all[:min(k, len(all))] {
		near = append(near, ids[a.place])
	}
	return near
}

func whole(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.IntN(4))
	}
	return x
}

// The numbers are whole and few, so that many distances are equal.
func TestSearchMatchesBruteForceInAnyOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for range 60 {
		dimension, n, k := 1+rng.IntN(6), rng.IntN(3*tile), 1+rng.IntN(12)
		queries, vectors := whole(rng, dimension*(1+rng.IntN(5))), whole(rng, dimension*n)
		ids := rng.Perm(n)
		search := NewSearch(queries, dimension, k)
		for from := 0; from < n; {
			to := min(n, from+1+rng.IntN(2*tile))
			must.Do(t, search.Show(t.Context(), vectors[from*dimension:to*dimension], ids[from:to]))
			from = to
		}
		for q := range len(queries) / dimension {
			want := byBruteForce(queries[q*dimension:(q+1)*dimension], vectors, ids, k)
			if got := search.Nearest(q); !slices.Equal(got, want) {
				t.Fatalf("query %d, %d of %d vectors of %d values: %v, want %v", q, k, n, dimension, got, want)
			}
		}
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := NewSearch([]float32{1}, 1, 1).Show(ctx, []float32{1}, []int{0}); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

package onerun

import (
	"cmp"
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"coalmine/internal/lists"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/external"
)

// CanariesOf is the kind of the audit's canaries.
type CanariesOf string

// Kinds of canaries. The empty kind is Text.
const (
	// Text is a sequence of words in the data.
	Text CanariesOf = "text"
	// Update is a vector that a user sends instead of an update.
	Update CanariesOf = "update"
	// Gradient is a vector instead of a record's gradient.
	Gradient CanariesOf = "gradient"
)

func (CanariesOf) Choices() []string { return []string{string(Text), string(Update), string(Gradient)} }

// Statistic is the evidence about canaries that are vectors.
type Statistic string

// Statistics.
const (
	// AllIterates is the likelihood of the releases of all rounds or steps.
	AllIterates Statistic = "all-iterates"
	// FinalModel is the inner product with the change of the model from the first round to the last.
	FinalModel Statistic = "final"
)

func (Statistic) Choices() []string { return []string{string(AllIterates), string(FinalModel)} }

func (o *Block) Vectors() bool { return o.CanariesOf == Update || o.CanariesOf == Gradient }

func (f *Fields) Sends() bool { return f.OneRun.Vectors() }

func (f *Fields) Clients(s *audits.Setting) *canaries.Clients {
	return &canaries.Clients{Count: f.OneRun.Canaries, Over: canaries.Over, Coins: s.Training.Sampling.Neighbouring()}
}

func (f *Fields) Watch(s *audits.Setting) *canaries.Watch {
	o, t := f.OneRun, &s.Training
	if o.Statistic == FinalModel {
		return nil
	}
	return &canaries.Watch{Canaries: o.Canaries, Records: o.CanariesOf == Gradient, Evidence: &canaries.Evidence{
		Divisor: t.Cohort, Clip: t.Clip, NoiseMultiplier: t.NoiseMultiplier, Coins: t.Sampling.Neighbouring(),
		Known: t.Sampling != privacy.Poisson && t.Sampling != privacy.FixedSize,
	}}
}

// Request implements audits.Sender. External trainings are rejected.
func (f *Fields) Request() *external.OneShot { return nil }

func (o *Block) completeVectors(given func(path string) bool) {
	if !given(path + ".words") {
		o.Words = 0
	}
	if o.Design == canaries.RandomWords {
		o.Design = ""
	}
	o.Statistic = cmp.Or(o.Statistic, AllIterates)
	if !given(path + ".trade_off") {
		o.TradeOff = true
	}
}

// checkVectors reports trainings whose releases are not sums that include the canaries' vectors.
func (o *Block) checkVectors(s *audits.Setting, fail audits.Fail) (ok bool) {
	const field = path + ".canaries_of"
	t := &s.Training
	for _, c := range []struct {
		wrong        bool
		path, reason string
	}{
		{s.External != nil, "training.algorithm", "has vectors sent in a training by Coalmine, and the training is external; set it to text"},
		{o.CanariesOf == Update && t.Central, "training.algorithm", "is update, and training.algorithm: sgd clips gradients; set it to gradient"},
		{o.CanariesOf == Gradient && !t.Central, "training.algorithm", "is gradient, and training.algorithm: fedavg clips updates; set it to update"},
		{t.Clip == 0, "training.privacy", "has vectors as long as the clip norm, and there is none; set training.privacy.clip"},
		{t.Recipe.ClipQuantile != nil, "training.privacy.adaptive", "has vectors as long as a clip norm that stays; remove training.privacy.adaptive"},
		{t.ClientNoise > 0, "training.client.noise", "tests the noise of the server, and clients add noise, too; remove theirs"},
		{t.Compressed, "training.client.compress", "has vectors that are sent as they are, and training.client.compress changes them; remove one of them"},
		{t.Quantized, "training.quantize_bits", "measures the model as the training leaves it, and training.quantize_bits rounds its weights; remove one of them"},
		{s.Canaries != nil, "canaries", "puts vectors in the place of users or records, which may carry canaries of the canaries block; remove that block"},
		{s.Devices != nil, "data.devices", "puts vectors in the place of users, and data.devices divides users into devices; remove one of them"},
		{s.Records, "training.record", "sends updates that are no user's, and training.record keeps the updates of all; remove one of them"},
		{slices.ContainsFunc(s.Audits, SendsToo), "audit.one_shot", "sends vectors, and audit.one_shot does, too; ask for them in two experiments"},
		{o.Design != "", path + ".design", "has canaries without words; remove " + path + ".design"},
		{o.Words > 0, path + ".words", "has canaries without words; remove " + path + ".words"},
		{o.PlainLoss, path + ".plain_loss", "has canaries without a loss; remove " + path + ".plain_loss"},
	} {
		if c.wrong {
			fail([]string{field, c.path}, "%s", c.reason)
			return false
		}
	}
	return !fail.If(s.Trained > 0 && o.Canaries > s.Trained, []string{path + ".canaries", "model"},
		"is %d, and the model has %d trained parameters; expected at most one canary for each, because their vectors are orthogonal", o.Canaries, s.Trained)
}

// SendsToo reports whether an audit other than this one sends vectors.
func SendsToo(f audits.Fields) bool {
	_, own := f.(*Fields)
	return !own && audits.Sends(f)
}

// VectorParams are the parameters of canaries that are vectors.
type VectorParams struct {
	Seed     uint64 `json:"seed"`
	Canaries int    `json:"canaries"`
	// Watch is the training's watch. If nil, the score is the inner product with the change of the model,
	// with Sign.
	Watch *canaries.Watch `json:"watch,omitempty"`
	Sign  float64         `json:"sign,omitempty"`
}

// Scores of canaries that are vectors.
const (
	ScoreLikelihood = "likelihood-ratio"
	ScoreChange     = "model-change"
)

func (v *VectorParams) units() []audits.Unit {
	return lists.Make(v.Canaries, func(i int) audits.Unit {
		return audits.Unit{Canary: i, Example: -1, Included: canaries.Coin(v.Seed, i)}
	})
}

func (v *VectorParams) scores(ctx context.Context, t *tasks.Task) ([]float64, error) {
	if v.Watch == nil {
		change, err := checkpoints.ReadChange(ctx, t, InitialInput, audits.ModelInput)
		if err != nil {
			return nil, err
		}
		scores := canaries.Blocks{Seed: v.Seed, Count: v.Canaries}.Products(change)
		floats.Scale(v.Sign, scores)
		return scores, nil
	}
	followed, err := v.Watch.Read(ctx, t, audits.ModelInput)
	return lists.Map(followed, func(evidence float32) float64 { return float64(evidence) }), err
}

// independent reports whether canaries do not hide each other: vectors are orthogonal, and their users are
// drawn independently.
func (o *Block) independent(s *audits.Setting) bool {
	return o.Vectors() && s.Training.Sampling != privacy.FixedSize
}

func (f *Fields) compileVectors(b audits.Builder, params BoundParams, model tasks.Input) storage.Key {
	o, s := f.OneRun, b.Setting()
	params.Vectors = &VectorParams{Seed: s.Seed, Canaries: o.Canaries, Watch: f.Watch(s)}
	inputs := []tasks.Input{model, {Name: PopulationInput, Key: b.Population()}}
	if params.Vectors.Watch == nil {
		params.Vectors.Sign = 1
		if s.Training.Central {
			params.Vectors.Sign = -1 // the model moves against the gradient
		}
		inputs = append(inputs, tasks.Input{Name: InitialInput, Key: b.Initial()})
	}
	if o.TradeOff {
		params.Null = NewNull(&s.Training)
		params.Null.Joined, params.Null.Independent = true, o.independent(s)
	}
	return b.Node(Bound, "one-run audit", params, inputs...)
}

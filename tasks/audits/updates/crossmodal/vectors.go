package crossmodal

import (
	"context"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
)

// Vectors are vectors of users.
type Vectors struct {
	// Users are users of the population that was divided into devices, ascending.
	Users  []int `json:"users"`
	Values int   `json:"values"`
	rows   []float32
}

// Row returns the vector of user i of Users.
func (v *Vectors) Row(i int) []float32 { return v.rows[i*v.Values : (i+1)*v.Values] }

// Blobs of the nodes with vectors: a Vectors as JSON, and the values, [users, values], as little-endian
// float32.
const (
	UsersBlob   = "users"
	VectorsBlob = "vectors"
)

func (v *Vectors) write(ctx context.Context, t *tasks.Task) error {
	if err := t.PutJSON(ctx, UsersBlob, v); err != nil {
		return err
	}
	return t.Put(ctx, VectorsBlob, safetensors.AppendFloats(nil, v.rows))
}

func readVectors(ctx context.Context, t *tasks.Task) (*Vectors, error) {
	v := new(Vectors)
	if err := t.InputJSON(ctx, VectorsInput, UsersBlob, v); err != nil {
		return nil, err
	}
	data, err := t.Blob(ctx, VectorsInput, VectorsBlob)
	if err != nil {
		return nil, err
	}
	if v.Values < 1 || len(data) != 4*len(v.Users)*v.Values {
		return nil, fmt.Errorf("%d vectors of %d values in %d bytes: %w", len(v.Users), v.Values, len(data), storage.ErrCorrupt)
	}
	v.rows = make([]float32, len(data)/4)
	safetensors.CopyFloats(v.rows, data)
	return v, nil
}

type GivenParams struct {
	// Sources are the digests of the files.
	Sources []storage.Digest `json:"sources"`
	Limits  source.Limits    `json:"limits"`
}

// Given finds the vectors of users in audit.cross_modal.embeddings, and leaves out users without one. Its
// inputs are those of observed.NamesInputs.
var Given = tasks.Kind{Name: "audits/given-vectors", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(find)}

func find(ctx context.Context, t *tasks.Task, p *GivenParams) error {
	names, err := observed.ReadNames(ctx, t)
	if err != nil {
		return err
	}
	e, err := datasets.ReadImportedEmbeddings(ctx, t, p.Sources, p.Limits)
	if err != nil {
		return err
	}
	numbers := map[string]int{}
	for i, user := range e.Users {
		numbers[user] = i
	}
	v := Vectors{Values: e.Values}
	for user, name := range names.Users {
		if i, there := numbers[name]; there && name != "" {
			v.Users, v.rows = append(v.Users, user), append(v.rows, e.Row(i)...)
		}
	}
	if len(v.Users) == 0 {
		return tasks.Permanent(fmt.Errorf("audit.cross_modal.embeddings has vectors of %d users, such as %q, and of none of the data's, such as %q; expected the names that the data have", len(e.Users), e.Users[0], names.Source[0]))
	}
	return v.write(ctx, t)
}

// OfWords assigns to users with a shadow device the mean vector, by a model's embedding, of the words of the
// device's examples. Its inputs are audits.ModelInput, observed.DevicesInput, population.Input and
// population.ShardsInput.
var OfWords = tasks.Kind{Name: "audits/word-vectors", Version: 1, Class: tasks.Compute, Run: runOfWords}

func runOfWords(ctx context.Context, t *tasks.Task) error {
	words, width, err := wordVectors(ctx, t)
	if err != nil {
		return err
	}
	split, err := devices.Read(ctx, t, observed.DevicesInput)
	if err != nil {
		return err
	}
	pop, err := population.Open(ctx, t, population.Input, population.ShardsInput)
	if err != nil {
		return err
	}
	shadows := map[int]int{} // of each user
	v := Vectors{Values: width}
	for number, d := range split {
		if d.Shadow {
			shadows[d.User] = number
			v.Users = append(v.Users, d.User)
		}
	}
	slices.Sort(v.Users)
	for _, user := range v.Users {
		examples, err := pop.ReadUser(ctx, shadows[user])
		if err != nil {
			return err
		}
		v.rows = append(v.rows, meanOf(examples, words, width)...)
	}
	return v.write(ctx, t)
}

// wordVectors returns the embedding of a model, [tokens, width].
func wordVectors(ctx context.Context, t *tasks.Task) (words []float32, width int, err error) {
	m, err := checkpoints.Read(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, 0, err
	}
	for _, tensor := range m.Network.Tensors() {
		if tensor.Name == models.EmbeddingTensor && len(tensor.Shape) == 2 {
			return m.Params[tensor.Offset : tensor.Offset+tensor.Shape[0]*tensor.Shape[1]], tensor.Shape[1], nil
		}
	}
	return nil, 0, tasks.Permanent(fmt.Errorf("the model has no tensor %q with vectors of words; expected audit.cross_modal.embeddings", models.EmbeddingTensor))
}

// meanOf returns the mean vector of the ordinary words of the examples; zeros without words.
func meanOf(examples [][]int32, words []float32, width int) []float32 {
	sum, n := make([]float64, width), 0
	for _, tokens := range examples {
		for _, token := range tokens {
			if token < text.FirstWord {
				continue
			}
			n++
			for i, x := range words[int(token)*width : (int(token)+1)*width] {
				sum[i] += float64(x)
			}
		}
	}
	return lists.Map(sum, func(x float64) float32 { return float32(x / float64(max(1, n))) })
}

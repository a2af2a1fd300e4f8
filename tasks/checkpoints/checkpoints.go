// Package checkpoints reads and writes the state that passes between the tasks of a training chain:
// the model, the state of its optimizer, and the rows of metrics that a segment of steps collects.
package checkpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/models/vision"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
)

// configField is the metadata field of a model file with its models.Config as JSON, so that a
// checkpoint is self-describing.
const configField = "model"

// frozenField is the metadata field of a model file with the SHA-256 of an imported model file, which
// holds the parameters that no training changes. The file itself holds the trained ones.
const frozenField = "frozen"

// Model is a decoded checkpoint. Tasks of one worker share it: Params MUST NOT be changed.
type Model struct {
	Network models.Network
	// Params is the flat vector of parameters.
	Params []float32
	// Frozen is the imported model file with the parameters after the trained ones; zero if the
	// checkpoint holds them itself.
	Frozen storage.Digest
}

// Read decodes the checkpoint of the named input.
func Read(ctx context.Context, t *tasks.Task, input string) (*Model, error) {
	return memoize(ctx, t, input, tasks.ModelBlob, decoderOf(ctx, t, whole))
}

// decoderOf returns a function that decodes a part and returns its memory in bytes.
func decoderOf(ctx context.Context, t *tasks.Task, part part) func(size int64, read partReader) (*Model, int64, error) {
	return func(size int64, read partReader) (*Model, int64, error) {
		m, err := decode(size, read, part, func(frozen models.Network, digest storage.Digest) ([]float32, error) {
			params, err := Imported(ctx, t, frozen, digest)
			if err != nil {
				return nil, &readError{err}
			}
			return params, nil
		})
		if err != nil {
			return nil, 0, err
		}
		return m, int64(4 * len(m.Params)), nil
	}
}

// memoize decodes the model file of the named input once for all tasks of a worker. name
// distinguishes the decoded forms.
func memoize[T any](ctx context.Context, t *tasks.Task, input, name string, decode func(size int64, read partReader) (T, int64, error)) (T, error) {
	key, err := t.Input(input)
	if err != nil {
		var zero T
		return zero, err
	}
	return tasks.Memoize(t, key, name, func() (T, int64, error) {
		var zero T
		size, read, err := reader(ctx, t, input)
		if err != nil {
			return zero, 0, err
		}
		value, bytes, err := decode(size, read)
		if err, ok := errors.AsType[*readError](err); ok {
			return zero, 0, err.error
		}
		if err != nil {
			return zero, 0, tasks.Permanent(fmt.Errorf("checkpoint %s: %w", key.Short(), err))
		}
		return value, bytes, nil
	})
}

// part is a range of the parameters of a network.
type part func(models.Network) (from, to int)

func whole(n models.Network) (from, to int)   { return 0, n.Parameters() }
func trained(n models.Network) (from, to int) { return 0, n.Trained() }
func fixed(n models.Network) (from, to int)   { return n.Trained(), n.Parameters() }

// ReadTrained decodes the parameters of the checkpoint that learn from data, and ReadFixed the
// parameters after them. A caller that needs only one at a time takes less memory. For a small
// checkpoint both are views of the whole.
func ReadTrained(ctx context.Context, t *tasks.Task, input string) (*Model, error) {
	return readPart(ctx, t, input, "trained", trained)
}

// ReadChange returns the trained parameters of a model minus its initial ones.
func ReadChange(ctx context.Context, t *tasks.Task, initial, trained string) ([]float32, error) {
	before, err := ReadTrained(ctx, t, initial)
	if err != nil {
		return nil, err
	}
	after, err := ReadTrained(ctx, t, trained)
	if err != nil {
		return nil, err
	}
	if len(before.Params) != len(after.Params) {
		return nil, tasks.Permanent(fmt.Errorf("a model of %d trained parameters began with %d; expected equally many", len(after.Params), len(before.Params)))
	}
	change := append([]float32(nil), after.Params...)
	kernels.Axpy(-1, before.Params, change)
	return change, nil
}

// ReadFixed is documented at ReadTrained.
func ReadFixed(ctx context.Context, t *tasks.Task, input string) (*Model, error) {
	return readPart(ctx, t, input, "fixed", fixed)
}

func readPart(ctx context.Context, t *tasks.Task, input, name string, part part) (*Model, error) {
	size, err := t.BlobSize(ctx, input, tasks.ModelBlob)
	if err != nil {
		return nil, err
	}
	h, err := readHeader(ctx, t, input)
	if err != nil {
		return nil, err
	}
	if h.frozen == (storage.Digest{}) && (size <= wholeFile || h.network.Trained() == h.network.Parameters()) {
		return readView(ctx, t, input, part)
	}
	return memoize(ctx, t, input, name, decoderOf(ctx, t, part))
}

// readView returns a part of the whole vector.
func readView(ctx context.Context, t *tasks.Task, input string, part part) (*Model, error) {
	m, err := Read(ctx, t, input)
	if err != nil {
		return nil, err
	}
	from, to := part(m.Network)
	return &Model{m.Network, m.Params[from:to], m.Frozen}, nil
}

// header is the beginning of a model file.
type header struct {
	network models.Network
	frozen  storage.Digest // as Model.Frozen
}

// headerBytes is roughly the size of a header.
const headerBytes = 4 << 10

// readHeader decodes the checkpoint of the named input without its parameters.
func readHeader(ctx context.Context, t *tasks.Task, input string) (header, error) {
	return memoize(ctx, t, input, "header", func(size int64, read partReader) (header, int64, error) {
		file, err := safetensors.OpenParts(size, read)
		if err != nil {
			return header{}, 0, err
		}
		h, err := headerOf(file)
		return h, headerBytes, err
	})
}

// File returns the checkpoint of the named input as a model file with all parameters.
func File(ctx context.Context, t *tasks.Task, input string) ([]byte, error) {
	h, err := readHeader(ctx, t, input)
	if err != nil {
		return nil, err
	}
	if h.frozen == (storage.Digest{}) {
		return t.Blob(ctx, input, tasks.ModelBlob)
	}
	m, err := Read(ctx, t, input)
	if err != nil {
		return nil, err
	}
	return Encode(m.Network, m.Params, nil)
}

// Imported decodes an imported model file of a network, once for all tasks of a worker. The
// parameters MUST NOT be changed.
func Imported(ctx context.Context, t *tasks.Task, network models.Network, digest storage.Digest) ([]float32, error) {
	return tasks.Memoize(t, storage.Key{Digest: digest}, "imported model", func() ([]float32, int64, error) {
		params, err := importedParams(network, digest, func() (io.ReadCloser, error) { return t.Imported(ctx, digest) })
		return params, int64(4 * len(params)), err
	})
}

func importedParams(network models.Network, digest storage.Digest, open func() (io.ReadCloser, error)) ([]float32, error) {
	file, err := open()
	if err != nil {
		return nil, err
	}
	data, err := safetensors.Read(file, MaxFile)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	params := make([]float32, network.Parameters())
	if err := CopyParameters(network, params, data); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("checkpoint %s that the training begins with: %w", digest.Short(), err))
	}
	return params, nil
}

// wholeFile is the size in bytes up to which a model file is read at once.
const wholeFile = 8 << 20

// reader returns the size of a model file, and a reader of its parts. Parts of a large file are
// read from the store, because its bytes would take as much memory as the model.
func reader(ctx context.Context, t *tasks.Task, input string) (int64, partReader, error) {
	size, err := t.BlobSize(ctx, input, tasks.ModelBlob)
	if err != nil {
		return 0, nil, err
	}
	if size > wholeFile {
		return size, func(offset, length int64) ([]byte, error) {
			data, err := t.BlobRange(ctx, input, tasks.ModelBlob, offset, length)
			if err != nil {
				return nil, &readError{err}
			}
			return data, nil
		}, nil
	}
	data, err := t.Blob(ctx, input, tasks.ModelBlob)
	if err != nil {
		return 0, nil, err
	}
	return int64(len(data)), inMemory(data), nil
}

// partReader returns length bytes from offset.
type partReader = func(offset, length int64) ([]byte, error)

func inMemory(data []byte) partReader {
	return func(offset, length int64) ([]byte, error) { return data[offset : offset+length], nil }
}

// readError is an error of reading, not a fault of the file.
type readError struct{ error }

// NewScorer prepares the model for scoring. It is an error unless it is a language model.
func (m *Model) NewScorer() (*models.Scorer, error) {
	language, err := models.LanguageOf(m.Network)
	if err != nil {
		return nil, err
	}
	return language.NewScorer(m.Params)
}

// scorerPart names the scorer of a checkpoint among the values that tasks share.
const scorerPart = "scorer"

// ShareScorer makes ReadScorer return the scorer for a node of a runner, which then needs no
// checkpoint.
func ShareScorer(r *tasks.Runner, node storage.Key, scorer *models.Scorer) {
	r.Share(node, scorerPart, scorer)
}

// ReadScorer prepares the checkpoint of the named input for scoring, once for
// all tasks of a worker.
func ReadScorer(ctx context.Context, t *tasks.Task, input string) (*models.Scorer, error) {
	key, err := t.Input(input)
	if err != nil {
		return nil, err
	}
	return tasks.Memoize(t, key, scorerPart, func() (*models.Scorer, int64, error) {
		m, err := Read(ctx, t, input)
		if err != nil {
			return nil, 0, err
		}
		s, err := m.NewScorer()
		if err != nil {
			return nil, 0, tasks.Permanent(err)
		}
		return s, s.Bytes(), nil
	})
}

// Write stores the parameters as the task's checkpoint.
func Write(ctx context.Context, t *tasks.Task, network models.Network, params []float32) error {
	return (&Model{Network: network}).Write(ctx, t, params)
}

// Write stores the parameters of a training that goes on from the model as the task's checkpoint. If
// the model refers to its frozen parameters, so does the checkpoint.
func (m *Model) Write(ctx context.Context, t *tasks.Task, params []float32) error {
	data, err := (&Model{m.Network, params, m.Frozen}).Encode()
	if err != nil {
		return err
	}
	return t.Put(ctx, tasks.ModelBlob, data)
}

// Encode makes the file of a checkpoint of the model.
func (m *Model) Encode() ([]byte, error) {
	if m.Frozen == (storage.Digest{}) {
		return Encode(m.Network, m.Params, nil)
	}
	return encode(m.Network, m.Params, models.TrainedTensors(m.Network), map[string]string{formatField: referring, frozenField: m.Frozen.String()})
}

// Encode makes a model file: the named tensors of the network, its
// configuration in the metadata, and the added metadata.
func Encode(network models.Network, params []float32, added map[string]string) ([]byte, error) {
	return encode(network, params, network.Tensors(), added)
}

func encode(network models.Network, params []float32, stored []models.Tensor, added map[string]string) ([]byte, error) {
	if err := models.CheckParameters(network, params); err != nil {
		return nil, err
	}
	config, err := json.Marshal(network.Config())
	if err != nil {
		return nil, err
	}
	metadata := map[string]string{configField: string(config)}
	maps.Copy(metadata, added)
	return safetensors.Marshal(lists.Map(stored, func(t models.Tensor) safetensors.Tensor {
		return safetensors.Tensor{Name: t.Name, Shape: t.Shape, Float32: t.View(params)}
	}), metadata)
}

// MaxFile is the size of the largest model file, in bytes.
const MaxFile = 8 + safetensors.MaxHeader + 4*models.MaxParameters

// Decode reads a model file. It must have exactly the network's tensors, with their shapes and
// finite numbers.
func Decode(data []byte) (*Model, error) {
	return decode(int64(len(data)), inMemory(data), whole, func(_ models.Network, digest storage.Digest) ([]float32, error) {
		return nil, fmt.Errorf("model file has the trained parameters only, and refers to the model %s for the others; expected a whole model, as coalmine export writes it", digest.Short())
	})
}

// DecodeStored is Decode for a checkpoint from a store, which may refer to an imported model file there.
func DecodeStored(data []byte, imported func(storage.Digest) (io.ReadCloser, error)) (*Model, error) {
	return decode(int64(len(data)), inMemory(data), whole, func(frozen models.Network, digest storage.Digest) ([]float32, error) {
		return importedParams(frozen, digest, func() (io.ReadCloser, error) { return imported(digest) })
	})
}

// decode reads a part of a model file. imported returns the parameters of an imported file, which has the frozen
// network.
func decode(size int64, read partReader, part part, imported func(frozen models.Network, digest storage.Digest) ([]float32, error)) (*Model, error) {
	file, err := safetensors.OpenParts(size, read)
	if err != nil {
		return nil, err
	}
	h, err := headerOf(file)
	if err != nil {
		return nil, err
	}
	stored, refers := h.network.Tensors(), h.frozen != (storage.Digest{})
	if refers {
		stored = models.TrainedTensors(h.network)
	}
	if err := checkTensors(stored, h.network, file); err != nil {
		return nil, err
	}
	from, to := part(h.network)
	params := make([]float32, to-from)
	views := viewsOf(h.network, params, from)
	if err := file.Floats(func(name string) []float32 { return views[name] }); err != nil {
		return nil, err
	}
	if err := checkFinite(stored, views); err != nil {
		return nil, err
	}
	if trained := h.network.Trained(); refers && to > trained {
		frozen, err := NewNetwork(h.network.Config().Frozen())
		if err != nil {
			return nil, err
		}
		if frozen.Parameters() != h.network.Parameters()-trained {
			return nil, fmt.Errorf("model file: metadata field %q: a %s without adapters has no parameters in another file", frozenField, h.network.Config().Kind)
		}
		base, err := imported(frozen, h.frozen)
		if err != nil {
			return nil, err
		}
		copy(params[trained-from:], base)
	}
	return &Model{h.network, params, h.frozen}, nil
}

// viewsOf returns the tensors in params, which holds the network's parameters from an offset on.
func viewsOf(network models.Network, params []float32, offset int) map[string][]float32 {
	views := make(map[string][]float32)
	for _, t := range network.Tensors() {
		if from := t.Offset - offset; from >= 0 && from < len(params) {
			views[t.Name] = params[from : from+t.Size()]
		}
	}
	return views
}

// modelFormat is the format of model files. As in segments, files of format 1 do not name it.
var modelFormat = storage.Format{Name: "model file", Number: 2}

// referring is the stamp of files with frozenField, which came with format 2. It names no build, because builds
// write equal bytes.
const referring = "2"

func headerOf(file *safetensors.Parts) (h header, err error) {
	if err := modelFormat.Check(storage.ParseStamp(file.Metadata[formatField])); err != nil {
		return h, err
	}
	text, ok := file.Metadata[configField]
	if !ok {
		return h, fmt.Errorf("model file has no metadata field %q with the model's configuration", configField)
	}
	var config models.Config
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return h, fmt.Errorf("model file: metadata field %q: %w", configField, err)
	}
	if digest := file.Metadata[frozenField]; digest != "" {
		if h.frozen, err = storage.ParseDigest(digest); err != nil {
			return h, fmt.Errorf("model file: metadata field %q: %w", frozenField, err)
		}
	}
	h.network, err = NewNetwork(config)
	return h, err
}

// checkTensors compares the file's tensors with those wanted of a network. It trusts no claim of the
// configuration, and allocates nothing, before the file confirms it. first holds dimensions that
// precede the shape of every tensor.
func checkTensors(want []models.Tensor, network models.Network, file *safetensors.Parts, first ...int) error {
	for _, w := range want {
		shape, floats, ok := file.Shape(w.Name)
		if !ok {
			return fmt.Errorf("model file has no tensor %q", w.Name)
		}
		if expected := slices.Concat(first, w.Shape); !slices.Equal(shape, expected) {
			return fmt.Errorf("model file: tensor %q has shape %v, want float32 of %v: part of it is missing, or the configuration is that of another model", w.Name, shape, expected)
		}
		if !floats {
			return fmt.Errorf("model file: tensor %q is not of 32-bit floats: convert it to float32", w.Name)
		}
	}
	if file.Tensors() != len(want) {
		return fmt.Errorf("model file has %d tensors, want the %d of a %s", file.Tensors(), len(want), network.Config().Kind)
	}
	return nil
}

// NotFiniteError reports a tensor with NaN or infinite elements.
type NotFiniteError struct{ Tensor string }

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("model file: tensor %q has values that are not finite: the model's training has diverged, or the file is damaged", e.Tensor)
}

func checkFinite(tensors []models.Tensor, views map[string][]float32) error {
	for _, t := range tensors {
		if _, err := models.FiniteNorm("tensor", views[t.Name]); err != nil {
			return &NotFiniteError{t.Name}
		}
	}
	return nil
}

// ReadOptimizer restores the state of the previous step, if the rule has any. The first step of a
// training must not call it.
func ReadOptimizer(ctx context.Context, t *tasks.Task, rule optimizers.Optimizer) error {
	if len(rule.State()) == 0 {
		return nil
	}
	data, err := t.Blob(ctx, tasks.PreviousInput, tasks.OptimizerBlob)
	if err != nil {
		return err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("optimizer state: %w", err))
	}
	return tasks.Permanent(optimizers.Restore(rule, lists.Map(file.Tensors, func(t safetensors.Tensor) optimizers.NamedVector {
		return optimizers.NamedVector{Name: t.Name, Values: t.Float32}
	})))
}

// WriteOptimizer stores the rule's state beside the checkpoint, if it has any.
func WriteOptimizer(ctx context.Context, t *tasks.Task, rule optimizers.Optimizer) error {
	state := rule.State()
	if len(state) == 0 {
		return nil
	}
	return putVectors(ctx, t, tasks.OptimizerBlob, state)
}

// putVectors stores vectors as a safetensors file.
func putVectors(ctx context.Context, t *tasks.Task, blob string, vectors []optimizers.NamedVector) error {
	data, err := safetensors.Marshal(lists.Map(vectors, func(v optimizers.NamedVector) safetensors.Tensor {
		return safetensors.Tensor{Name: v.Name, Shape: []int{len(v.Values)}, Float32: v.Values}
	}), nil)
	if err != nil {
		return err
	}
	return t.Put(ctx, blob, data)
}

// ClipBlob is stored with the checkpoints of a training with adaptive clipping: the clip norm of
// the next round, as JSON.
const ClipBlob = "clip"

// ReadClip returns the clip norm of the task's round, chosen by the previous round; initial in the
// first.
func ReadClip(ctx context.Context, t *tasks.Task, initial float64) (clip float64, err error) {
	if t.Step <= 1 {
		return initial, nil
	}
	err = t.InputJSON(ctx, tasks.PreviousInput, ClipBlob, &clip)
	return clip, err
}

// WriteClip stores the clip norm of the next round.
func WriteClip(ctx context.Context, t *tasks.Task, clip float64) error {
	data, err := json.Marshal(clip)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("clip norm after round %d: %w", t.Step, err))
	}
	return t.Put(ctx, ClipBlob, data)
}

// CopyParameters sets params, the whole vector of a network, to the tensors of a safetensors file.
// It must have exactly the network's tensors, with their shapes and finite numbers. After an error
// the content of params is undefined.
func CopyParameters(network models.Network, params []float32, data []byte) error {
	if err := models.CheckParameters(network, params); err != nil {
		return err
	}
	return copyTensors(network.Tensors(), network, params, data)
}

// CopyTrained is CopyParameters for the trained tensors alone; params are the trained parameters.
func CopyTrained(network models.Network, params []float32, data []byte) error {
	return copyTensors(models.TrainedTensors(network), network, params[:network.Trained()], data)
}

func copyTensors(tensors []models.Tensor, network models.Network, params []float32, data []byte) error {
	file, err := safetensors.OpenParts(int64(len(data)), inMemory(data))
	if err != nil {
		return err
	}
	if err := checkTensors(tensors, network, file); err != nil {
		return err
	}
	views := viewsOf(network, params, 0)
	if err := file.Floats(func(name string) []float32 { return views[name] }); err != nil {
		return err
	}
	return checkFinite(tensors, views)
}

// NewNetwork checks the configuration and returns its network.
func NewNetwork(config models.Config) (models.Network, error) {
	if config.Kind == models.External {
		return models.NewExternal(config)
	}
	if config.Kind.ForImages() {
		return vision.New(config)
	}
	if config.Kind.ForLabels() {
		return models.NewReader(config)
	}
	return models.New(config)
}

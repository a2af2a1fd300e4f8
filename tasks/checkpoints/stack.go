package checkpoints

import (
	"coalmine/models"
	"coalmine/storage/safetensors"
)

// Stack holds the trained parameters of several models of one network: tensor after tensor, each with
// a first axis over the models. The zero value holds none.
type Stack struct {
	count  int
	values []float32
}

// Read reads a safetensors file of size bytes into the memory of the stack. Its tensors are the
// network's trained ones with a first axis over n models, or without that axis for n = 0. read returns length
// bytes from offset. All numbers must be finite. After an error the content of the stack is
// undefined.
func (s *Stack) Read(network models.Network, n int, size int64, read func(offset, length int64) ([]byte, error)) (metadata map[string]string, err error) {
	file, err := safetensors.OpenParts(size, read)
	if err != nil {
		return nil, err
	}
	var first []int
	if n > 0 {
		first = []int{n}
	}
	tensors := models.TrainedTensors(network)
	if err := checkTensors(tensors, network, file, first...); err != nil {
		return nil, err
	}
	n = max(1, n)
	if length := n * network.Trained(); cap(s.values) < length {
		s.values = make([]float32, length)
	}
	s.count = n
	views := map[string][]float32{}
	for _, t := range tensors {
		views[t.Name] = s.values[n*t.Offset : n*(t.Offset+t.Size())]
	}
	if err := file.Floats(func(name string) []float32 { return views[name] }); err != nil {
		return nil, err
	}
	return file.Metadata, checkFinite(tensors, views)
}

// Copy sets params to the trained parameters of model i, from 0.
func (s *Stack) Copy(network models.Network, i int, params []float32) {
	for _, t := range models.TrainedTensors(network) {
		copy(t.View(params), s.values[s.count*t.Offset+i*t.Size():])
	}
}

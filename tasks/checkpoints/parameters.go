package checkpoints

import (
	"coalmine/models"
	"coalmine/storage/safetensors"
)

// CopyParameters sets params, the whole vector of a network, to the tensors of a safetensors
// file. Every tensor must be there with its shape, no other may be, and all numbers must be
// finite. After an error the content of params is undefined.
func CopyParameters(network models.Network, params []float32, data []byte) error {
	if err := models.CheckParameters(network, params); err != nil {
		return err
	}
	file, err := safetensors.OpenParts(int64(len(data)), inMemory(data))
	if err != nil {
		return err
	}
	if err := checkTensors(network, file); err != nil {
		return err
	}
	views := viewsOf(network, params, 0)
	if err := file.Floats(func(name string) []float32 { return views[name] }); err != nil {
		return err
	}
	return checkFinite(network, views)
}

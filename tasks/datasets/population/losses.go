package population

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"coalmine/storage"
	"coalmine/tasks"
)

// LossesBlob has the mean loss of every record of a population under a model, in nats per token:
// float64, little-endian, in the order of the records.
const LossesBlob = "losses"

// ReadLosses reads the LossesBlob of an input.
func ReadLosses(ctx context.Context, t *tasks.Task, input string) ([]float64, error) {
	data, err := t.Blob(ctx, input, LossesBlob)
	if err != nil {
		return nil, err
	}
	if len(data)%8 != 0 {
		return nil, fmt.Errorf("%s of %d bytes, no list of float64: %w", input, len(data), storage.ErrCorrupt)
	}
	losses := make([]float64, len(data)/8)
	_, err = binary.Decode(data, binary.LittleEndian, losses)
	return losses, err
}

// EncodeLosses returns a LossesBlob.
func EncodeLosses(losses []float64) []byte {
	data := make([]byte, 0, 8*len(losses))
	for _, loss := range losses {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(loss))
	}
	return data
}

package datasets

import (
	"encoding/binary"
	"fmt"
	"io"

	"coalmine/storage"
)

// SentenceWords is the length at which a sentence is cut unless a Reading says
// another: the sequence length, in words, of the paper's models and of TensorFlow
// Federated's Stack Overflow task.
const SentenceWords = 20

// Token ids that no word has. Ordinary words follow from FirstWord in order of
// their frequency in the training part.
const (
	Padding   = 0
	Unknown   = 1 // every word outside the vocabulary
	Begin     = 2
	End       = 3
	FirstWord = 4
)

// frame appends to dst the sentence of the words, as the Stack Overflow task of
// TensorFlow Federated frames it: Begin first, and End last unless the words
// fill a whole sequence, so that inputs and targets are one sequence long at most.
// (google-research/federated, stackoverflow_word_prediction: build_to_ids_fn.)
func frame(dst []int32, words []int32, sequence int) []int32 {
	dst = append(dst, Begin)
	dst = append(dst, words...)
	if len(words) < sequence {
		dst = append(dst, End)
	}
	return dst
}

// WordsOf is the number of words of a sentence, Begin and End not counted.
func WordsOf(sentence []int32) int {
	n := len(sentence) - 1
	if n > 0 && sentence[n] == End {
		n--
	}
	return n
}

// appendExample encodes an example: uvarint number of words, then uvarint ids.
func appendExample[T int32 | uint32](dst []byte, words []T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(words)))
	for _, w := range words {
		dst = binary.AppendUvarint(dst, uint64(w))
	}
	return dst
}

// readExample decodes the example at r, at most a sequence, into dst, which it
// overwrites. Ids must be below the limit.
func readExample[T int32 | uint32](r io.ByteReader, dst []T, sequence, limit int) ([]T, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, damaged(err)
	}
	if n == 0 || n > uint64(sequence) {
		return nil, fmt.Errorf("example of %d words, expected 1 to %d: %w", n, sequence, storage.ErrCorrupt)
	}
	dst = dst[:0]
	for range n {
		w, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, damaged(err)
		}
		if w >= uint64(limit) {
			return nil, fmt.Errorf("token %d, expected one below %d: %w", w, limit, storage.ErrCorrupt)
		}
		dst = append(dst, T(w))
	}
	return dst, nil
}

// damaged makes the end of the data, where more was announced, a corruption.
// Errors of the store pass.
func damaged(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("data ends within an example: %w", storage.ErrCorrupt)
	}
	return err
}

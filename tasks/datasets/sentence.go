package datasets

import (
	"encoding/binary"
	"fmt"
	"io"

	"coalmine/storage"
)

// SentenceWords is the default length at which a Reading cuts sentences: the sequence length, in
// words, of the paper's models and of TensorFlow Federated's Stack Overflow task.
const SentenceWords = 20

// Token ids of special tokens. Ordinary words follow from FirstWord, in descending order of
// frequency in the training part.
const (
	Padding   = 0
	Unknown   = 1 // every word outside the vocabulary
	Begin     = 2
	End       = 3
	FirstWord = 4
)

// frame appends to dst the sentence of the words, as the Stack Overflow task of
// TensorFlow Federated frames it: Begin first, and End last unless the words fill a whole sequence,
// so that inputs and targets have at most the length of a sequence. (google-research/federated,
// stackoverflow_word_prediction: build_to_ids_fn.)
func frame(dst []int32, words []int32, sequence int) []int32 {
	dst = append(dst, Begin)
	dst = append(dst, words...)
	if len(words) < sequence {
		dst = append(dst, End)
	}
	return dst
}

// WordsOf returns the number of words of a sentence, without Begin and End.
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

// damaged turns an unexpected end of the data into storage.ErrCorrupt. It returns other errors
// unchanged.
func damaged(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("data ends within an example: %w", storage.ErrCorrupt)
	}
	return err
}

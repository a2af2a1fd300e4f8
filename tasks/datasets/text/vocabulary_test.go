package text

import (
	"bytes"
	"coalmine/storage"
	"errors"
	"slices"
	"testing"
)

func TestAByteVocabularyIsFixedAndKnown(t *testing.T) {
	t.Parallel()
	v, err := ParseVocabulary(JoinLines(append(slices.Clone(specials), byteSymbols...)))
	if err != nil || v.Ordinary() != Bytes || v.Level() != ByteLevel {
		t.Fatalf("level %q, %d ordinary tokens (%v)", v.Level(), v.Ordinary(), err)
	}
	for b, want := range map[byte]string{'a': "a", ' ': " ", '~': "~", '\n': "<0x0A>", 0: "<0x00>", 0x7f: "<0x7F>", 0xc3: "<0xC3>"} {
		if got := v.Words[FirstWord+int(b)]; got != want {
			t.Errorf("byte %d is written %q, want %q", b, got, want)
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(byteSymbols)))
	if len(distinct) != Bytes {
		t.Errorf("only %d symbols differ", len(distinct))
	}
	if words := NewVocabulary(append(slices.Clone(specials), "the", "of")); words.Level() != WordLevel {
		t.Error("a vocabulary of words passes for one of bytes")
	}
}

func TestFramingFollowsTheStackOverflowTask(t *testing.T) {
	t.Parallel()
	long := slices.Repeat([]int32{9}, SentenceWords)
	if got := Frame(nil, []int32{7, 8}, SentenceWords); !slices.Equal(got, []int32{Begin, 7, 8, End}) {
		t.Errorf("a short sentence is %v", got)
	}
	if got := Frame(nil, long, SentenceWords); len(got) != SentenceWords+1 || got[0] != Begin || got[SentenceWords] != 9 {
		t.Errorf("a full sentence is %v; it must not have an end", got)
	}
	if got := Frame(nil, long[1:], SentenceWords); len(got) != SentenceWords+1 || got[SentenceWords] != End {
		t.Errorf("a sentence one short of full is %v", got)
	}
}

func TestAVocabularyBeginsWithTheSpecialTokens(t *testing.T) {
	t.Parallel()
	words := []string{"pear", "fig"}
	if _, err := ParseVocabulary([]byte("<pad>\n<unk>\nthe\n")); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a vocabulary without specials: %v", err)
	}
	v, err := ParseVocabulary(JoinLines(append(slices.Clone(specials), words...)))
	if err != nil || v.Ordinary() != 2 || v.Size() != 6 || v.Words[FirstWord] != "pear" {
		t.Errorf("got %+v (%v)", v, err)
	}
	if bytes.Contains(JoinLines(nil), []byte("\n")) || len(SplitLines(nil)) != 0 {
		t.Error("no words are no lines")
	}
}

package runs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"coalmine/storage"
)

func TestALongDocumentIsKeptCompressedAndReadsBack(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, longDocument - 1, longDocument, 20 * longDocument} {
		want := Spec{Name: "x", Experiment: bytes.Repeat([]byte("{}"), size/2)}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Spec
		if err := json.Unmarshal(data, &got); err != nil || !bytes.Equal(got.Experiment, want.Experiment) {
			t.Errorf("%d bytes read back as %d, %v", size, len(got.Experiment), err)
		}
		if size > longDocument && len(data) > storage.MaxCreate/100 {
			t.Errorf("%d repetitive bytes take %d", size, len(data))
		}
	}
}

func TestADocumentThatGrowsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for range MaxDocument>>20 + 1 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string][]byte{"a bomb": b.Bytes(), "a cut document": b.Bytes()[:b.Len()/2], "a broken one": gzipMagic} {
		data, err := json.Marshal(stored)
		if err != nil {
			t.Fatal(err)
		}
		var d Document
		if err := json.Unmarshal(data, &d); err == nil || !strings.Contains(err.Error(), "resolved experiment") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := json.Marshal(Document(make([]byte, MaxDocument+1))); err == nil || !strings.Contains(err.Error(), "split its grid") {
		t.Errorf("too large a document: %v", err)
	}
}

func TestADocumentOfAnotherSizeThanItStatesIsRefused(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(bytes.Repeat([]byte("{}"), 1<<20))
	_ = w.Close()
	for _, size := range []uint32{0, 1, 2<<20 - 1, 2<<20 + 1, MaxDocument, MaxDocument + 1, 1<<32 - 1} {
		forged := bytes.Clone(packed.Bytes())
		binary.LittleEndian.PutUint32(forged[len(forged)-4:], size)
		data, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		var d Document
		if err := json.Unmarshal(data, &d); err == nil {
			t.Errorf("%d bytes that state %d are taken", len(d), size)
		}
	}
	if !unpacking.TryAcquire(2 * MaxDocument) {
		t.Error("the memory of refused documents is not given back")
	} else {
		unpacking.Release(2 * MaxDocument)
	}
}

func TestTheSizeOfAPackedRecordIsThatOfTheLargestDocument(t *testing.T) {
	t.Parallel()
	packed, err := json.Marshal(Spec{Experiment: make([]byte, longDocument)})
	if err != nil {
		t.Fatal(err)
	}
	hidden := bytes.Replace(packed, []byte(`"H`), []byte(`"\u0048`), 1)
	plain, err := json.Marshal(Spec{Experiment: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if UnpackedSize(packed) < MaxDocument || UnpackedSize(hidden) < MaxDocument || UnpackedSize(plain) > 1000 {
		t.Errorf("sizes %d, %d and %d", UnpackedSize(packed), UnpackedSize(hidden), UnpackedSize(plain))
	}
}

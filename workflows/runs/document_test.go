package runs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

func TestALongDocumentIsKeptCompressedAndReadsBack(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, longDocument - 1, longDocument, 20 * longDocument} {
		want := Spec{Name: "x", Experiment: bytes.Repeat([]byte("{}"), size/2)}
		data := must.Get(json.Marshal(want))(t)
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
		must.Get(w.Write(make([]byte, 1<<20)))(t)
	}
	must.Do(t, w.Close())
	for name, stored := range map[string][]byte{"a bomb": b.Bytes(), "a cut document": b.Bytes()[:b.Len()/2], "a broken one": gzipMagic} {
		data := must.Get(json.Marshal(stored))(t)
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
		data := must.Get(json.Marshal(forged))(t)
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
	packed := must.Get(json.Marshal(Spec{Experiment: make([]byte, longDocument)}))(t)
	hidden := bytes.Replace(packed, []byte(`"H`), []byte(`"\u0048`), 1)
	plain := must.Get(json.Marshal(Spec{Experiment: []byte("{}")}))(t)
	if UnpackedSize(packed) < MaxDocument || UnpackedSize(hidden) < MaxDocument || UnpackedSize(plain) > 1000 {
		t.Errorf("sizes %d, %d and %d", UnpackedSize(packed), UnpackedSize(hidden), UnpackedSize(plain))
	}
}

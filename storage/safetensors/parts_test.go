package safetensors_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage/safetensors"
)

// opened reads from data, and counts the bytes.
func opened(data []byte) (p *safetensors.Parts, read *int, err error) {
	read = new(int)
	p, err = safetensors.OpenParts(int64(len(data)), func(offset, length int64) ([]byte, error) {
		*read += int(length)
		return data[offset : offset+length], nil
	})
	return p, read, err
}

func TestPartsMatchFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := slices.DeleteFunc(tensors().Draw(t, "tensors"), func(t safetensors.Tensor) bool { return t.Int64 != nil })
		data := must.Get(safetensors.Marshal(list, map[string]string{"a": "1"}))(t)
		p, _, err := opened(data)
		if err != nil || p.Tensors() != len(list) || p.Metadata["a"] != "1" {
			t.Fatalf("%d tensors and %v (%v)", p.Tensors(), p.Metadata, err)
		}
		got := map[string][]float32{}
		for _, w := range list {
			shape, floats, ok := p.Shape(w.Name)
			if !ok || !floats || !slices.Equal(shape, w.Shape) {
				t.Fatalf("tensor %q has shape %v (%v, %v), want %v", w.Name, shape, floats, ok, w.Shape)
			}
			got[w.Name] = make([]float32, len(w.Float32))
		}
		must.Do(t, p.Floats(func(name string) []float32 { return got[name] }))
		for _, w := range list {
			if !slices.Equal(got[w.Name], w.Float32) {
				t.Errorf("tensor %q is %v, want %v", w.Name, got[w.Name], w.Float32)
			}
		}
	})
}

// Three tensors, the second of which spans two parts of the file and the third is in the last.
func TestUnwantedPartsAreNotRead(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	list := []safetensors.Tensor{{Name: "a", Float32: make([]float32, mib)}, {Name: "b", Float32: make([]float32, 2*mib)}, {Name: "c", Float32: make([]float32, mib)}}
	for i := range list {
		n := len(list[i].Float32)
		list[i].Shape = []int{n}
		for j := range n {
			list[i].Float32[j] = float32(j + i)
		}
	}
	data := must.Get(safetensors.Marshal(list, nil))(t)
	for name, most := range map[string]int{"a": 8*mib + 1000, "b": 16*mib + 1000, "c": 8*mib + 1000} {
		p, read, err := opened(data)
		if err != nil {
			t.Fatal(err)
		}
		i := int(name[0] - 'a')
		got := make([]float32, len(list[i].Float32))
		err = p.Floats(func(wanted string) []float32 {
			if wanted == name {
				return got
			}
			return nil
		})
		if err != nil || !slices.Equal(got, list[i].Float32) {
			t.Errorf("tensor %q came back otherwise (%v)", name, err)
		}
		if *read > most {
			t.Errorf("%d bytes were read for tensor %q, want at most %d", *read, name, most)
		}
	}
}

func TestPartsRejectInvalidFilesAndShapes(t *testing.T) {
	t.Parallel()
	data := must.Get(safetensors.Marshal([]safetensors.Tensor{{Name: "n", Shape: []int{1}, Int64: []int64{1}}, {Name: "w", Shape: []int{2}, Float32: []float32{1, 2}}}, nil))(t)
	p, _, err := opened(data)
	if err != nil {
		t.Fatal(err)
	}
	for want, into := range map[string]func(string) []float32{
		`"n" has 1 elements of I64`: func(string) []float32 { return make([]float32, 2) },
		`"w" has 2 elements of F32`: func(name string) []float32 { return map[string][]float32{"w": make([]float32, 3)}[name] },
	} {
		must.Say(t, p.Floats(into), want)
	}
	for n := range len(data) {
		if _, _, err := opened(data[:n]); !errors.Is(err, safetensors.ErrFormat) {
			t.Errorf("the first %d bytes of %d: %v", n, len(data), err)
		}
	}
}

func TestPartsReturnReadErrors(t *testing.T) {
	t.Parallel()
	data := must.Get(safetensors.Marshal([]safetensors.Tensor{{Name: "w", Shape: []int{1}, Float32: []float32{1}}}, nil))(t)
	for fails := range 3 { // the length of the header, the header, the values
		calls := 0
		p, err := safetensors.OpenParts(int64(len(data)), func(offset, length int64) ([]byte, error) {
			if calls++; calls > fails {
				return nil, io.ErrClosedPipe
			}
			return data[offset : offset+length], nil
		})
		if err == nil {
			err = p.Floats(func(string) []float32 { return make([]float32, 1) })
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("read %d fails: %v", fails+1, err)
		}
	}
}

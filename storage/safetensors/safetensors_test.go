package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage/safetensors"
)

func file(header string, data ...byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

func tensors() *rapid.Generator[[]safetensors.Tensor] {
	name := rapid.StringMatching(`[a-z<é"\\]{1,8}`)
	one := rapid.Custom(func(t *rapid.T) safetensors.Tensor {
		out := safetensors.Tensor{Name: name.Draw(t, "name"), Shape: rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")}
		n := 1
		for _, d := range out.Shape {
			n *= d
		}
		if rapid.Bool().Draw(t, "float32") {
			out.Float32 = rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "values")
		} else {
			out.Int64 = rapid.SliceOfN(rapid.Int64(), n, n).Draw(t, "values")
		}
		return out
	})
	return rapid.SliceOfNDistinct(one, 0, 5, func(t safetensors.Tensor) string { return t.Name })
}

func TestMarshalRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := tensors().Draw(t, "tensors")
		metadata := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "metadata")
		data := must.Get(safetensors.Marshal(want, metadata))(t)
		// At an odd address the values must be copied, with the same outcome.
		shift := rapid.IntRange(0, 7).Draw(t, "shift")
		shifted := append(make([]byte, shift), data...)[shift:]
		got := must.Get(safetensors.Unmarshal(shifted))(t)
		if len(got.Tensors) != len(want) || len(metadata) != len(got.Metadata) {
			t.Fatalf("got %+v", got)
		}
		for key, value := range metadata {
			if got.Metadata[key] != value {
				t.Errorf("metadata %q is %q, want %q", key, got.Metadata[key], value)
			}
		}
		for _, w := range want {
			g, ok := got.Tensor(w.Name)
			if !ok || !reflect.DeepEqual(g, w) {
				t.Errorf("got %+v, want %+v", g, w)
			}
		}
	})
}

func TestBytesDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := tensors().Draw(t, "tensors")
		metadata := map[string]string{"b": "2", "a": "1", "c": "3"}
		one := must.Get(safetensors.Marshal(list, metadata))(t)
		other, err := safetensors.Marshal(rapid.Permutation(list).Draw(t, "shuffled"), metadata)
		if err != nil || !bytes.Equal(one, other) {
			t.Fatalf("other bytes in another order (%v)", err)
		}
	})
}

// The bytes of a small file, so that a change of the format is noticed.
func TestBytesOfASmallFile(t *testing.T) {
	t.Parallel()
	got := must.Get(safetensors.Marshal([]safetensors.Tensor{
		{Name: "w", Shape: []int{2, 1}, Float32: []float32{1, -2}},
		{Name: "steps", Int64: []int64{7}},
	}, map[string]string{"kind": "cifg-lstm"}))(t)
	header := `{"__metadata__":{"kind":"cifg-lstm"},"steps":{"dtype":"I64","shape":[],"data_offsets":[0,8]},` +
		`"w":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := file(header, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0)
	if !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestRoundedValuesAreWrittenAsFloat32(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		wide := rapid.SliceOfN(rapid.Float64(), 1, 5).Draw(t, "values")
		var narrow []float32
		for _, v := range wide {
			narrow = append(narrow, float32(v))
		}
		shape := []int{len(wide)}
		got := must.Get(safetensors.Marshal([]safetensors.Tensor{{Name: "w", Shape: shape, Rounded: wide}}, nil))(t)
		want, err := safetensors.Marshal([]safetensors.Tensor{{Name: "w", Shape: shape, Float32: narrow}}, nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q (%v)", got, want, err)
		}
	})
}

func TestAlignedValuesAreNotCopied(t *testing.T) {
	t.Parallel()
	data := must.Get(safetensors.Marshal([]safetensors.Tensor{{Name: "w", Shape: []int{2}, Float32: []float32{1, 2}}}, nil))(t)
	f := must.Get(safetensors.Unmarshal(data))(t)
	binary.LittleEndian.PutUint32(data[len(data)-4:], math.Float32bits(42))
	if got := f.Tensors[0].Float32[1]; got != 42 {
		t.Errorf("after a change of the bytes the value is %v, want 42", got)
	}
}

func TestMarshalRejectsInvalidTensors(t *testing.T) {
	t.Parallel()
	one := []float32{1}
	for what, list := range map[string][]safetensors.Tensor{
		"no name":            {{Float32: one}},
		"a reserved name":    {{Name: "__metadata__", Float32: one}},
		"invalid UTF-8":      {{Name: "\xff", Float32: one}},
		"a name twice":       {{Name: "a", Float32: one}, {Name: "a", Int64: []int64{1}}},
		"no values":          {{Name: "a"}},
		"two sorts":          {{Name: "a", Float32: one, Int64: []int64{1}}},
		"two sorts of reals": {{Name: "a", Float32: one, Rounded: []float64{1}}},
		"too few values":     {{Name: "a", Shape: []int{2}, Float32: one}},
		"too many values":    {{Name: "a", Shape: []int{0}, Float32: one}},
		"negative dimension": {{Name: "a", Shape: []int{-1, -1}, Float32: one}},
		"overflow":           {{Name: "a", Shape: []int{1 << 62, 1 << 62}, Float32: one}},
	} {
		if _, err := safetensors.Marshal(list, nil); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	long, part := map[string]string{}, strings.Repeat("x", safetensors.MaxHeader/20)
	for i := range 20 {
		long[strconv.Itoa(i)] = part
	}
	if _, err := safetensors.Marshal(nil, long); !errors.Is(err, safetensors.ErrLongHeader) {
		t.Errorf("a header that is too long: %v", err)
	}
}

func TestMetadataHoldsMillionsOfWords(t *testing.T) {
	t.Parallel()
	vocabulary := []byte(`["-"`)
	for i := range 2_000_000 {
		vocabulary = strconv.AppendInt(append(vocabulary, `,"`...), int64(i), 36)
		vocabulary = append(vocabulary, '"')
	}
	vocabulary = append(vocabulary, ']')
	data := must.Get(safetensors.Marshal(nil, map[string]string{"vocabulary": string(vocabulary)}))(t)
	back, err := safetensors.Unmarshal(data)
	if err != nil || back.Metadata["vocabulary"] != string(vocabulary) {
		t.Errorf("the vocabulary came back otherwise (%v)", err)
	}
}

func TestUnmarshalRejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	four := []byte{0, 0, 0, 0}
	for want, data := range map[string][]byte{
		"too few":                  {1, 2, 3},
		"claims 18446744073709551": bytes.Repeat([]byte{255}, 20),
		"only 2 follow":            append(binary.LittleEndian.AppendUint64(nil, 5), "{}"...),
		"does not start":           file(" {}"),
		"follow its header's JSON": file("{}x"),
		"twice":                    file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, four...),
		`"k" twice`:                file(`{"__metadata__":{"k":"1","k":"2"}}`),
		"not a text":               file(`{"__metadata__":{"k":1}}`),
		"want an object":           file(`{"__metadata__":[]}`),
		"F16":                      file(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, four...),
		"negative":                 file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, four...),
		"too large":                file(`{"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,4]}}`, four...),
		"claims bytes 0 to 8":      file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, four...),
		"claims bytes -4":          file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, four...),
		"its shape [2] needs 8":    file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, four...),
		"starts at byte 4":         file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}}`, append(four, four...)...),
		"the one before ends at 4": file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, four...),
		"belong to no tensor":      file(`{}`, four...),
		"unknown field":            file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}}`, four...),
		"cannot unmarshal":         file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, four...),
		`tensor "a": EOF`:          file(`{"a":`),
		"ends too early":           file(`{"__metadata__":{"a":"b"`),
	} {
		_, err := safetensors.Unmarshal(data)
		if !errors.Is(err, safetensors.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one that wraps %q and says %q", err, safetensors.ErrFormat, want)
		}
	}
}

// An accepted file is written again and reads back the same.
func FuzzUnmarshal(f *testing.F) {
	seed := must.Get(safetensors.Marshal([]safetensors.Tensor{
		{Name: "w", Shape: []int{2, 2}, Float32: []float32{1, 2, 3, 4}}, {Name: "n", Int64: []int64{1}},
	}, map[string]string{"kind": "cifg-lstm"}))(f)
	f.Add(seed)
	f.Add(file(`{}`))
	f.Add(file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}  `))
	f.Add(file(`{"a":{"dtype":"I64","shape":[9223372036854775807,2],"data_offsets":[0,0]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := safetensors.Unmarshal(data)
		if err != nil {
			if !errors.Is(err, safetensors.ErrFormat) {
				t.Fatalf("%v does not wrap %q", err, safetensors.ErrFormat)
			}
			return
		}
		again, err := safetensors.Marshal(got.Tensors, got.Metadata)
		if err != nil {
			// Others may use names that we do not write.
			if _, reserved := got.Tensor(""); reserved {
				return
			}
			t.Fatal(err)
		}
		second := must.Get(safetensors.Unmarshal(again))(t)
		third, err := safetensors.Marshal(second.Tensors, second.Metadata)
		if err != nil || !bytes.Equal(again, third) || len(got.Tensors) != len(second.Tensors) {
			t.Fatalf("written again it has other bytes (%v)", err)
		}
	})
}

// endless is a file that goes on for ever after its first bytes.
func endless(start []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(start), zeros{})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestReadTakesWholeFilesOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := must.Get(safetensors.Marshal(tensors().Draw(t, "tensors"), map[string]string{"a": "1"}))(t)
		got, err := safetensors.Read(iotest.OneByteReader(bytes.NewReader(data)), int64(len(data)))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes came back as %d (%v)", len(data), len(got), err)
		}
		for n := range data {
			if _, err := safetensors.Read(bytes.NewReader(data[:n]), 1<<30); !errors.Is(err, safetensors.ErrFormat) {
				t.Fatalf("the first %d bytes of %d: %v", n, len(data), err)
			}
		}
	})
}

func TestReadStopsWhereAFileCannotBeRight(t *testing.T) {
	t.Parallel()
	small := file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0, 0)
	large := file(`{"a":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}`)
	for want, r := range map[string]io.Reader{
		"0 bytes are too few": strings.NewReader(""),
		"does not start with": endless(nil),
		"claims 18446744073709551615 bytes, at most 100000000": endless(bytes.Repeat([]byte{255}, 8)),
		"only 4 follow":             strings.NewReader("\xff\xff\x00\x00\x00\x00\x00\x00{}  "),
		"goes on after the 4 bytes": endless(small),
		"is truncated: its tensors claim 4000000000 bytes, only 3 are there": io.MultiReader(bytes.NewReader(large), strings.NewReader("abc")),
		"its shape [2] needs 8": endless(file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`)),
	} {
		if _, err := safetensors.Read(r, 5e9); !errors.Is(err, safetensors.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one that says %q", err, want)
		}
	}
	if _, err := safetensors.Read(endless(large), 4e9); err == nil || !strings.Contains(err.Error(), "claim 4000000000 bytes, at most 3999999920 are allowed") {
		t.Errorf("a file above the limit: %v", err)
	}
	if _, err := safetensors.Read(iotest.ErrReader(io.ErrClosedPipe), 100); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader that fails: %v", err)
	}
}

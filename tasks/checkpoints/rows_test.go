package checkpoints

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
)

func TestNewerFormatsAreRejectedWithTheirBuild(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	must.Do(t, parquet.Write(&file, []Row{{Round: 1}}, parquet.KeyValueMetadata(formatField, "1000 v9.9")))
	network := must.Get(NewNetwork(models.Config{Kind: models.CIFGLSTM, Vocabulary: 5, Embedding: 2, Units: 2}))(t)
	model := must.Get(Encode(network, make([]float32, network.Parameters()), map[string]string{formatField: "1000 v9.9"}))(t)
	_, ofSegment := DecodeSegment(file.Bytes())
	_, ofModel := Decode(model)
	for _, err := range []error{ofSegment, ofModel} {
		if !errors.Is(err, storage.ErrNewer) || !strings.Contains(err.Error(), "written by coalmine v9.9 in format 1000") {
			t.Errorf("error %v", err)
		}
	}
}

func TestSegmentHasColumnsOfNonzeroFields(t *testing.T) {
	t.Parallel()
	plain := []Row{{Round: 1, Loss: 2.5, NoiseDeviation: 0.25}, {Round: 2, Clients: 4}}
	spending := slices.Clone(plain)
	spending[0].Epsilon, spending[0].EpsilonProved = 1.5, 4.25
	spending[1].EpsilonInfinite, spending[1].Stopped = true, true
	validated := slices.Clone(spending)
	validated[1].ValidationLoss = 3.5
	for _, rows := range [][]Row{plain, spending, validated} {
		data := must.Get(writeSegment(rows))(t)
		if got, err := DecodeSegment(data); err != nil || !reflect.DeepEqual(got, rows) {
			t.Errorf("rows came back as %+v (%v), want %+v", got, err, rows)
		}
		file := must.Get(parquet.OpenFile(bytes.NewReader(data), int64(len(data))))(t)
		if _, there := file.Schema().Lookup("epsilon_proved"); there != (rows[0].Epsilon > 0) {
			t.Errorf("a segment with %+v has the columns %v", rows[0], file.Schema())
		}
		if _, there := file.Schema().Lookup("validation_loss"); there != (rows[1].ValidationLoss > 0) {
			t.Errorf("a segment with %+v has the columns %v", rows[1], file.Schema())
		}
	}
}

func TestASegmentKeepsTheNormsOfItsClients(t *testing.T) {
	t.Parallel()
	rows := []Row{{Round: 1, Clients: 3, Norms: QuantilesOf([]float32{3, 1, 2})}, {Round: 2}}
	data := must.Get(writeSegment(rows))(t)
	if got, err := DecodeSegment(data); err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("rows came back as %+v (%v), want %+v", got, err, rows)
	}
}

// Each quantile is the least norm that the share does not exceed.
func TestQuantilesFollowTheirDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		norms := rapid.SliceOfN(rapid.Float32Range(0, 100), 1, 300).Draw(t, "norms")
		before := slices.Clone(norms)
		q := QuantilesOf(norms)
		if !slices.Equal(before, norms) {
			t.Fatal("the norms were sorted in place")
		}
		atMost := func(x float64) (n int) {
			for _, norm := range norms {
				if float64(norm) <= x {
					n++
				}
			}
			return n
		}
		for share, value := range map[int]float64{10: q.Tenth, 25: q.Quarter, 50: q.Median, 75: q.ThreeQuarters, 90: q.NineTenths, 100: q.Largest} {
			if 100*atMost(value) < share*len(norms) || 100*atMost(math.Nextafter(value, -1)) >= share*len(norms) {
				t.Fatalf("%d%%: %v of %v", share, value, norms)
			}
		}
		if q.Min != float64(slices.Min(norms)) {
			t.Fatalf("least %v of %v", q.Min, norms)
		}
	})
}

// A segment without spending has the bytes that it had before there was any.
func TestAPlainSegmentHasNoTraceOfSpending(t *testing.T) {
	t.Parallel()
	rows := []Row{{Round: 1}}
	data := must.Get(writeSegment(rows))(t)
	if bytes.Contains(data, []byte("epsilon")) || bytes.Contains(data, []byte("stopped")) {
		t.Errorf("the segment names columns of a privacy account: %q", data)
	}
}

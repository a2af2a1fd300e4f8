package open_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/storage/storagetest"
)

func TestMeteredStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.InProcess(func() storage.Store { return open.Meter(storagetest.NewMemory(), nil) }))
}

func TestOperationsAndBytesAreCountedByOutcome(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	registry := prometheus.NewPedanticRegistry()
	faulty := storagetest.WithFaults(storagetest.NewMemory())
	store := open.Meter(faulty, registry)

	must.Do(t, store.Put(ctx, "a/put", bytes.NewReader(make([]byte, 1000)), storage.Durable))
	must.Do(t, store.Create(ctx, "a/created", make([]byte, 10)))
	if err := store.Create(ctx, "a/created", []byte("again")); !errors.Is(err, storage.ErrExists) {
		t.Fatal(err)
	}
	body := must.Get(store.Get(ctx, "a/put", 100, 400))(t)
	_, err := io.Copy(io.Discard, body)
	must.Do(t, errors.Join(err, body.Close()))
	if _, err := store.Get(ctx, "a/none", 0, -1); !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	for range store.List(ctx, "a/") {
		break // stopping early counts as a listing, too
	}
	for range store.Children(ctx, "a") {
	}
	must.Do(t, store.Delete(ctx, "a/put"))
	faulty.Add(&storagetest.Fault{Err: errors.New("no answer")})
	if _, err := store.Head(ctx, "a/created"); err == nil {
		t.Fatal("the fault did not show")
	}

	if n := store.Operations(); n != 9 {
		t.Errorf("%d operations, want 9", n)
	}

	const want = `
# HELP coalmine_store_operations_total Operations on the store, by outcome: ok, absent, exists or error.
# TYPE coalmine_store_operations_total counter
coalmine_store_operations_total{operation="children",outcome="ok"} 1
coalmine_store_operations_total{operation="create",outcome="exists"} 1
coalmine_store_operations_total{operation="create",outcome="ok"} 1
coalmine_store_operations_total{operation="delete",outcome="ok"} 1
coalmine_store_operations_total{operation="get",outcome="absent"} 1
coalmine_store_operations_total{operation="get",outcome="ok"} 1
coalmine_store_operations_total{operation="head",outcome="error"} 1
coalmine_store_operations_total{operation="list",outcome="ok"} 1
coalmine_store_operations_total{operation="put",outcome="ok"} 1
# HELP coalmine_store_read_bytes_total Bytes of objects read from the store.
# TYPE coalmine_store_read_bytes_total counter
coalmine_store_read_bytes_total 400
# HELP coalmine_store_written_bytes_total Bytes of objects written to the store, without those of writes that failed.
# TYPE coalmine_store_written_bytes_total counter
coalmine_store_written_bytes_total 1010
`
	err = testutil.GatherAndCompare(registry, strings.NewReader(want),
		"coalmine_store_operations_total", "coalmine_store_read_bytes_total", "coalmine_store_written_bytes_total")
	if err != nil {
		t.Error(err)
	}
}

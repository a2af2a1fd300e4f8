package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/s3"
	"coalmine/storage/storagetest"
)

func TestMain(m *testing.M) { storagetest.Main(m) }

func TestVersitygwKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	var stores atomic.Int64
	storagetest.Run(t, storagetest.Driver{
		Location: func(testing.TB) string { return server.URL(fmt.Sprintf("tests/%d", stores.Add(1))) },
		Open:     func(t testing.TB, location string) storage.Store { return openS3(t, server, location) },
		ChildEnv: server.Env(),
	})
}

func openS3(t testing.TB, server *testserver.S3, location string) *s3.Store {
	t.Helper()
	return must.Get(s3.OpenConfig(t.Context(), configFor(t, server, location)))(t)
}

func configFor(t testing.TB, server *testserver.S3, location string) s3.Config {
	t.Helper()
	config := must.Get(s3.ParseURL(location))(t)
	config.AccessKey, config.SecretKey = server.AccessKey, server.SecretKey
	return config
}

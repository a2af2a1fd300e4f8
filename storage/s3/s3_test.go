package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

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
	s, err := s3.OpenConfig(t.Context(), configFor(t, server, location))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func configFor(t testing.TB, server *testserver.S3, location string) s3.Config {
	t.Helper()
	config, err := s3.ParseURL(location)
	if err != nil {
		t.Fatal(err)
	}
	config.AccessKey, config.SecretKey = server.AccessKey, server.SecretKey
	return config
}

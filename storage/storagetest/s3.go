package storagetest

import (
	"context"
	"testing"

	"coalmine/storage/s3"
)

// OpenS3 opens the store at an s3:// URL with these credentials; s3.Open would take
// those of the environment, which all tests of a process share.
func OpenS3(t testing.TB, url, accessKey, secretKey string) *s3.Store {
	t.Helper()
	config, err := s3.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	config.AccessKey, config.SecretKey = accessKey, secretKey
	store, err := s3.OpenConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

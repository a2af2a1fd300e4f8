package storagetest

import (
	"context"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage/s3"
)

// OpenS3 opens the store at an s3:// URL with these credentials; s3.Open would use
// those of the environment, which all tests of a process share.
func OpenS3(t testing.TB, url, accessKey, secretKey string) *s3.Store {
	t.Helper()
	config := must.Get(s3.ParseURL(url))(t)
	config.AccessKey, config.SecretKey = accessKey, secretKey
	store := must.Get(s3.OpenConfig(context.Background(), config))(t)
	return store
}

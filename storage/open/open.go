// Package open finds the driver for a store's URL. It stands apart from package
// storage because the drivers import that.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/s3"
)

// Open opens the store at a URL: s3://bucket/prefix?endpoint=… (see
// s3.ParseURL), file:///path, or the path of a directory.
func Open(ctx context.Context, location string) (storage.Store, error) {
	scheme, _, isURL := strings.Cut(location, "://")
	switch {
	case location == "":
		return nil, fmt.Errorf("no store named: want s3://bucket/prefix?endpoint=http://host:port, or a directory")
	case !isURL:
		return openDir(location)
	case scheme == "s3":
		return openS3(ctx, location)
	case scheme == "file":
		return openFileURL(location)
	}
	// Not the whole location: what is no store's URL may hold a password.
	return nil, fmt.Errorf("store URL: there is no driver for %q; want s3:// or file://, or a directory", scheme+"://")
}

func openFileURL(location string) (storage.Store, error) {
	u, err := url.Parse(location)
	if err != nil || u.Host != "" || u.Path == "" || u.RawQuery != "" {
		return nil, errors.New("store URL: want file:///absolute/path")
	}
	return openDir(filepath.FromSlash(u.Path))
}

// The drivers return pointers; a nil one must not become a Store that is not nil.

func openDir(path string) (storage.Store, error) {
	s, err := dir.Open(path)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openS3(ctx context.Context, location string) (storage.Store, error) {
	s, err := s3.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Package open finds the driver for a store's URL, and counts the operations on the store (Meter).
// It is separate from package storage because the drivers import that.
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
// s3.ParseURL), file:///path, or the path of a directory, see Path.
func Open(ctx context.Context, location string) (storage.Store, error) {
	scheme := ""
	if found := schemeLike.FindStringSubmatch(location); found != nil {
		scheme = strings.ToLower(found[1])
	}
	switch isURL := strings.Contains(location, "://"); {
	case location == "":
		return nil, fmt.Errorf("no store named: want s3://bucket/prefix?endpoint=http://host:port, or a directory")
	case scheme == "s3" && isURL:
		return openS3(ctx, scheme+location[len(scheme):])
	case scheme == "file":
		return openFileURL(scheme + location[len(scheme):])
	case isURL:
		// Not the whole location: an invalid URL may hold a password.
		name, _, _ := strings.Cut(location, "://")
		return nil, fmt.Errorf("store URL: there is no driver for %q; want s3:// or file://, or a directory", name+"://")
	}
	path, err := Path(location)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnsuitable, err)
	}
	return Dir(path)
}

func openFileURL(location string) (storage.Store, error) {
	u, err := url.Parse(location)
	if err != nil || u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/") || u.RawQuery != "" || u.ForceQuery || strings.Contains(location, "#") {
		return nil, errors.New("store URL: want file:///absolute/path, with # and ? in it as %23 and %3F")
	}
	return Dir(filepath.FromSlash(u.Path))
}

// Dir opens the store in a directory with any name.
func Dir(path string) (storage.Store, error) {
	s, err := dir.Open(path)
	if err != nil { // a nil pointer must not become a Store that is not nil
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

package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"coalmine/internal/dataformats"
	"coalmine/storage"
	"coalmine/storage/s3"
)

// Served finds the sources that a server reads for its clients: uploaded ones, and those that its operator allows.
type Served struct {
	Archive *storage.Archive
	// Allowed are the allowed sources. nil allows none.
	Allowed *Allowed
}

// Find implements Finder. An uploaded source is identified by its digest; its name is ignored.
func (s Served) Find(ctx context.Context, name, digest string) (*Source, error) {
	if entry, ok := strings.CutPrefix(name, StorePrefix); ok {
		return Library{Archive: s.Archive}.Find(ctx, entry)
	}
	if d, err := storage.ParseDigest(digest); err == nil {
		there, err := s.Archive.HasSource(ctx, d)
		if err != nil {
			return nil, err
		}
		if there {
			return &Source{Name: name, Files: []*File{storedFile(s.Archive, name, d)}}, nil
		}
	}
	return s.Allowed.Find(ctx, name, digest)
}

// Allowed lists the locations from which a server may read sources, including subdirectories.
type Allowed struct {
	places  []place
	buckets []bucket
}

// place is a directory, or one file in it.
type place struct {
	path, real string // absolute; real has no symbolic links
	root       *os.Root
	only       string // the only allowed file, "" for all
}

// bucket is a bucket, or a part of one.
type bucket struct {
	config s3.Config
	key    string // of an object, or a prefix that is empty or ends in a slash
}

// Allow parses the names of files, directories and s3:// URLs. A symbolic link is followed if it stays inside an
// allowed directory. In S3, a name that ends in a slash is a prefix, and the endpoint is part of the permission.
func Allow(names []string) (*Allowed, error) {
	a := &Allowed{}
	for _, name := range names {
		if err := a.add(name); err != nil {
			return nil, fmt.Errorf("allowed source: %w", err)
		}
	}
	return a, nil
}

func (a *Allowed) add(name string) error {
	if isS3(name) {
		config, key, err := s3.ParseObjectURL(name)
		a.buckets = append(a.buckets, bucket{config, key})
		return err
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	p := place{path: path}
	if !info.IsDir() {
		p.path, p.only = filepath.Split(path)
		p.path = filepath.Clean(p.path)
	}
	if p.real, err = filepath.EvalSymlinks(p.path); err != nil {
		return err
	}
	// The root stays open, because a later replacement of the directory was not allowed.
	p.root, err = os.OpenRoot(p.path)
	a.places = append(a.places, p)
	return err
}

// Find implements Finder. It refuses a source that is not allowed before any access, with an error that
// does not reveal whether the source exists.
func (a *Allowed) Find(ctx context.Context, name, _ string) (*Source, error) {
	if a == nil {
		return nil, refused(name)
	}
	if isS3(name) {
		return a.findS3(ctx, name)
	}
	outcome := refused(name)
	for _, p := range a.places {
		inner, ok := p.within(name)
		if !ok {
			continue
		}
		source, err := findIn(p.root.FS(), filepath.ToSlash(inner), filepath.Join(p.path, inner))
		if err == nil {
			return source, nil
		}
		if pathError, ok := errors.AsType[*fs.PathError](err); ok {
			err = fault(name, "cannot be read: %w", pathError.Err)
		}
		outcome = err
	}
	return nil, outcome
}

// within returns the path from the place to name, or false if name is outside. A relative name is relative
// to the place.
func (p *place) within(name string) (inner string, ok bool) {
	inner = filepath.Clean(name)
	for _, root := range []string{p.path, p.real} {
		if rel, err := filepath.Rel(root, inner); filepath.IsAbs(inner) && err == nil && filepath.IsLocal(rel) {
			inner = rel
		}
	}
	return inner, filepath.IsLocal(inner) && (p.only == "" || inner == p.only)
}

func (a *Allowed) findS3(ctx context.Context, url string) (*Source, error) {
	config, key, err := s3.ParseObjectURL(url)
	if err != nil {
		return nil, fault("s3 source", "%w", err) // not the URL, which may hold credentials
	}
	if !slices.ContainsFunc(a.buckets, func(b bucket) bool { return b.holds(config, key) }) {
		return nil, refused(url)
	}
	return findS3(ctx, url)
}

func (b *bucket) holds(config s3.Config, key string) bool {
	if config != b.config {
		return false
	}
	prefix := b.key == "" || strings.HasSuffix(b.key, "/")
	return key == b.key || prefix && strings.HasPrefix(key, b.key) && !leaves(key)
}

// leaves reports whether a key could leave a prefix on a server that treats keys as paths.
func leaves(key string) bool {
	segments := strings.FieldsFunc(key, func(r rune) bool { return r == '/' || r == '\\' })
	return slices.Contains(segments, "..") || slices.Contains(segments, ".")
}

func refused(name string) error {
	return fault(name, "this server may not read it; upload the data (coalmine submit does) and give data.sha256, or ask the operator to start the server with --allow-source")
}

// findS3 finds one object, or the objects directly below a prefix that ends in a slash.
func findS3(ctx context.Context, url string) (*Source, error) {
	config, key, err := s3.ParseObjectURL(url)
	if err != nil {
		return nil, err
	}
	bucket, err := s3.NewBucket(config)
	if err != nil {
		return nil, err
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return listS3(ctx, bucket, key)
	}
	object, err := bucket.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, end := range databaseParts(key) {
		// Without permission to list a bucket, a missing object is indistinguishable from a forbidden one,
		// so only a part that is found counts.
		if part, err := bucket.Stat(ctx, key+end); err == nil && part.Size > 0 {
			return nil, fault(url, "%w", dataformats.UnfinishedTFF(path.Base(key), end))
		}
	}
	return &Source{Name: url, Files: []*File{objectFile(bucket, object)}}, nil
}

// databaseParts are the suffixes of objects that hold a part of a database.
func databaseParts(key string) []string {
	if strings.HasSuffix(key, ".sqlite") {
		return []string{dataformats.WALEnd, dataformats.JournalEnd}
	}
	return nil
}

func listS3(ctx context.Context, bucket *s3.Bucket, prefix string) (*Source, error) {
	files, inner, err := listBelow(ctx, bucket, prefix)
	if err != nil {
		return nil, err
	}
	return newSource(bucket.URL(prefix), files, inner, func(split string) (string, []*File, []string, error) {
		below := prefix + split + "/"
		found, deeper, err := listBelow(ctx, bucket, below)
		return bucket.URL(below), found, deeper, err
	})
}

// listBelow lists the data objects and the prefixes directly below a prefix.
func listBelow(ctx context.Context, bucket *s3.Bucket, prefix string) (files []*File, inner []string, err error) {
	parts := map[string]bool{}
	for object, err := range bucket.List(ctx, prefix) {
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimPrefix(object.Key, prefix)
		parts[name] = object.Size > 0 && (strings.HasSuffix(name, dataformats.WALEnd) || strings.HasSuffix(name, dataformats.JournalEnd))
		if directory, ok := strings.CutSuffix(name, "/"); ok && directory != "" && !isHidden(directory) {
			inner = append(inner, directory)
		}
		if isData(name) {
			files = append(files, objectFile(bucket, object))
		}
	}
	for _, f := range files {
		name := path.Base(f.Name)
		for _, end := range databaseParts(name) {
			if parts[name+end] {
				return nil, nil, fault(f.Name, "%w", dataformats.UnfinishedTFF(name, end))
			}
		}
	}
	return files, inner, nil
}

func objectFile(bucket *s3.Bucket, object s3.Object) *File {
	open := func(ctx context.Context) (io.ReadCloser, error) { return bucket.Open(ctx, object) }
	return &File{Name: bucket.URL(object.Key), Size: object.Size, Open: open}
}

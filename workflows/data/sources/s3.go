package sources

import (
	"context"
	"io"
	"path"
	"strings"

	"coalmine/internal/dataformats"
	"coalmine/storage/s3"
)

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
		// Without permission to list a bucket, a missing object is indistinguishable from a
		// forbidden one: only a part that is found counts.
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
	switch {
	case err != nil:
		return nil, err
	case len(inner) == 0:
		return newDirectory(bucket.URL(prefix), files)
	case len(files) > 0:
		return nil, subdirectory(bucket.URL(prefix), inner[0])
	}
	for _, split := range inner {
		found, deeper, err := listBelow(ctx, bucket, prefix+split+"/")
		if err != nil {
			return nil, err
		}
		if len(deeper) > 0 {
			return nil, subdirectory(bucket.URL(prefix+split+"/"), deeper[0])
		}
		for _, f := range found {
			f.Split = split
		}
		files = append(files, found...)
	}
	return newDivided(bucket.URL(prefix), files)
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
	return &File{Name: bucket.URL(object.Key), Open: open}
}
